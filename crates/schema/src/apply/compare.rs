//! What changed between two values of one type, as sets of fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::check::check_scalar;
use super::element::Element;
use super::set::FieldSet;
use super::types::{Atom, Form, List, Map, Scalar, Type};

/// The fields in which two values differ. No field is in two of the sets.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Leaves out `fields` and all below them.
    pub(super) fn without(self, fields: &FieldSet) -> Comparison {
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }

    /// The fields that got a value.
    pub(super) fn written(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// Compares two values that were checked against the type.
pub(super) fn compare(ty: Type<'_>, old: &Value, new: &Value) -> Result<Comparison, String> {
    let mut walk = Walk {
        found: Comparison::default(),
        path: Vec::new(),
    };
    walk.value(ty, Some(old), Some(new))?;
    Ok(walk.found)
}

/// Whether the value at hand is one field, with nothing of its own below it.
#[derive(PartialEq, Eq)]
enum Leaf {
    Yes,
    No,
}

struct Walk {
    found: Comparison,
    path: Vec<Element>,
}

impl Walk {
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
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
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
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.found.modified.insert(&self.path),
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
        let mut names: BTreeSet<&str> = BTreeSet::new();
        names.extend(before.into_iter().flat_map(|map| map.keys().map(String::as_str)));
        names.extend(after.into_iter().flat_map(|map| map.keys().map(String::as_str)));
        for name in names {
            let (old, new) = (
                before.and_then(|map| map.get(name)),
                after.and_then(|map| map.get(name)),
            );
            self.path.push(Element::field(name));
            self.value(map.field_type(name), old, new)?;
            self.path.pop();
        }
        Ok(Leaf::No)
    }

    fn list(&mut self, list: &List<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Leaf, String> {
        let (before, after) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
        let empty = before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty);
        if list.is_atomic() || empty {
            return Ok(self.leaf(old, new));
        }
        let (before, after) = (grouped(list, before)?, grouped(list, after)?);
        let elements: BTreeSet<&Element> = before.keys().chain(after.keys()).collect();
        for element in elements {
            let none = Vec::new();
            let (old, new) = (
                before.get(element).unwrap_or(&none),
                after.get(element).unwrap_or(&none),
            );
            self.path.push(element.clone());
            self.item(list.element, old, new)?;
            self.path.pop();
        }
        Ok(Leaf::No)
    }

    /// Compares the items of one identity. Several of them are one value without fields of its own.
    fn item(&mut self, ty: Type<'_>, old: &[&Value], new: &[&Value]) -> Result<(), String> {
        match (old, new) {
            ([] | [_], [] | [_]) => self.value(ty, old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                if old != new {
                    self.found.modified.insert(&self.path);
                }
                Ok(())
            }
            ([_, _, ..], _) => {
                if let [new] = new {
                    self.value(ty, None, Some(new))?;
                }
                self.found.removed.insert(&self.path);
                Ok(())
            }
            (_, _) => {
                if let [old] = old {
                    self.value(ty, Some(old), None)?;
                }
                self.found.added.insert(&self.path);
                Ok(())
            }
        }
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
