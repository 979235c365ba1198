//! Reads and writes replicas by the paths of a scale subresource.

use serde_json::{Map, Value};
use skopos_object::{FieldError, FieldPath};

use crate::gofmt::plain;

/// The paths of a scale subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    spec_replicas: Path,
    status_replicas: Path,
    label_selector: Option<Path>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Path {
    source: String,
}

/// A path leads to a value of the wrong type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} accessor error: {value} is of the type {actual}, expected {expected}")]
pub struct ScalePathError {
    path: String,
    value: String,
    actual: &'static str,
    expected: &'static str,
}

/// Which replica count is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicas {
    /// The wanted count.
    Spec,
    /// The observed count.
    Status,
}

impl Scale {
    /// Reads `subresources.scale` of a CRD version.
    #[must_use]
    pub fn from_json(scale: &Value) -> Option<Scale> {
        let path = |key: &str| {
            let source = scale.get(key).and_then(Value::as_str)?;
            Some(Path {
                source: source.to_owned(),
            })
        };
        Some(Scale {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            label_selector: path("labelSelectorPath"),
        })
    }

    /// The replica count, if the object has one.
    ///
    /// # Errors
    /// Fails if the path leads to something that is no integer.
    pub fn replicas(&self, which: Replicas, object: &Value) -> Result<Option<i64>, ScalePathError> {
        let path = self.path(which);
        match path.find(object)? {
            None => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| path.error(value, "int64")),
        }
    }

    /// The label selector as text, if the CRD has a path for it and the object a value.
    ///
    /// # Errors
    /// Fails if the path leads to something that is no text.
    pub fn selector<'v>(&self, object: &'v Value) -> Result<Option<&'v str>, ScalePathError> {
        let Some(path) = &self.label_selector else {
            return Ok(None);
        };
        match path.find(object)? {
            None => Ok(None),
            Some(value) => value
                .as_str()
                .map(Some)
                .ok_or_else(|| path.error(value, "string")),
        }
    }

    /// Sets the wanted replica count, making objects on the way.
    ///
    /// # Errors
    /// Fails if something on the way is no object.
    pub fn set_replicas(&self, object: &mut Value, replicas: i64) -> Result<(), ScalePathError> {
        let path = &self.spec_replicas;
        let mut at = object;
        for name in path.names() {
            if !at.is_object() {
                return Err(path.error(at, "map[string]interface{}"));
            }
            let Some(map) = at.as_object_mut() else {
                return Ok(());
            };
            at = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
        }
        *at = replicas.into();
        Ok(())
    }

    /// The path of a replica count as the CRD wrote it.
    #[must_use]
    pub fn replicas_path(&self, which: Replicas) -> &str {
        &self.path(which).source
    }

    /// Checks that the counts are small non-negative integers and the selector a text.
    ///
    /// A status update checks only the status: pass [`Replicas::Status`].
    #[must_use]
    pub fn validate(&self, which: Replicas, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if which == Replicas::Spec {
            errors.extend(self.check_count(Replicas::Spec, object));
        }
        errors.extend(self.check_count(Replicas::Status, object));
        if let (Some(path), Err(error)) = (&self.label_selector, self.selector(object)) {
            let field = FieldPath::root().child(&path.source);
            errors.push(FieldError::invalid(&field, "", error.to_string()));
        }
        errors
    }

    fn check_count(&self, which: Replicas, object: &Value) -> Option<FieldError> {
        let path = FieldPath::root().child(self.replicas_path(which));
        match self.replicas(which, object) {
            Err(error) => Some(FieldError::invalid(&path, 0, error.to_string())),
            Ok(Some(count)) if count < 0 => Some(FieldError::invalid(
                &path,
                count,
                "should be a non-negative integer",
            )),
            Ok(Some(count)) if count > i64::from(i32::MAX) => {
                let why = format!("should be less than or equal to {}", i32::MAX);
                Some(FieldError::invalid(&path, count, why))
            }
            Ok(_) => None,
        }
    }

    fn path(&self, which: Replicas) -> &Path {
        match which {
            Replicas::Spec => &self.spec_replicas,
            Replicas::Status => &self.status_replicas,
        }
    }
}

impl Path {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.source.strip_prefix('.').unwrap_or(&self.source).split('.')
    }

    fn find<'v>(&self, object: &'v Value) -> Result<Option<&'v Value>, ScalePathError> {
        let mut at = object;
        for (depth, name) in self.names().enumerate() {
            match at {
                Value::Object(map) => match map.get(name) {
                    None => return Ok(None),
                    Some(value) => at = value,
                },
                // A null on the way is the same as nothing there.
                Value::Null => return Ok(None),
                other => return Err(self.error_at(depth, other, "map[string]interface{}")),
            }
        }
        Ok(Some(at))
    }

    fn error(&self, value: &Value, expected: &'static str) -> ScalePathError {
        self.error_at(usize::MAX, value, expected)
    }

    fn error_at(&self, depth: usize, value: &Value, expected: &'static str) -> ScalePathError {
        let path: Vec<&str> = self.names().take(depth.saturating_add(1)).collect();
        ScalePathError {
            path: format!(".{}", path.join(".")),
            value: go_value(value),
            actual: go_type(value),
            expected,
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%v`, which shows maps and slices in its own brackets.
fn go_value(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}:{}", go_value(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Replicas, Scale};

    fn scale() -> Scale {
        Scale::from_json(&json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }))
        .unwrap()
    }

    fn check(object: &Value, expected: &[&str]) {
        let errors = scale().validate(Replicas::Spec, object);
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn accepts_missing_and_small_counts() {
        check(&json!({}), &[]);
        check(
            &json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a=b"}}),
            &[],
        );
    }

    #[test]
    fn refuses_counts_out_of_range() {
        check(
            &json!({"spec": {"replicas": -1}}),
            &[".spec.replicas: Invalid value: -1: should be a non-negative integer"],
        );
        check(
            &json!({"status": {"replicas": 4_294_967_296_i64}}),
            &[".status.replicas: Invalid value: 4294967296: should be less than or equal to 2147483647"],
        );
    }

    #[test]
    fn refuses_values_of_the_wrong_type() {
        check(
            &json!({"spec": {"replicas": "x"}}),
            &[
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
            ],
        );
        check(
            &json!({"spec": {"replicas": 12_345_678.9}}),
            &[
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1.23456789e+07 is of the type float64, expected int64",
            ],
        );
        check(
            &json!({"spec": {"replicas": {"b": 1, "a": [1, "x"]}}}),
            &[
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: map[a:[1 x] b:1] is of the type map[string]interface {}, expected int64",
            ],
        );
        check(
            &json!({"status": {"selector": 5}}),
            &[
                ".status.selector: Invalid value: \"\": .status.selector accessor error: 5 is of the type int64, expected string",
            ],
        );
    }

    #[test]
    fn sets_replicas_on_a_bare_object() {
        let mut object = json!({});
        scale().set_replicas(&mut object, 4).unwrap();
        assert_eq!(object, json!({"spec": {"replicas": 4}}));
    }
}
