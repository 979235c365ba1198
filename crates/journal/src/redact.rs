//! What never reaches the disk.

use std::fmt;

use serde_json::{Value, json};
use skopos_object::Object;

/// What stands where a value was.
pub const REDACTED: &str = "[redacted]";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The path of a field, such as `spec.password`, `spec.users[*].token`, `metadata.annotations[example.com/key]` or
/// `data.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A field of an object, or an item of a list by number.
    Named(String),
    /// Every field or item.
    Every,
}

/// A text is not the path of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not the path of a field: {what}")]
pub struct BadPath {
    path: String,
    what: &'static str,
}

impl FieldPath {
    /// Reads a path.
    pub fn parse(path: &str) -> Result<Self, BadPath> {
        let bad = |what| BadPath {
            path: path.into(),
            what,
        };
        let mut steps = Vec::new();
        let mut rest = path.strip_prefix('.').unwrap_or(path);
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (name, after) = inside.split_once(']').ok_or_else(|| bad("a [ has no ]"))?;
                steps.push(Step::new(name.trim_matches(['\'', '"'])));
                rest = after.strip_prefix('.').unwrap_or(after);
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                if name.is_empty() {
                    return Err(bad("there is nothing between two dots"));
                }
                steps.push(Step::new(name));
                rest = after.strip_prefix('.').unwrap_or(after);
            }
        }
        if steps.is_empty() {
            return Err(bad("it is empty"));
        }
        match names_identity(&steps) {
            true => Err(bad("what an object is known by cannot be taken out of it")),
            false => Ok(Self(steps)),
        }
    }
}

/// Whether taking this out would make one object look like another.
fn names_identity(path: &[Step]) -> bool {
    let name = |step: &Step| match step {
        Step::Named(name) => name.clone(),
        Step::Every => "metadata".into(),
    };
    let identity = ["name", "namespace", "uid", "resourceVersion", "generation"];
    match path.first().map(name).as_deref() {
        Some("apiVersion" | "kind") => true,
        Some("metadata") => match path.get(1) {
            Some(Step::Named(field)) => identity.contains(&field.as_str()),
            Some(Step::Every) | None => true,
        },
        _ => false,
    }
}

impl Step {
    fn new(name: &str) -> Self {
        match name {
            "*" => Self::Every,
            _ => Self::Named(name.into()),
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Every => f.write_str("[*]")?,
                Step::Named(name) if name.contains('.') => write!(f, "[{name}]")?,
                Step::Named(name) if i == 0 => f.write_str(name)?,
                Step::Named(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// Takes out of objects what must not be written down: the data of Secrets, the annotation in which kubectl keeps the
/// whole object, and what was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    paths: Vec<FieldPath>,
}

impl Redactor {
    pub(crate) fn new(paths: Vec<FieldPath>) -> Self {
        Self { paths }
    }

    pub(crate) fn redact(&self, object: Object) -> Object {
        let is_secret = object.kind() == "Secret" && object.api_version() == "v1";
        // The text is only taken apart if there is something to take out.
        if !is_secret && self.paths.is_empty() && !contains(object.bytes(), LAST_APPLIED.as_bytes()) {
            return object;
        }
        let mut value = object.to_value();
        if is_secret {
            for data in ["data", "stringData"] {
                blank(&mut value, &[Step::Named(data.into()), Step::Every]);
            }
        }
        if let Some(annotations) = value
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
        for path in &self.paths {
            blank(&mut value, &path.0);
        }
        match Object::from_value(&value) {
            Ok(redacted) => redacted,
            // Too deep to be taken apart: better nothing of it than all.
            Err(_) => bare(&object),
        }
    }
}

/// Only what an object is known by.
fn bare(object: &Object) -> Object {
    let value = json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "metadata": {
            "name": object.name(),
            "namespace": object.namespace(),
            "uid": object.uid(),
            "resourceVersion": object.resource_version().as_str(),
        },
    });
    Object::from_value(&value).expect("six plain strings of an object make an object")
}

fn blank(value: &mut Value, path: &[Step]) {
    let Some((step, rest)) = path.split_first() else {
        *value = Value::String(REDACTED.into());
        return;
    };
    match (value, step) {
        (Value::Object(fields), Step::Every) => fields.values_mut().for_each(|field| blank(field, rest)),
        (Value::Array(items), Step::Every) => items.iter_mut().for_each(|item| blank(item, rest)),
        (Value::Object(fields), Step::Named(name)) => {
            if let Some(field) = fields.get_mut(name) {
                blank(field, rest);
            }
        }
        (Value::Array(items), Step::Named(name)) => {
            let item = name.parse().ok().and_then(|i: usize| items.get_mut(i));
            if let Some(item) = item {
                blank(item, rest);
            }
        }
        _ => {}
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], object: &Value, expected: &Value) {
        let paths = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        let redacted = Redactor::new(paths).redact(Object::from_value(object).unwrap());
        assert_eq!(redacted.to_value(), *expected);
    }

    #[test]
    fn the_data_of_secrets_is_taken_out() {
        check(
            &[],
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "czNjcjN0", "b": ""}}),
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": REDACTED, "b": REDACTED}}),
        );
    }

    #[test]
    fn the_annotation_that_repeats_the_object_is_taken_out() {
        check(
            &[],
            &json!({"metadata": {"annotations": {LAST_APPLIED: "{\"data\":{\"a\":\"s3cr3t\"}}", "keep": "1"}}}),
            &json!({"metadata": {"annotations": {"keep": "1"}}}),
        );
    }

    #[test]
    fn paths_that_were_asked_for_are_taken_out() {
        check(
            &[
                "spec.password",
                "spec.users[*].token",
                "metadata.annotations[example.com/key]",
                "spec.list[1]",
            ],
            &json!({"metadata": {"annotations": {"example.com/key": "k"}}, "spec": {
                "password": {"plain": "x"}, "users": [{"name": "a", "token": "t"}, {"name": "b"}], "list": [1, 2]}}),
            &json!({"metadata": {"annotations": {"example.com/key": REDACTED}}, "spec": {
                "password": REDACTED, "users": [{"name": "a", "token": REDACTED}, {"name": "b"}], "list": [1, REDACTED]}}),
        );
    }

    #[test]
    fn of_what_is_too_deep_only_the_name_stays() {
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        let text =
            format!(r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"data":{deep}}}"#);
        if let Ok(object) = Object::parse(text.into()) {
            let redacted = Redactor::default().redact(object);
            assert_eq!((redacted.name(), redacted.raw(&["data"])), ("s", None));
        }
    }

    #[test]
    fn what_has_nothing_to_hide_is_left_as_it_is() {
        let object = Object::parse(br#"{ "kind": "Pod",  "metadata": {} }"#.to_vec().into()).unwrap();
        assert_eq!(Redactor::default().redact(object.clone()), object);
    }

    #[test]
    fn paths_that_make_no_sense_are_refused() {
        for path in [
            "",
            ".",
            "a..b",
            "a[b",
            "metadata",
            "metadata.name",
            "metadata[*]",
            "*",
            "kind",
        ] {
            assert!(FieldPath::parse(path).is_err(), "{path:?}");
        }
        assert_eq!(
            FieldPath::parse(".spec.users[*].token").unwrap().to_string(),
            "spec.users[*].token"
        );
    }
}
