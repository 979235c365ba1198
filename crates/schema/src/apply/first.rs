//! The entry of a new object, in one pass over it.
//!
//! Creates are the most frequent writes, and theirs is the simplest case: nobody owned anything before, so every
//! field belongs to the one who creates. What comes out is what comparing with an object without fields would find;
//! a property test holds the two against each other.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::{Duplicates, check};
use super::element::Element;
use super::managed::first_entry;
use super::set::FieldSet;
use super::types::{Form, List, Map, Type};
use super::update::UNOWNED_METADATA;
use super::{Manager, Target};

type Json = serde_json::Map<String, Value>;

/// `managedFields` of an object that `manager` creates.
///
/// None if the manager comes to own no field, or if the object does not fit its schema.
pub(super) fn entries(target: &Target<'_>, new: &Value, manager: &Manager<'_>) -> Option<Value> {
    let ty = Type::object(target.schema);
    check(ty, new, Duplicates::Allowed).ok()?;
    let mut fields = below(ty, new, target.reset);
    strip(&mut fields);
    (!fields.is_empty()).then(|| Value::Array(vec![first_entry(manager, fields)]))
}

/// Takes out what is never owned.
fn strip(fields: &mut Json) {
    fields.remove("f:apiVersion");
    fields.remove("f:kind");
    let Some(Value::Object(metadata)) = fields.get_mut("f:metadata") else {
        return;
    };
    metadata.remove(".");
    metadata.retain(|step, _| {
        let name = step.strip_prefix("f:");
        !name.is_some_and(|name| UNOWNED_METADATA.contains(&name))
    });
    if metadata.is_empty() {
        fields.remove("f:metadata");
    }
}

/// The fields or items below a value, without those that a write here cannot change.
fn below(ty: Type<'_>, value: &Value, reset: Option<&FieldSet>) -> Json {
    match (ty.atom().of(Some(value)).form(), value) {
        (Some(Form::Map(map)), Value::Object(object)) if !map.atomic => fields(&map, object, reset),
        (Some(Form::List(list)), Value::Array(array)) if !list.is_atomic() => items(&list, array, reset),
        _ => Json::new(),
    }
}

fn fields(map: &Map<'_>, object: &Json, reset: Option<&FieldSet>) -> Json {
    let mut out = Json::new();
    for (name, value) in object {
        let within = match reset {
            None => None,
            Some(reset) => {
                let element = Element::field(name);
                if reset.members.contains(&element) {
                    continue;
                }
                reset.children.get(&element)
            }
        };
        let below = below(map.field_type(name), value, within);
        out.insert(["f:", name.as_str()].concat(), with_self(below));
    }
    out
}

fn items(list: &List<'_>, array: &[Value], reset: Option<&FieldSet>) -> Json {
    // Items of the same identity are one value without fields of its own.
    let mut single: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for item in array {
        // Without identities the check above would have failed.
        if let Ok(element) = list.identity(item) {
            let again = |known: &mut Option<&Value>| *known = None;
            single.entry(element).and_modify(again).or_insert(Some(item));
        }
    }
    let mut out = Json::new();
    for (element, item) in single {
        if reset.is_some_and(|reset| reset.members.contains(&element)) {
            continue;
        }
        let within = reset.and_then(|reset| reset.children.get(&element));
        let below = item.map(|item| below(list.element, item, within));
        out.insert(element.text(), with_self(below.unwrap_or_default()));
    }
    out
}

/// A field with what lies below it, and a mark that it belongs to the manager itself.
fn with_self(mut below: Json) -> Value {
    if !below.is_empty() {
        below.insert(".".to_owned(), Value::Object(Json::new()));
    }
    Value::Object(below)
}
