//! Drops what a schema does not know: unknown fields, and nulls where null is no value.

use serde_json::Value;

use crate::path::At;
use crate::structural::{Additional, Cursor, Structural};

/// Whether the value given to [`prune`] is a whole object with its own type and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A Kubernetes object: `apiVersion`, `kind` and `metadata` are kept without being in the schema.
    Resource,
    /// Any other value.
    Plain,
}

/// Arrays nested deeper than this inside an unknown field are emptied: the recursion must end.
const MAX_UNKNOWN_DEPTH: usize = 256;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops fields that the schema does not specify and returns their paths in order, as `spec.list[0].foo`.
///
/// A strict request reports each as `unknown field "spec.list[0].foo"`. Nothing is allocated when there is
/// nothing to drop.
pub fn prune(schema: &Structural, value: &mut Value, root: Root) -> Vec<String> {
    let mut pruned = Vec::new();
    let resource = root == Root::Resource || schema.embedded;
    match schema.preserve_unknown {
        true => keep(schema, value, resource, &At::Root, &mut pruned),
        false => known(schema, value, resource, &At::Root, &mut pruned),
    }
    pruned.sort_unstable();
    pruned
}

fn descend(schema: Option<&Structural>, value: &mut Value, at: &At<'_>, pruned: &mut Vec<String>) {
    match schema {
        None => unknown(value, at, 0, pruned),
        Some(schema) if schema.preserve_unknown => keep(schema, value, schema.embedded, at, pruned),
        Some(schema) => known(schema, value, schema.embedded, at, pruned),
    }
}

fn known(schema: &Structural, value: &mut Value, resource: bool, at: &At<'_>, pruned: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let mut cursor = Cursor::new(schema);
            map.retain(|name, field| {
                let meta = META_FIELDS.contains(&name.as_str());
                let property = cursor.seek(name);
                if resource && meta {
                    return true;
                }
                let here = At::Field(at, name);
                match (property, &schema.additional) {
                    (Some(property), _) => descend(Some(property), field, &here, pruned),
                    (None, Additional::Schema(values)) => descend(Some(values), field, &here, pruned),
                    (None, Additional::Bool(_)) => descend(None, field, &here, pruned),
                    (None, Additional::Unset) => {
                        // The root's own type and metadata are never "unknown", even where they are dropped.
                        if !meta || !matches!(at, At::Root) {
                            pruned.push(here.dotted());
                        }
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                descend(schema.items(), item, &At::Index(at, index), pruned);
            }
        }
        _ => {}
    }
}

fn unknown(value: &mut Value, at: &At<'_>, depth: usize, pruned: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            pruned.extend(map.keys().map(|name| At::Field(at, name).dotted()));
            map.clear();
        }
        Value::Array(items) if depth >= MAX_UNKNOWN_DEPTH => items.clear(),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                unknown(item, &At::Index(at, index), depth + 1, pruned);
            }
        }
        _ => {}
    }
}

/// Walks a value whose unknown fields stay, pruning inside the fields that the schema specifies.
fn keep(schema: &Structural, value: &mut Value, resource: bool, at: &At<'_>, pruned: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let mut cursor = Cursor::new(schema);
            for (name, field) in map.iter_mut() {
                let property = cursor.seek(name);
                if resource && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                let here = At::Field(at, name);
                match (property, &schema.additional) {
                    (Some(property), _) => descend(Some(property), field, &here, pruned),
                    (None, Additional::Schema(values)) => descend(Some(values), field, &here, pruned),
                    (None, Additional::Bool(_)) => descend(None, field, &here, pruned),
                    (None, Additional::Unset) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter_mut().enumerate() {
                keep(schema, item, schema.embedded, &At::Index(at, index), pruned);
            }
        }
        _ => {}
    }
}

/// Drops nulls from fields that are neither nullable nor defaulted.
///
/// A null in a field with a default stays: [`crate::default`] replaces it.
pub fn prune_nulls(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let mut cursor = Cursor::new(schema);
            map.retain(|name, field| {
                let Some(schema) = cursor.seek(name).or_else(|| schema.additional_properties()) else {
                    return true;
                };
                if field.is_null() {
                    return schema.nullable || schema.default.is_some();
                }
                prune_nulls(schema, field);
                true
            });
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for item in items {
                prune_nulls(schema, item);
            }
        }
        _ => {}
    }
}
