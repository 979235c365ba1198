//! Lists of type set and map: no item, and no key, may occur twice.

use std::collections::HashMap;

use serde_json::{Map, Value};
use skopos_object::{FieldError, FieldPath};

use crate::path::At;
use crate::structural::{Cursor, ListType, Structural};

/// Up to this many items a list is searched pair by pair, which needs no memory.
const MAX_PAIRWISE: usize = 16;

/// Checks that sets and map lists hold nothing twice.
///
/// With `old`, an object that broke this before may go on breaking it.
pub fn validate_list_types(schema: &Structural, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !schema.below.list_types {
        return errors;
    }
    value(schema, &At::Root, new, &mut errors);
    if let (false, Some(old)) = (errors.is_empty(), old) {
        let mut before = Vec::new();
        value(schema, &At::Root, old, &mut before);
        if !before.is_empty() {
            errors.clear();
        }
    }
    errors
}

fn value(schema: &Structural, at: &At<'_>, value: &Value, errors: &mut Vec<FieldError>) {
    if !schema.below.list_types {
        return;
    }
    match value {
        Value::Object(map) => fields(schema, at, map, errors),
        Value::Array(items) => list(schema, at, items, errors),
        _ => {}
    }
}

fn fields(schema: &Structural, at: &At<'_>, map: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    if let Some(values) = schema.additional_properties() {
        for (name, field) in map {
            value(values, &At::Key(at, name), field, errors);
        }
    }
    let mut cursor = Cursor::new(schema);
    for (name, field) in map {
        if let Some(property) = cursor.seek(name) {
            value(property, &At::Field(at, name), field, errors);
        }
    }
}

fn list(schema: &Structural, at: &At<'_>, items: &[Value], errors: &mut Vec<FieldError>) {
    match schema.list_type {
        Some(ListType::Set) => {
            let same = |a: usize, b: usize| items[a] == items[b];
            for index in second_occurrences(items.len(), same, |index| items[index].to_string()) {
                errors.push(FieldError::duplicate(&path(at, index), items[index].clone()));
            }
        }
        Some(ListType::Map) => map_list(schema, at, items, errors),
        Some(ListType::Atomic) | None => {}
    }
    if let Some(item_schema) = schema.items() {
        for (index, item) in items.iter().enumerate() {
            value(item_schema, &At::Index(at, index), item, errors);
        }
    }
}

fn map_list(schema: &Structural, at: &At<'_>, items: &[Value], errors: &mut Vec<FieldError>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path(at, index), items[index].clone(), why));
        return;
    }
    let keys = schema.keys();
    let same = |a: usize, b: usize| {
        let (a, b) = (&items[a], &items[b]);
        keys.iter().all(|key| a.get(key.as_ref()) == b.get(key.as_ref()))
    };
    let duplicates = second_occurrences(items.len(), same, |index| {
        identity(keys, &items[index]).to_string()
    });
    for index in duplicates {
        errors.push(FieldError::duplicate(
            &path(at, index),
            identity(keys, &items[index]),
        ));
    }
}

/// The keys of an item that it has.
fn identity(keys: &[Box<str>], item: &Value) -> Value {
    let present = keys
        .iter()
        .filter_map(|key| Some((key.to_string(), item.get(key.as_ref())?.clone())));
    Value::Object(present.collect())
}

fn path(at: &At<'_>, index: usize) -> FieldPath {
    FieldPath::root().child(&At::Index(at, index).bracketed())
}

/// The indexes at which an item is seen for the second time. Third times are not reported.
///
/// Short lists are compared pair by pair with `same`, which needs no memory; long ones by `key`.
fn second_occurrences(
    count: usize,
    same: impl Fn(usize, usize) -> bool,
    key: impl Fn(usize) -> String,
) -> Vec<usize> {
    let mut found = Vec::new();
    if count <= MAX_PAIRWISE {
        for index in 1..count {
            if (0..index).filter(|earlier| same(*earlier, index)).count() == 1 {
                found.push(index);
            }
        }
        return found;
    }
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(count);
    for index in 0..count {
        let times = seen.entry(key(index)).or_insert(0);
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
