//! Strategic merge patch: JSON merge patch that knows which lists are maps in disguise.

mod order;
mod tidy;

use serde_json::{Map, Value};

use crate::kind::Kind;
use crate::types::{Id, Ty};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER_OF: &str = "$setElementOrder/";

/// Why a strategic merge patch could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// `$patch` has a value that is not a directive here.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// The value of `$patch`.
        directive: String,
        /// The object it was found in.
        map: String,
    },
    /// `$patch: merge` on a list item.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    /// A list item lacks the field by which items are matched.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The field it lacks.
        key: &'static str,
    },
    /// `$retainKeys` is not a list that names every key of the patch.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder/…` or `$deleteFromPrimitiveList/…` is not a list.
    #[error("expected a []interface {{}}, but received a {0}")]
    NotAList(&'static str),
    /// Items of a patched list are not in the order that `$setElementOrder/…` gives.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    Order {
        /// Its items in the patch.
        patch: String,
        /// The wanted order.
        order: String,
    },
    /// The patch has a field that the kind does not have.
    #[error("unable to find api field in struct {owner} for the json field {field:?}")]
    UnknownField {
        /// The Go struct.
        owner: &'static str,
        /// The field.
        field: String,
    },
    /// A list of objects without a merge key, or a list of mixed items.
    #[error("cannot merge lists without merge key for {0}")]
    NoKeyForList(String),
}

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic_merge(kind: &Kind, document: &Value, patch: &Value) -> Result<Value, MergeError> {
    let Value::Object(patch) = patch else {
        return Ok(document.clone());
    };
    let original = document.as_object().cloned().unwrap_or_default();
    merge_map(original, patch.clone(), Schema::Object(kind.ty)).map(Value::Object)
}

/// What is known about a value.
#[derive(Clone, Copy)]
enum Schema<'a> {
    Object(Id),
    Map(&'a Ty),
    /// Free JSON: objects merge, lists are replaced.
    Unknown,
}

/// What is known about a field.
struct FieldFacts<'a> {
    schema: Schema<'a>,
    merge: bool,
    replace: bool,
    merge_key: &'static str,
}

impl MergeError {
    /// Whether the server answers with 400; the other failures of a merge are 500 there.
    pub fn is_bad_request(&self) -> bool {
        matches!(self, Self::RetainKeys)
    }
}

