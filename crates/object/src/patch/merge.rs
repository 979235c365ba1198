//! JSON merge patch (RFC 7396).

use serde_json::{Map, Value};

use super::{PatchError, go_type};

/// Applies a JSON merge patch the way the API server does.
///
/// Where that differs from RFC 7396: nulls are also dropped from objects inside lists, unless the
/// list takes the place of an object.
pub fn merge_patch(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    match (document, patch) {
        (_, Value::Null) => Err(PatchError::NotAnObject),
        (Value::Object(document), Value::Object(patch)) => {
            merge_objects(document, patch);
            Ok(())
        }
        (document, Value::Object(_)) => {
            *document = without_nulls(patch);
            Ok(())
        }
        (_, other) => Err(PatchError::Decode(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(other)
        ))),
    }
}

fn merge_objects(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, change) in patch {
        if change.is_null() {
            document.remove(key);
            continue;
        }
        match (document.get_mut(key), change) {
            (Some(Value::Object(current)), Value::Object(change)) => merge_objects(current, change),
            (Some(current @ Value::Object(_)), _) => *current = change.clone(),
            (Some(current), _) => *current = without_nulls(change),
            (None, _) => {
                document.insert(key.clone(), without_nulls(change));
            }
        }
    }
}

/// A copy in which no object, also inside lists, has a null. Nulls that are items of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// The merge patch that turns `old` into `new`.
///
/// Lists are replaced whole. A merge patch cannot set a field to null: where `new` has one, the
/// patch removes the field.
pub fn diff_merge(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, new) in new {
        match old.get(key) {
            Some(old) if old == new => {}
            Some(old @ Value::Object(_)) if new.is_object() => {
                patch.insert(key.clone(), diff_merge(old, new));
            }
            _ => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}
