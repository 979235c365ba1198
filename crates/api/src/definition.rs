//! The custom resource definitions of our kinds, made from their types.

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;
use serde_json::{Map, Value, json};
use skopos_schema::Structural;

use crate::{Record, Rule, RuleTest, Sink};

/// The definitions of our kinds, as an API server takes them: Record, Rule, Sink.
pub fn definitions() -> Vec<Value> {
    vec![
        definition(&Record::crd(), &[]),
        definition(&Rule::crd(), &[]),
        definition(&Sink::crd(), &[one_destination()]),
    ]
}

/// The schema by which objects of a kind are checked, if it is one of ours.
pub(crate) fn schema(kind: &str) -> Option<&'static Structural> {
    static SCHEMAS: OnceLock<Vec<(String, Structural)>> = OnceLock::new();
    let all = || {
        let mut all = definitions();
        all.push(definition(&RuleTest::crd(), &[]));
        all.iter().map(read_schema).collect()
    };
    let found = SCHEMAS.get_or_init(all).iter().find(|(name, _)| name == kind);
    found.map(|(_, schema)| schema)
}

fn read_schema(definition: &Value) -> (String, Structural) {
    let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = Structural::from_json(schema).expect("made from our types: a test reads each");
    (kind.to_owned(), schema)
}

/// A definition with the rules that its specification must keep.
fn definition(crd: &CustomResourceDefinition, rules: &[Value]) -> Value {
    let mut definition = serde_json::to_value(crd).expect("a definition is plain data");
    let Some(schema) = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") else {
        return definition;
    };
    let about = schema["properties"]["spec"]["description"].clone();
    tidy(schema);
    schema["description"] = about;
    if !rules.is_empty() {
        schema["properties"]["spec"]["x-kubernetes-validations"] = rules.into();
    }
    definition
}

/// Takes out what only Rust needs: number formats that no API server knows, line breaks, `null` beside absence.
fn tidy(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    for key in ["title", "nullable"] {
        node.remove(key);
    }
    if node
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| format.starts_with("uint"))
    {
        node.remove("format");
    }
    for key in ["minimum", "maximum"] {
        whole_number(node, key);
    }
    if let Some(Value::String(text)) = node.get_mut("description") {
        *text = text.replace('\n', " ").replace("[`", "`").replace("`]", "`");
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(tidy);
        if let Some(conditions) = properties.get_mut("conditions") {
            conditions["x-kubernetes-list-type"] = "map".into();
            conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
        }
    }
    for key in ["items", "additionalProperties"] {
        node.get_mut(key).into_iter().for_each(tidy);
    }
}

/// `1.0` as `1`.
fn whole_number(node: &mut Map<String, Value>, key: &str) {
    let number = node.get(key).and_then(Value::as_f64);
    if let Some(number) = number.filter(|number| number.fract() == 0.0) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "bounds of types and of ours, all small"
        )]
        node.insert(key.to_owned(), json!(number as i64));
    }
}

fn one_destination() -> Value {
    let given: Vec<String> = crate::sink::DESTINATIONS
        .iter()
        .map(|name| format!("has(self.{name})"))
        .collect();
    json!({
        "rule": format!("[{}].filter(given, given).size() == 1", given.join(", ")),
        "message": format!("exactly one destination must be given: {}", crate::sink::DESTINATIONS.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::PathBuf};

    use skopos_object::yaml;

    use super::*;

    fn defaulted(mut definition: Value) -> Value {
        skopos_schema::crd::default_crd(&mut definition);
        definition
    }

    #[test]
    fn definitions_are_the_published_ones() {
        for definition in definitions() {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("crds/{plural}.yaml"));
            let text = yaml::encode(&definition);
            if env::var_os("UPDATE").is_some() {
                fs::write(&path, &text).unwrap();
            }
            let published = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(
                published,
                text,
                "{} is out of date: run with UPDATE=1",
                path.display()
            );
        }
    }

    #[test]
    fn every_kind_has_a_schema_and_a_definition_that_passes_the_checks() {
        for kind in ["Rule", "Sink", "Record", "RuleTest"] {
            assert!(schema(kind).is_some(), "{kind}");
        }
        assert!(schema("Pod").is_none());
        for definition in definitions() {
            let errors = skopos_schema::crd::validate_crd(&defaulted(definition), None);
            assert!(errors.is_empty(), "{errors:?}");
        }
    }
}
