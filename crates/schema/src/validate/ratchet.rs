//! Matches old and new parts of an object, so that an update is not blamed for what it leaves alone.

use serde_json::{Map, Value};

use crate::structural::{ListType, Structural};

/// Whether a value is unchanged, as far as the schema lets its parts be matched.
///
/// A field without schema cannot be matched, so an object that has one counts as changed.
pub fn unchanged(schema: &Structural, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new
                    .iter()
                    .all(|(name, new)| match (schema.field(name), old.get(name)) {
                        (Some(schema), Some(old)) => unchanged(schema, new, old),
                        _ => false,
                    })
        }
        (Value::Array(new), Value::Array(old)) => new.len() == old.len() && items_unchanged(schema, new, old),
        _ => new == old,
    }
}

fn items_unchanged(schema: &Structural, new: &[Value], old: &[Value]) -> bool {
    match schema.items() {
        Some(item_schema) if schema.list_type == Some(ListType::Map) => new
            .iter()
            .all(|item| find_item(schema, old, item).is_some_and(|old| unchanged(item_schema, item, old))),
        _ => new == old,
    }
}

/// The item of a map list with the same keys. Items that lack a key match nothing.
pub fn find_item<'v>(schema: &Structural, old: &'v [Value], item: &Value) -> Option<&'v Value> {
    let item = item.as_object()?;
    let keys = schema.keys();
    if keys.is_empty() || !keys.iter().all(|key| scalar(item, key).is_some()) {
        return None;
    }
    old.iter().find(|candidate| {
        candidate.as_object().is_some_and(|candidate| {
            keys.iter()
                .all(|key| scalar(candidate, key).is_some_and(|value| scalar(item, key) == Some(value)))
        })
    })
}

fn scalar<'v>(item: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    item.get(key)
        .filter(|value| value.is_boolean() || value.is_number() || value.is_string())
}
