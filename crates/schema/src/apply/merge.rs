//! Merges an applied configuration into a live object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::check::check_scalar;
use super::element::Element;
use super::types::{Atom, Form, List, Map, Type};

/// Merges two values that were checked against the type. Nothing is removed; what both have comes from `applied`.
pub(super) fn merge(ty: Type<'_>, live: &Value, applied: &Value) -> Result<Value, String> {
    Ok(value(ty, Some(live), Some(applied))?.unwrap_or(Value::Null))
}

fn value(ty: Type<'_>, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
    let atom = ty.atom();
    let (before, after) = (atom.of(live), atom.of(applied));
    if applied.is_none() {
        return form(&before, live, applied);
    }
    if live.is_some() && !before.same_forms(&after) {
        form(&before, live, applied)?;
    }
    form(&after, live, applied)
}

fn form(atom: &Atom<'_>, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
    match atom.form() {
        None => Err("schema error: invalid atom: inlined".to_owned()),
        Some(Form::Map(map)) => fields(&map, live, applied),
        Some(Form::List(list)) => items(&list, live, applied),
        Some(Form::Scalar(scalar)) => {
            if let (Err(live), Err(applied)) = (
                check_scalar(scalar, live, "lhs: "),
                check_scalar(scalar, applied, "rhs: "),
            ) {
                return Err(format!("errors:\n  {live}\n  {applied}"));
            }
            Ok(whole(live, applied))
        }
    }
}

fn whole(live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    applied.or(live).cloned()
}

fn fields(map: &Map<'_>, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
    let (before, after) = (
        live.and_then(Value::as_object),
        applied.and_then(Value::as_object),
    );
    let empty = before.is_none_or(serde_json::Map::is_empty) && after.is_none_or(serde_json::Map::is_empty);
    if map.atomic || empty {
        return Ok(whole(live, applied));
    }
    let mut out = serde_json::Map::new();
    let mut names: BTreeSet<&String> = BTreeSet::new();
    names.extend(before.into_iter().flat_map(|map| map.keys()));
    names.extend(after.into_iter().flat_map(|map| map.keys()));
    for name in names {
        let (live, applied) = (
            before.and_then(|map| map.get(name)),
            after.and_then(|map| map.get(name)),
        );
        if let Some(merged) = value(map.field_type(name), live, applied)? {
            out.insert(name.clone(), merged);
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

fn items(list: &List<'_>, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
    let (before, after) = (live.and_then(Value::as_array), applied.and_then(Value::as_array));
    let empty = before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty);
    if list.is_atomic() || empty {
        return Ok(whole(live, applied));
    }
    let none = Vec::new();
    let live = Index::new(list, before.unwrap_or(&none), true)?;
    let applied = Index::new(list, after.unwrap_or(&none), false)?;
    let out = Zip::new(list, &live, &applied).run();
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// The items of a list in order and by identity.
struct Index<'v> {
    items: &'v [Value],
    order: Vec<Element>,
    /// An item that occurs several times counts as null here: it is not merged with.
    known: BTreeMap<Element, &'v Value>,
}

impl<'v> Index<'v> {
    fn new(list: &List<'_>, items: &'v [Value], duplicates_allowed: bool) -> Result<Index<'v>, String> {
        let mut index = Index {
            items,
            order: Vec::with_capacity(items.len()),
            known: BTreeMap::new(),
        };
        for (at, item) in items.iter().enumerate() {
            let element = list
                .identity(item)
                .map_err(|why| format!("element {at}: {why}"))?;
            match index.known.get_mut(&element) {
                Some(_) if !duplicates_allowed => return Err(format!("duplicate entries for key {element}")),
                Some(known) => *known = &Value::Null,
                None => {
                    index.known.insert(element.clone(), item);
                }
            }
            index.order.push(element);
        }
        Ok(index)
    }
}

/// Brings two lists into one order: the live order where the applied list does not say otherwise.
struct Zip<'a, 's, 'v> {
    list: &'a List<'s>,
    live: &'a Index<'v>,
    applied: &'a Index<'v>,
    /// The applied items that are live too and whose turn has not come, in applied order.
    shared: VecDeque<&'a Element>,
    merged: BTreeSet<&'a Element>,
    out: Vec<Value>,
}

impl<'a, 's, 'v> Zip<'a, 's, 'v> {
    fn new(list: &'a List<'s>, live: &'a Index<'v>, applied: &'a Index<'v>) -> Self {
        let shared = applied
            .order
            .iter()
            .filter(|element| live.known.contains_key(element))
            .collect();
        Zip {
            list,
            live,
            applied,
            shared,
            merged: BTreeSet::new(),
            out: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Value> {
        let (mut at, mut applied_at) = (0, 0);
        loop {
            let (here, there) = (self.live.order.get(at), self.applied.order.get(applied_at));
            if let (Some(here), Some(there)) = (here, there) {
                if here == there {
                    self.take_applied(here);
                    self.shared.pop_front();
                    (at, applied_at) = (at + 1, applied_at + 1);
                    continue;
                }
                let wanted_later = self.shared.front().is_some_and(|next| *next != here);
                if self.applied.known.contains_key(here) && wanted_later {
                    at += 1;
                    continue;
                }
            }
            if let Some(here) = here {
                if !self.applied.known.contains_key(here) {
                    self.push(Some(&self.live.items[at]), None);
                    at += 1;
                    continue;
                }
                if self.merged.contains(here) {
                    at += 1;
                }
            }
            let Some(there) = there else {
                if here.is_none() {
                    return self.out;
                }
                continue;
            };
            self.take_applied(there);
            applied_at += 1;
            if self.shared.front() == Some(&there) {
                self.shared.pop_front();
            }
        }
    }

    fn take_applied(&mut self, element: &'a Element) {
        self.merged.insert(element);
        let live = self.live.known.get(element).copied();
        let applied = self.applied.known.get(element).copied();
        self.push(live, applied);
    }

    /// Items that cannot be merged are left out, as kube-apiserver does: they were checked before.
    fn push(&mut self, live: Option<&Value>, applied: Option<&Value>) {
        self.out
            .extend(value(self.list.element, live, applied).ok().flatten());
    }
}
