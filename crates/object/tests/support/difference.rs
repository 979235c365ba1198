//! Applying differences by a simple model, to compare with.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use skopos_object::FieldChange;

pub(crate) fn without_nulls(value: &Value) -> Value {
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

/// The value with lists of named items in an order of their own: differences do not say the order.
pub(crate) fn as_sets(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), as_sets(value)))
            .collect(),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(as_sets).collect();
            if ["name", "type"].iter().any(|key| ids(&items, key).is_some()) {
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

fn ids<'a>(items: &'a [Value], key: &str) -> Option<BTreeSet<&'a str>> {
    let ids: Option<Vec<&str>> = items
        .iter()
        .map(|item| item.get(key)?.as_str().filter(|id| !id.is_empty()))
        .collect();
    let ids = ids?;
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    (unique.len() == ids.len()).then_some(unique)
}

/// Applies differences by their meaning, from their values alone.
///
/// The model does not parse paths: it walks old values and looks for the change whose path is the
/// one it stands at, so that it also checks that paths are well formed.
pub(crate) fn apply_changes(old: Value, changes: &[FieldChange]) -> Value {
    apply_at(Some(old), changes, "").unwrap_or(Value::Null)
}

fn apply_at(old: Option<Value>, changes: &[FieldChange], path: &str) -> Option<Value> {
    if let Some(change) = changes.iter().find(|change| change.path == path) {
        assert_eq!(change.old, old, "at {path}");
        return change.new.clone();
    }
    let below: Vec<&FieldChange> = changes
        .iter()
        .filter(|change| is_below(&change.path, path))
        .collect();
    match old {
        Some(Value::Object(map)) if !below.is_empty() => {
            Some(Value::Object(apply_to_map(&map, changes, path)))
        }
        Some(Value::Array(items)) if !below.is_empty() => {
            Some(Value::Array(apply_to_list(items, changes, path)))
        }
        other => other,
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| parent.is_empty() || rest.starts_with(['.', '[']))
}

fn apply_to_map(map: &Map<String, Value>, changes: &[FieldChange], path: &str) -> Map<String, Value> {
    let mut keys: BTreeSet<String> = map.keys().cloned().collect();
    keys.extend(changes.iter().filter_map(|change| added_key(change, path)));
    let mut out = Map::new();
    for key in keys {
        let child = child_path(path, &key);
        if let Some(value) = apply_at(map.get(&key).cloned(), changes, &child) {
            out.insert(key, value);
        }
    }
    out
}

fn child_path(path: &str, key: &str) -> String {
    let simple = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match (simple, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{}]", bracketed(key)),
    }
}

/// The key that an addition right below `path` adds, if `change` is one.
fn added_key(change: &FieldChange, path: &str) -> Option<String> {
    if change.old.is_some() {
        return None;
    }
    let rest = change.path.strip_prefix(path)?;
    let key = match rest.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => rest.strip_prefix('.').unwrap_or(rest),
    };
    let key = serde_json::from_str::<String>(key).unwrap_or_else(|_| key.to_owned());
    (child_path(path, &key) == change.path).then_some(key)
}

fn bracketed(key: &str) -> String {
    let odd = key.is_empty() || key.contains(['[', ']', '"']);
    if odd {
        Value::from(key).to_string()
    } else {
        key.to_owned()
    }
}

fn apply_to_list(items: Vec<Value>, changes: &[FieldChange], path: &str) -> Vec<Value> {
    let keyed = ["name", "type"].into_iter().find(|key| {
        let prefix = format!("{path}[{key}=");
        changes.iter().any(|change| change.path.starts_with(&prefix))
    });
    let place = |i: usize, item: &Value| match keyed.and_then(|key| Some((key, item.get(key)?.as_str()?))) {
        Some((key, id)) => format!("{path}[{key}={}]", bracketed(id)),
        None => format!("{path}[{i}]"),
    };
    let mut out = Vec::new();
    let known: BTreeSet<String> = items.iter().enumerate().map(|(i, item)| place(i, item)).collect();
    for (i, item) in items.into_iter().enumerate() {
        let place = place(i, &item);
        out.extend(apply_at(Some(item), changes, &place));
    }
    let added = changes
        .iter()
        .filter(|change| change.old.is_none() && !known.contains(&change.path));
    let direct = added.filter(|change| is_item_of(&change.path, path, keyed));
    out.extend(direct.filter_map(|change| change.new.clone()));
    out
}

fn is_item_of(path: &str, list: &str, keyed: Option<&str>) -> bool {
    let Some(inside) = path
        .strip_prefix(list)
        .and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'))
    else {
        return false;
    };
    match keyed {
        Some(key) => inside
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('=') && !rest.contains('[')),
        None => inside.parse::<usize>().is_ok(),
    }
}
