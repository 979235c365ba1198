//! Walks over one value: the fields it has, a copy without some fields, and sets that fit a changed schema.

use std::collections::BTreeSet;

use serde_json::{Map as Json, Value};

use super::element::Element;
use super::set::FieldSet;
use super::types::{Form, List, Map, Type};

/// Every field and item that a value mentions.
pub(super) fn fields_of(ty: Type<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    mention(ty, value, &mut Vec::new(), &mut set);
    set
}

fn mention(ty: Type<'_>, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    match ty.atom().of(Some(value)).form() {
        None => {}
        Some(Form::Scalar(_)) => set.insert(path),
        Some(Form::Map(map)) if map.atomic => set.insert(path),
        Some(Form::List(list)) if list.is_atomic() => set.insert(path),
        Some(Form::Map(map)) => {
            for (name, field) in value.as_object().into_iter().flatten() {
                path.push(Element::field(name));
                mention(map.field_type(name), field, path, set);
                let empty = field.is_null() || field.as_object().is_some_and(Json::is_empty);
                if empty || !map.declares(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Some(Form::List(list)) => mention_items(&list, value, path, set),
    }
}

fn mention_items(list: &List<'_>, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    let items: Vec<(Element, &Value)> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| Some((list.identity(item).ok()?, item)))
        .collect();
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<Element> = items
        .iter()
        .filter(|(element, _)| !seen.insert(element))
        .map(|(element, _)| element.clone())
        .collect();
    for (element, item) in items {
        let is_single = !twice.contains(&element);
        path.push(element);
        if is_single {
            mention(list.element, item, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

/// The value without the fields and items of a set. What is left empty becomes null.
pub(super) fn remove(ty: Type<'_>, value: &Value, gone: &FieldSet) -> Value {
    match ty.atom().of(Some(value)).form() {
        None => Value::Null,
        Some(Form::Scalar(_)) => value.clone(),
        Some(Form::Map(map)) if map.atomic => Value::Null,
        Some(Form::List(list)) if list.is_atomic() => Value::Null,
        Some(Form::Map(map)) => remove_fields(&map, value, gone),
        Some(Form::List(list)) => remove_items(&list, value, gone),
    }
}

fn remove_fields(map: &Map<'_>, value: &Value, gone: &FieldSet) -> Value {
    let mut out = Json::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        let element = Element::field(name);
        if gone.members.contains(&element) {
            continue;
        }
        let left = match gone.children.get(&element).filter(|below| !below.is_empty()) {
            Some(below) => remove(map.field_type(name), field, below),
            None => field.clone(),
        };
        out.insert(name.clone(), left);
    }
    if out.is_empty() {
        Value::Null
    } else {
        Value::Object(out)
    }
}

fn remove_items(list: &List<'_>, value: &Value, gone: &FieldSet) -> Value {
    let mut out = Vec::new();
    for item in value.as_array().into_iter().flatten() {
        let Ok(element) = list.identity(item) else {
            out.push(item.clone());
            continue;
        };
        if gone.members.contains(&element) {
            continue;
        }
        out.push(
            match gone.children.get(&element).filter(|below| !below.is_empty()) {
                Some(below) => remove(list.element, item, below),
                None => item.clone(),
            },
        );
    }
    if out.is_empty() {
        Value::Null
    } else {
        Value::Array(out)
    }
}

/// Fits a set to a schema in which something became atomic since the set was written.
pub(super) fn reconcile(ty: Type<'_>, set: FieldSet) -> FieldSet {
    let mut whole = FieldSet::default();
    find_whole(ty, Some(&set), true, &mut Vec::new(), &mut whole);
    set.recursive_difference(&whole).union(whole)
}

/// Collects what the schema holds to be whole but the set does not.
fn find_whole(
    ty: Type<'_>,
    set: Option<&FieldSet>,
    alone: bool,
    path: &mut Vec<Element>,
    whole: &mut FieldSet,
) {
    match ty.atom().form() {
        None | Some(Form::Scalar(_)) => {}
        Some(Form::Map(map)) => {
            if map.is_free() {
                return;
            }
            if !alone && map.atomic {
                if set.is_some_and(|set| !set.is_empty()) {
                    whole.insert(path);
                }
                return;
            }
            each_child(set, path, whole, |element| match element {
                Element::Field(name) => map.field_type(name),
                _ => map.element,
            });
        }
        Some(Form::List(list)) => {
            if !alone && list.is_atomic() {
                whole.insert(path);
                return;
            }
            each_child(set, path, whole, |_| list.element);
        }
    }
}

fn each_child<'s>(
    set: Option<&FieldSet>,
    path: &mut Vec<Element>,
    whole: &mut FieldSet,
    type_of: impl Fn(&Element) -> Type<'s>,
) {
    let Some(set) = set else { return };
    let elements: BTreeSet<&Element> = set.members.iter().chain(set.children.keys()).collect();
    for element in elements {
        let ty = type_of(element);
        let below = set.children.get(element);
        let alone = below.is_none() && set.members.contains(element);
        path.push(element.clone());
        find_whole(ty, below, alone, path, whole);
        path.pop();
    }
}
