//! Sets of fields, as the `fieldsV1` of managedFields holds them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use skopos_object::json::MAX_DEPTH;

use super::element::{Element, ElementError};
use super::types::Type;

/// A set of fields of an object.
///
/// A field is a member by itself: neither its parents nor its children need to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(super) members: BTreeSet<Element>,
    /// No child is without members.
    pub(super) children: BTreeMap<Element, FieldSet>,
}

/// What is wrong with a `fieldsV1`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldSetError(String);

impl FieldSet {
    /// Reads a `fieldsV1`. Steps of a kind that is not known are left out.
    pub fn parse(fields: &Value) -> Result<FieldSet, FieldSetError> {
        Ok(read(fields, 0)?.0.unwrap_or_default())
    }

    /// The set of fields named by paths of plain field names.
    #[must_use]
    pub fn of_paths(paths: &[&[&str]]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// The set as `fieldsV1`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.contents(false))
    }

    /// Whether no field is a member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// The members of either set.
    #[must_use]
    pub fn union(mut self, other: FieldSet) -> FieldSet {
        self.add(other);
        self
    }

    fn add(&mut self, other: FieldSet) {
        self.members.extend(other.members);
        for (element, child) in other.children {
            match self.children.get_mut(&element) {
                Some(known) => known.add(child),
                None => {
                    self.children.insert(element, child);
                }
            }
        }
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.intersection(&other.members).cloned().collect();
        let both = |(element, child): (&Element, &FieldSet)| {
            let child = child.intersection(other.children.get(element)?);
            (!child.is_empty()).then(|| (element.clone(), child))
        };
        FieldSet {
            members,
            children: self.children.iter().filter_map(both).collect(),
        }
    }

    /// The members of this set that are not members of the other.
    #[must_use]
    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        self.take(other, |_, _| {});
        self
    }

    /// The members of this set that neither are members of the other nor lie below one.
    #[must_use]
    pub fn recursive_difference(mut self, other: &FieldSet) -> FieldSet {
        self.take(other, |children, gone| {
            children.remove(gone);
        });
        self
    }

    /// Takes away the members of another set, and of what lies below each what `below` says.
    fn take(&mut self, other: &FieldSet, below: fn(&mut BTreeMap<Element, FieldSet>, &Element)) {
        for member in &other.members {
            self.members.remove(member);
            below(&mut self.children, member);
        }
        for (element, gone) in &other.children {
            let Some(child) = self.children.get_mut(element) else {
                continue;
            };
            child.take(gone, below);
            if child.is_empty() {
                self.children.remove(element);
            }
        }
    }

    /// The path of every member as messages show it; members before what lies below them.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.each(&mut Vec::new(), &mut |path| {
            out.push(super::element::path_text(path));
        });
        out
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// Calls `f` with every member: those of one level first, then what lies below each.
    pub(super) fn each(&self, path: &mut Vec<Element>, f: &mut impl FnMut(&[Element])) {
        for member in &self.members {
            path.push(member.clone());
            f(path);
            path.pop();
        }
        for (element, child) in &self.children {
            path.push(element.clone());
            child.each(path, f);
            path.pop();
        }
    }

    /// Adds the declared fields that lead to members.
    pub(super) fn with_named_fields(&self, ty: Type<'_>) -> FieldSet {
        let atom = ty.atom();
        let mut out = FieldSet {
            members: self.members.clone(),
            children: BTreeMap::new(),
        };
        for (element, child) in &self.children {
            let mut below = Type::Undeclared;
            match (element, &atom.map, &atom.list) {
                (Element::Field(name), Some(map), _) => {
                    below = map.field_type(name);
                    if map.declares(name) {
                        out.members.insert(element.clone());
                    }
                }
                (Element::Key(_), _, Some(list)) => below = list.element,
                _ => {}
            }
            out.children
                .insert(element.clone(), child.with_named_fields(below));
        }
        out
    }

    pub(super) fn contents(&self, include_self: bool) -> Map<String, Value> {
        let mut out = Map::new();
        if include_self && !(self.members.is_empty() && self.children.is_empty()) {
            out.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for member in &self.members {
            out.insert(member.text(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            let contents = child.contents(self.members.contains(element));
            out.insert(element.text(), Value::Object(contents));
        }
        out
    }
}

/// What lies below, and whether the field itself is a member.
fn read(fields: &Value, depth: usize) -> Result<(Option<FieldSet>, bool), FieldSetError> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok((None, true)),
        _ => return Err(FieldSetError(format!("expected an object, got {fields}"))),
    };
    if depth > MAX_DEPTH {
        return Err(FieldSetError("nested too deep".to_owned()));
    }
    let mut set = FieldSet::default();
    let mut found = false;
    for (name, below) in map {
        if name == "." {
            continue;
        }
        let element = match Element::parse(name) {
            Ok(element) => element,
            Err(ElementError::Unknown) => continue,
            Err(ElementError::Broken(why)) => return Err(FieldSetError(why)),
        };
        found = true;
        let (children, is_member) = read(below, depth + 1)?;
        if let Some(children) = children {
            set.children.insert(element.clone(), children);
        }
        if is_member {
            set.members.insert(element);
        }
    }
    Ok(if found {
        (Some(set), map.contains_key("."))
    } else {
        (None, true)
    })
}
