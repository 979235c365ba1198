//! Server-side apply: who owns which field, and what an applied configuration does to an object.
//!
//! Start at [`apply`] and [`track_update`]. Both are pure: the caller reads the live object, decodes the request,
//! and afterwards defaults, validates and stores what they return. Ownership is kept in `metadata.managedFields`
//! exactly as kube-apiserver keeps it.

mod check;
mod compare;
mod conflict;
mod element;
mod first;
mod last_applied;
mod managed;
mod merge;
mod prune;
mod scale;
mod set;
mod text;
mod typed;
mod types;
mod update;
mod walk;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use self::{
    check::{Duplicates, check},
    managed::{Managed, Operation},
    types::Type,
    update::{Merged, Refusal, Write, owner, strip},
};
pub use self::{
    conflict::Conflict,
    scale::{ReplicasPaths, entries_after_scale, scale_entries, scale_schema},
    set::{FieldSet, FieldSetError},
    text::write_fields,
};
use crate::clock::parse_rfc3339;
use crate::structural::Structural;

/// The kind of object that is written.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The kind's name.
    pub kind: &'a str,
    /// The schema of the version of the request.
    pub schema: &'a Structural,
    /// The other versions that are served, by apiVersion. Unless there is `convert`, an object must have the type of
    /// every version that owns fields of it. Entries of versions that are not here are dropped, or, of custom
    /// resources, a fault.
    pub versions: &'a [(&'a str, &'a Structural)],
    /// Brings an object from one version, by apiVersion, to another.
    pub convert: Option<fn(&Value, &str, &str) -> Value>,
    /// An object of this kind without any field set. `None` has only apiVersion and kind, as custom resources do;
    /// built-in kinds have fields that are always there.
    pub empty: Option<&'a Value>,
    /// Fields that a write through this endpoint cannot change, such as `status` of the main resource.
    pub reset: Option<&'a FieldSet>,
}

/// Who writes, how and when.
#[derive(Debug, Clone, Copy)]
pub struct Manager<'a> {
    /// The field manager; an empty one is known as `unknown`.
    pub name: &'a str,
    /// The version of the request.
    pub api_version: &'a str,
    /// The subresource that is written, or nothing.
    pub subresource: &'a str,
    /// The time of the request, RFC 3339.
    pub time: &'a str,
}

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that would change: 409, unless forced.
    #[error("{}", conflict::message(.0))]
    Conflicts(Vec<Conflict>),
    /// The request does not fit the endpoint: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not have the type of the schema, or the live object does not: 500.
    #[error("{0}")]
    Invalid(String),
}

/// Sets `new.metadata.managedFields` for a create (`live` absent) or an update by `manager`.
///
/// Fields that changed come to belong to the manager. An update that changes nothing leaves all entries as they
/// are. A list that is empty or holds one empty entry, `[{}]`, resets all ownership. Entries that the request
/// itself brings count instead of the live ones if they are sound. Where ownership cannot be told, because an
/// object does not fit its schema, the entries are removed: an update never fails for their sake.
pub fn track_update(target: &Target<'_>, live: Option<&Value>, new: &mut Value, manager: &Manager<'_>) {
    let managed = live_or_new(live.or(target.empty), new, manager);
    remove_entries(new);
    if live.is_none() && target.empty.is_none() && managed.owners.is_empty() {
        let entries = first::entries(target, new, manager);
        return put_entries(new, entries);
    }
    let empty = empty_object(target, manager);
    let live = live.unwrap_or(&empty);
    // An object that was not tracked from the start is tracked only after it is applied.
    if managed.owners.is_empty() && has_uid(live) {
        return;
    }
    if let Ok(managed) = update(&Write { target, manager }, live, new, managed) {
        set_entries(new, &managed);
    }
}

