//! Objects as JSON and YAML, as kubectl lays them out.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize as _;
use serde_json::{Value, json};
use skopos_object::yaml;

/// For people, or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How whole objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectFormat {
    Yaml,
    Json,
}

/// Writes objects to be applied: as a list, or one document after the other.
pub(crate) fn manifests(out: &mut impl Write, format: ObjectFormat, objects: Vec<Value>) -> io::Result<()> {
    match format {
        ObjectFormat::Json => documents(out, format, objects, false),
        ObjectFormat::Yaml => objects
            .iter()
            .try_for_each(|object| write!(out, "---\n{}", yaml::encode(object))),
    }
}

/// Writes one object as it is, or several as a list.
pub(crate) fn documents(
    out: &mut impl Write,
    format: ObjectFormat,
    mut objects: Vec<Value>,
    single: bool,
) -> io::Result<()> {
    let value = match objects.pop() {
        Some(only) if single && objects.is_empty() => only,
        last => {
            objects.extend(last);
            json!({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}})
        }
    };
    match format {
        ObjectFormat::Json => json_document(out, &value),
        ObjectFormat::Yaml => out.write_all(yaml::encode(&value).as_bytes()),
    }
}

fn json_document(out: &mut impl Write, value: &Value) -> io::Result<()> {
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut *out, indent);
    value.serialize(&mut writer)?;
    writeln!(out)
}

/// Drops the field owners, which nobody reads.
pub(crate) fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(objects: Vec<Value>, single: bool) -> String {
        let mut out = Vec::new();
        documents(&mut out, ObjectFormat::Json, objects, single).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_object_asked_for_by_name_stands_alone() {
        assert_eq!(text(vec![json!({"a": 1})], true), "{\n    \"a\": 1\n}\n");
    }

    #[test]
    fn anything_else_is_a_list() {
        for (objects, n) in [(vec![], 0), (vec![json!({"a": 1})], 1)] {
            let value: Value = serde_json::from_str(&text(objects, false)).unwrap();
            assert_eq!(value["kind"], "List");
            assert_eq!(value["items"].as_array().unwrap().len(), n);
        }
    }

    #[test]
    fn managed_fields_are_dropped() {
        let object = json!({"metadata": {"name": "a", "managedFields": []}});
        assert_eq!(without_managed_fields(object), json!({"metadata": {"name": "a"}}));
    }
}