impl<'a> Schema<'a> {
    fn field(self, name: &str) -> Result<FieldFacts<'a>, MergeError> {
        let plain = |schema| FieldFacts {
            schema,
            merge: false,
            replace: false,
            merge_key: "",
        };
        match self {
            Schema::Unknown => Ok(plain(Schema::Unknown)),
            Schema::Map(item) => Ok(plain(Schema::of(item))),
            Schema::Object(id) => {
                let ty = id.get();
                let unknown = || MergeError::UnknownField {
                    owner: ty.short_name(),
                    field: name.to_owned(),
                };
                let field = ty.field(name).ok_or_else(unknown)?;
                Ok(FieldFacts {
                    schema: Schema::of(&field.ty),
                    merge: field.patch_strategy.split(',').any(|s| s == "merge"),
                    replace: field.patch_strategy.split(',').any(|s| s == "replace"),
                    merge_key: field.merge_key,
                })
            }
        }
    }

    /// The schema of a map, or of a list's items.
    fn of(ty: &'a Ty) -> Self {
        match ty {
            Ty::Object(id) => Schema::Object(*id),
            Ty::Map(item) => Schema::Map(item),
            Ty::List(item) => Schema::of(item),
            _ => Schema::Unknown,
        }
    }
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Schema<'_>,
) -> Result<Map<String, Value>, MergeError> {
    if let Some(directive) = patch.get(DIRECTIVE).cloned() {
        if !matches!(directive.as_str(), Some("replace" | "delete" | "merge")) {
            return Err(unknown_directive(&directive, &Value::Object(patch)));
        }
        patch.remove(DIRECTIVE);
        match directive.as_str() {
            Some("replace") => return Ok(patch),
            Some("delete") => return Ok(Map::new()),
            _ => {}
        }
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            let Value::Array(gone) = value else {
                return Err(MergeError::NotAList(go_kind(&value)));
            };
            if let Some(Value::Array(items)) = original.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        merge_field(&mut original, key, value, schema)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: String,
    patch: Value,
    schema: Schema<'_>,
) -> Result<(), MergeError> {
    if patch.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), patch) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let facts = schema.field(&key)?;
            if facts.replace {
                Some(Value::Object(new))
            } else {
                Some(Value::Object(merge_map(old, new, facts.schema)?))
            }
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let facts = schema.field(&key)?;
            Some(Value::Array(if facts.merge {
                merge_list(old, new, &facts, &key)?
            } else {
                new
            }))
        }
        (Some(_), new) => Some(new),
        (None, new) => tidy::without_directives(tidy::without_nulls(new)),
    };
    if let Some(value) = merged {
        original.insert(key, value);
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    facts: &FieldFacts<'_>,
    name: &str,
) -> Result<Vec<Value>, MergeError> {
    let objects = original.iter().chain(&patch).any(Value::is_object);
    if !objects {
        let mut merged = original.clone();
        merged.extend(patch.iter().filter(|item| !original.contains(item)).cloned());
        let mut unique: Vec<Value> = Vec::with_capacity(merged.len());
        for item in merged {
            if !unique.contains(&item) {
                unique.push(item);
            }
        }
        return Ok(order::normalize(unique, &patch, &original, ""));
    }
    if facts.merge_key.is_empty() {
        return Err(MergeError::NoKeyForList(name.to_owned()));
    }
    let special = take_special(original, patch, facts.merge_key)?;
    if special.replaced {
        return Ok(special.patch);
    }
    let server_order = special.original.clone();
    let mut merged = special.original;
    for item in &special.patch {
        let value = key_of(item, facts.merge_key)?;
        match merged
            .iter()
            .position(|old| old.get(facts.merge_key) == Some(value))
        {
            Some(at) => {
                let old = merged[at].as_object().cloned().unwrap_or_default();
                let new = item.as_object().cloned().unwrap_or_default();
                merged[at] = Value::Object(merge_map(old, new, facts.schema)?);
            }
            None => merged.extend(tidy::without_directives(tidy::without_nulls(item.clone()))),
        }
    }
    Ok(order::normalize(
        merged,
        &special.patch,
        &server_order,
        facts.merge_key,
    ))
}

struct Special {
    original: Vec<Value>,
    patch: Vec<Value>,
    replaced: bool,
}

/// Carries out items that are directives and leaves the others.
fn take_special(original: Vec<Value>, patch: Vec<Value>, key: &'static str) -> Result<Special, MergeError> {
    let mut special = Special {
        original,
        patch: Vec::with_capacity(patch.len()),
        replaced: false,
    };
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            special.patch.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = key_of(&item, key)?;
                special.original.retain(|old| old.get(key) != Some(value));
            }
            Some("replace") => special.replaced = true,
            Some("merge") => return Err(MergeError::MergeDirectiveInList),
            _ => return Err(unknown_directive(directive, &item)),
        }
    }
    Ok(special)
}

fn key_of<'a>(item: &'a Value, key: &'static str) -> Result<&'a Value, MergeError> {
    item.get(key).ok_or_else(|| MergeError::NoMergeKey {
        item: go_text(item),
        key,
    })
}

/// Drops all keys but the named ones, which must include every key that the patch sets.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), MergeError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = directive else {
        return Err(MergeError::RetainKeys);
    };
    let keeps = |name: &str| keys.iter().any(|key| key == name);
    let strange = |key: &str, value: &Value| !value.is_null() && !key.starts_with('$') && !keeps(key);
    if patch.iter().any(|(key, value)| strange(key, value)) {
        return Err(MergeError::RetainKeys);
    }
    original.retain(|key, _| keeps(key));
    Ok(())
}

fn unknown_directive(directive: &Value, map: &Value) -> MergeError {
    MergeError::UnknownDirective {
        directive: go_text(directive),
        map: go_text(map),
    }
}

/// A value as Go prints it: `map[a:1 b:[x y]]`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// The Go type that a JSON value decodes to.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests;