/// Applies a configuration: the merged object with its new `managedFields`.
///
/// `live` is absent when the object is created. Fields that the manager applied before but does not any more are
/// removed unless somebody else owns them. With `force`, fields in conflict change hands. Defaults are not set.
pub fn apply(
    target: &Target<'_>,
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    check_request(target, applied, manager)?;
    let empty = empty_object(target, manager);
    let live = live.unwrap_or(&empty);
    let Some(mut managed) = Managed::parse(entries(live)) else {
        return Err(ApplyError::Invalid("failed to decode managed fields".to_owned()));
    };
    let live = without_entries(live);
    let write = Write { target, manager };
    if managed.owners.is_empty() {
        let earlier = Manager {
            name: "before-first-apply",
            ..*manager
        };
        let earlier = Write {
            target,
            manager: &earlier,
        };
        managed = update(&earlier, &without_entries(&empty), &live, managed).map_err(|refusal| {
            ApplyError::Invalid(format!(
                "failed to create manager for existing fields: {}",
                text(refusal)
            ))
        })?;
    }
    check_types(&write, &live, applied)?;
    let Merged { object, managed } = merge(&write, &live, applied, managed, force)?;
    let mut object = object.unwrap_or(live);
    if manager.name == "kubectl" {
        last_applied::refresh(&mut object, applied);
    }
    set_entries(&mut object, &managed);
    Ok(object)
}

/// Undoes a change of nothing but the times of entries, so that a write without effect stays without effect.
///
/// To be called last, when `new` is complete: with defaults, and after admission.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(old), Some(now)) = (entries(live), entries(new)) else {
        return;
    };
    if old == now || !same_but_times(old, now) || !same_but_entries(live, new) {
        return;
    }
    let old = old.clone();
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), old);
    }
}

fn same_but_times(old: &Value, now: &Value) -> bool {
    match (old.as_array(), now.as_array()) {
        (Some(old), Some(now)) => {
            old.len() == now.len() && old.iter().zip(now).all(|(old, now)| same_but(old, now, "time"))
        }
        _ => old == now,
    }
}

fn same_but_entries(live: &Value, new: &Value) -> bool {
    same_but(live, new, "metadata") && same_but(&live["metadata"], &new["metadata"], "managedFields")
}

/// Whether two objects differ in nothing but one field.
fn same_but(a: &Value, b: &Value, field: &str) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let others = |object: &Map<String, Value>| object.len() - usize::from(object.contains_key(field));
    others(a) == others(b)
        && a.iter()
            .all(|(name, value)| name == field || b.get(name) == Some(value))
}

fn check_request(target: &Target<'_>, applied: &Value, manager: &Manager<'_>) -> Result<(), ApplyError> {
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") != manager.api_version || text("kind") != target.kind {
        let gvk = format!("{}, Kind={}", group_version(text("apiVersion")), text("kind"));
        return Err(ApplyError::BadRequest(format!("invalid object type: {gvk}")));
    }
    if entries(applied).is_some_and(Value::is_array) {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    Ok(())
}

/// An apiVersion as messages about kinds show it: the core group is empty, not absent.
fn group_version(api_version: &str) -> String {
    if api_version.contains('/') {
        api_version.to_owned()
    } else {
        format!("/{api_version}")
    }
}

fn check_types(write: &Write<'_>, live: &Value, applied: &Value) -> Result<(), ApplyError> {
    let ty = Type::object(write.target.schema);
    let checked = |what: &str, object: &Value, duplicates| {
        check(ty, object, duplicates).map_err(|why| {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let version = group_version(write.manager.api_version);
            ApplyError::Invalid(format!(
                "failed to create typed {what} object ({namespace}/{name}; {version}, Kind={}): {why}",
                write.target.kind
            ))
        })
    };
    checked("patch", applied, Duplicates::Forbidden)?;
    checked("live", live, Duplicates::Allowed)
}

