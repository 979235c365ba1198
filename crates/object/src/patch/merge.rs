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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: Value, patch: Value, expect: &Value) {
        let mut merged = document.clone();
        merge_patch(&mut merged, &patch).unwrap();
        assert_eq!(&merged, expect, "{document} with {patch}");
    }

    #[test]
    fn merges_objects_and_replaces_the_rest() {
        check(json!({"a": 1}), json!({"a": 2}), &json!({"a": 2}));
        check(json!({"a": 1}), json!({"b": 2}), &json!({"a": 1, "b": 2}));
        check(json!({"a": 1, "b": 2}), json!({"a": null}), &json!({"b": 2}));
        check(
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": null, "d": {"e": null}}}),
            &json!({"a": {"c": 2, "d": {}}}),
        );
        check(json!({"a": [1, 2]}), json!({"a": [3]}), &json!({"a": [3]}));
        check(
            json!({"a": 1}),
            json!({"a": {"b": null, "c": 1}}),
            &json!({"a": {"c": 1}}),
        );
        check(json!({"a": null}), json!({"a": {"b": null}}), &json!({"a": {}}));
        check(json!({"a": 1}), json!({}), &json!({"a": 1}));
    }

    #[test]
    fn drops_nulls_in_lists_unless_an_object_was_there() {
        let list = json!({"a": [{"x": null, "y": 1}, null]});
        check(json!({}), list.clone(), &json!({"a": [{"y": 1}, null]}));
        check(json!({"a": [1]}), list.clone(), &json!({"a": [{"y": 1}, null]}));
        check(json!({"a": {}}), list, &json!({"a": [{"x": null, "y": 1}, null]}));
    }

    #[test]
    fn refuses_what_is_not_an_object() {
        let error = merge_patch(&mut json!({}), &json!([])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
        assert_eq!(
            merge_patch(&mut json!({}), &json!(null)).unwrap_err().to_string(),
            "Invalid JSON Patch"
        );
    }

    #[test]
    fn makes_the_smallest_patch() {
        for (old, new, expect) in [
            (
                json!({"a": 1, "b": {"c": 1, "d": 2}}),
                json!({"a": 1, "b": {"c": 2, "d": 2}}),
                json!({"b": {"c": 2}}),
            ),
            (json!({"a": 1}), json!({}), json!({"a": null})),
            (json!({"a": [1]}), json!({"a": [1, 2]}), json!({"a": [1, 2]})),
            (json!({"a": {}}), json!({"a": 1}), json!({"a": 1})),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 1}}), json!({})),
        ] {
            assert_eq!(diff_merge(&old, &new), expect);
        }
    }
}
