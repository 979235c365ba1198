//! What changed between two values of one type, as sets of fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::check::check_scalar;
use super::element::Element;
use super::set::FieldSet;
use super::types::{Atom, Form, List, Map, Scalar, Type};

/// The fields in which two values differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    /// Added, or of another value.
    pub(super) written: FieldSet,
}

impl Comparison {
    /// Leaves out `fields` and all below them.
    pub(super) fn without(self, fields: &FieldSet) -> Comparison {
        Comparison {
            removed: self.removed.recursive_difference(fields),
            written: self.written.recursive_difference(fields),
        }
    }

    /// Takes up what was found of one field or item.
    fn take_up(&mut self, found: Found, element: impl Fn() -> Element) {
        let Found { whole, below } = found;
        if whole.removed {
            self.removed.members.insert(element());
        }
        if whole.written {
            self.written.members.insert(element());
        }
        if !below.removed.is_empty() {
            self.removed.children.insert(element(), below.removed);
        }
        if !below.written.is_empty() {
            self.written.children.insert(element(), below.written);
        }
    }
}

/// Compares two values that were checked against the type.
pub(super) fn compare(ty: Type<'_>, old: &Value, new: &Value) -> Result<Comparison, String> {
    let mut found = Found::default();
    found.value(ty, Some(old), Some(new))?;
    Ok(found.below)
}

/// What was found of one value. Steps of paths are made on the way back, only for what differs.
#[derive(Default)]
struct Found {
    whole: Whole,
    below: Comparison,
}

/// How a value differs by itself. An item that is there once in one list and twice in the other does in both ways.
#[derive(Default)]
struct Whole {
    removed: bool,
    written: bool,
}

/// Whether the value at hand is one field, with nothing of its own below it.
#[derive(PartialEq, Eq)]
enum Leaf {
    Yes,
    No,
}

impl Found {
    fn value(&mut self, ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
        let atom = ty.atom();
        let (before, after) = (atom.of(old), atom.of(new));
        let leaf = if new.is_none() {
            self.atom(&before, old, new)?
        } else {
            // A value that changed its form is compared as both.
            if old.is_some() && !before.same_forms(&after) {
                self.atom(&before, old, new)?;
            }
            self.atom(&after, old, new)?
        };
        if leaf == Leaf::No {
            match (old, new) {
                (None, _) => self.whole.written = true,
                (_, None) => self.whole.removed = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn atom(&mut self, atom: &Atom<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Leaf, String> {
        match atom.form() {
            None => Err("schema error: invalid atom: inlined".to_owned()),
            Some(Form::Map(map)) => self.map(&map, old, new),
            Some(Form::Scalar(scalar)) => self.scalar(scalar, old, new),
            Some(Form::List(list)) => self.list(&list, old, new),
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> Leaf {
        match (old, new) {
            (None, _) => self.whole.written = true,
            (_, None) => self.whole.removed = true,
            (Some(old), Some(new)) if old != new => self.whole.written = true,
            _ => {}
        }
        Leaf::Yes
    }

    fn scalar(&mut self, scalar: Scalar, old: Option<&Value>, new: Option<&Value>) -> Result<Leaf, String> {
        if let (Err(old), Err(new)) = (
            check_scalar(scalar, old, "lhs: "),
            check_scalar(scalar, new, "rhs: "),
        ) {
            return Err(format!("errors:\n  {old}\n  {new}"));
        }
        Ok(self.leaf(old, new))
    }

    fn map(&mut self, map: &Map<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Leaf, String> {
        let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
        let empty =
            before.is_none_or(serde_json::Map::is_empty) && after.is_none_or(serde_json::Map::is_empty);
        if map.atomic || empty {
            return Ok(self.leaf(old, new));
        }
        for (name, old) in before.into_iter().flatten() {
            let new = after.and_then(|map| map.get(name));
            self.field(map, name, Some(old), new)?;
        }
        for (name, new) in after.into_iter().flatten() {
            if before.is_none_or(|map| !map.contains_key(name)) {
                self.field(map, name, None, Some(new))?;
            }
        }
        Ok(Leaf::No)
    }

    fn field(
        &mut self,
        map: &Map<'_>,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), String> {
        let mut found = Found::default();
        found.value(map.field_type(name), old, new)?;
        self.below.take_up(found, || Element::field(name));
        Ok(())
    }

    fn list(&mut self, list: &List<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Leaf, String> {
        let (before, after) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
        let empty = before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty);
        if list.is_atomic() || empty {
            return Ok(self.leaf(old, new));
        }
        let (before, after) = (grouped(list, before)?, grouped(list, after)?);
        let elements: BTreeSet<&Element> = before.keys().chain(after.keys()).collect();
        let none = Vec::new();
        for element in elements {
            let mut found = Found::default();
            let (old, new) = (
                before.get(element).unwrap_or(&none),
                after.get(element).unwrap_or(&none),
            );
            found.item(list.element, old, new)?;
            self.below.take_up(found, || element.clone());
        }
        Ok(Leaf::No)
    }

    /// Compares the items of one identity. Several of them are one value without fields of its own.
    fn item(&mut self, ty: Type<'_>, old: &[&Value], new: &[&Value]) -> Result<(), String> {
        match (old, new) {
            ([] | [_], [] | [_]) => self.value(ty, old.first().copied(), new.first().copied())?,
            ([_, _, ..], [_, _, ..]) => self.whole.written |= old != new,
            ([_, _, ..], _) => {
                if let [new] = new {
                    self.value(ty, None, Some(new))?;
                }
                self.whole.removed = true;
            }
            (_, _) => {
                if let [old] = old {
                    self.value(ty, Some(old), None)?;
                }
                self.whole.written = true;
            }
        }
        Ok(())
    }
}

fn grouped<'v>(
    list: &List<'_>,
    items: Option<&'v Vec<Value>>,
) -> Result<BTreeMap<Element, Vec<&'v Value>>, String> {
    let mut groups: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (index, item) in items.into_iter().flatten().enumerate() {
        let element = list
            .identity(item)
            .map_err(|why| format!("element {index}: {why}"))?;
        groups.entry(element).or_default().push(item);
    }
    Ok(groups)
}