/// Merges, and lets kubectl take over what it applied from the client.
fn merge(
    write: &Write<'_>,
    live: &Value,
    applied: &Value,
    managed: Managed,
    force: bool,
) -> Result<Merged, ApplyError> {
    let found = match merge_once(write, live, applied, managed.clone(), force) {
        Err(Refusal::Conflicts(found)) => conflict::conflicts(&found),
        Err(Refusal::Fault(why)) => return Err(ApplyError::Invalid(why)),
        Ok(merged) => return Ok(merged),
    };
    let kubectl = write.manager.name == "kubectl";
    let ty = Type::object(write.target.schema);
    let allowed = if kubectl {
        last_applied::fields(ty, write.manager.api_version, live)
    } else {
        None
    };
    let Some(allowed) = allowed else {
        return Err(ApplyError::Conflicts(found));
    };
    let found: Vec<Conflict> = found
        .into_iter()
        .filter(|conflict| !allowed.has(&conflict.path))
        .collect();
    if !found.is_empty() {
        return Err(ApplyError::Conflicts(found));
    }
    merge_once(write, live, applied, managed, true).map_err(|refusal| ApplyError::Invalid(text(refusal)))
}

fn merge_once(
    write: &Write<'_>,
    live: &Value,
    applied: &Value,
    managed: Managed,
    force: bool,
) -> Result<Merged, Refusal> {
    let owner = owner(write.manager, Operation::Apply);
    let id = owner.id();
    let mut merged = write.apply(live, applied, managed, owner, force)?;
    strip(&mut merged.managed, &id);
    if merged.object.is_some() {
        stamp(&mut merged.managed, &id, write.manager.time);
    }
    Ok(merged)
}

/// Ownership after an update, whether or not `live` has its entries; the times of entries move only for the one that changed something.
fn update(write: &Write<'_>, live: &Value, new: &Value, managed: Managed) -> Result<Managed, Refusal> {
    // Collected apart from what the manager owns already, to see whether it changed anything.
    let current = "current-operation";
    let owner = owner(write.manager, Operation::Update);
    let id = owner.id();
    let mut managed = write.update(live, new, managed, current, owner)?;
    strip(&mut managed, current);
    if let Some(mut owner) = managed.owners.remove(current) {
        if let Some(known) = managed.owners.remove(&id) {
            owner.set = owner.set.union(known.set);
        }
        managed.owners.insert(id.clone(), owner);
        stamp(&mut managed, &id, write.manager.time);
    }
    managed.cap();
    Ok(managed)
}

fn stamp(managed: &mut Managed, id: &str, time: &str) {
    match parse_rfc3339(time) {
        Some(time) => managed.times.insert(id.to_owned(), time),
        None => managed.times.remove(id),
    };
}

fn text(refusal: Refusal) -> String {
    match refusal {
        Refusal::Conflicts(found) => conflict::message(&conflict::conflicts(&found)),
        Refusal::Fault(why) => why,
    }
}

/// The entries that count: those of the request if they are sound, else the live ones.
fn live_or_new(live: Option<&Value>, new: &Value, manager: &Manager<'_>) -> Managed {
    let live_entries = || Managed::parse(live.and_then(entries)).unwrap_or_default();
    if !manager.subresource.is_empty() {
        return live_entries();
    }
    if entries(new).is_some_and(is_reset) {
        return Managed::default();
    }
    match Managed::parse(entries(new)) {
        Some(managed) if !managed.owners.is_empty() => managed,
        _ => live_entries(),
    }
}

fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

fn empty_object<'a>(target: &Target<'a>, manager: &Manager<'_>) -> Cow<'a, Value> {
    match target.empty {
        Some(empty) => Cow::Borrowed(empty),
        None => Cow::Owned(json!({"apiVersion": manager.api_version, "kind": target.kind})),
    }
}

fn has_uid(object: &Value) -> bool {
    object
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .is_some_and(|uid| !uid.is_empty())
}

fn entries(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn without_entries(object: &Value) -> Value {
    let mut object = object.clone();
    remove_entries(&mut object);
    object
}

fn set_entries(object: &mut Value, managed: &Managed) {
    remove_entries(object);
    put_entries(object, managed.to_json());
}

fn put_entries(object: &mut Value, entries: Option<Value>) {
    let (Some(entries), Some(object)) = (entries, object.as_object_mut()) else {
        return;
    };
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), entries);
    }
}
