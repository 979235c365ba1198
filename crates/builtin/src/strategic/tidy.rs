//! Removes what must not reach the object when a patch brings a value that was not there before.

use serde_json::Value;

use super::{DELETE_FROM, DIRECTIVE, ORDER_OF, RETAIN_KEYS};

/// Drops null members of objects, also inside lists.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k, without_nulls(v)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Drops directives; None when the value itself is to be deleted.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(mut map) => {
            if map
                .remove(DIRECTIVE)
                .is_some_and(|directive| directive == "delete")
            {
                return None;
            }
            let directive =
                |key: &str| key == RETAIN_KEYS || key.starts_with(ORDER_OF) || key.starts_with(DELETE_FROM);
            let kept = map.into_iter().filter(|(key, _)| !directive(key));
            Some(
                kept.filter_map(|(key, value)| Some((key, without_directives(value)?)))
                    .collect(),
            )
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}
