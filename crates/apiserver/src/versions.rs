//! Between the stored form of an object and the version a client asked for.

mod autoscaler;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use skopos_object::Status;
use skopos_store::{Entry, Revision};

use crate::registry::{Custom, Resource};
use crate::write::encode_unsaved;

/// The stored bytes are exactly what the client is to see.
pub(crate) fn is_servable_as_stored(resource: &Resource, entry: &Entry) -> bool {
    let shaped = resource.custom().is_none_or(|custom| custom.shape.covers(entry));
    shaped && resource.is_served_as_stored()
}

/// Parses a stored object without converting it.
pub(crate) fn parse(entry: &Entry) -> Result<Value, Status> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| Status::internal(format!("stored object {:?} cannot be read: {error}", entry.key)))
}

/// A stored object in the version of `resource`, with the defaults of today.
pub(crate) fn from_entry(resource: &Resource, entry: &Entry) -> Result<Value, Status> {
    let mut object = parse(entry)?;
    if !is_servable_as_stored(resource, entry) {
        to_served(resource, &mut object);
    }
    Ok(object)
}

/// A stored object in the version and shape in which it would be stored today.
///
/// What the server itself writes back starts from this: the store takes every new entry to have today's shape.
pub(crate) fn in_storage(resource: &Resource, entry: &Entry) -> Result<Value, Status> {
    let mut object = parse(entry)?;
    if resource
        .custom()
        .is_some_and(|custom| !custom.shape.covers(entry))
    {
        renew(resource, &mut object);
    }
    Ok(object)
}

/// Gives an object that is about to be stored in the shape of one moment ago the shape of today.
pub(crate) fn renew(resource: &Resource, object: &mut Value) {
    if let Some(custom) = resource.custom() {
        reshape(custom, &resource.storage_api_version(), object);
        skopos_schema::default(custom.schema_of(&resource.storage_version), object);
    }
}

/// Brings an object from its stored form to the served version.
pub(crate) fn to_served(resource: &Resource, object: &mut Value) {
    match resource.custom() {
        Some(custom) => reshape(custom, &resource.api_version(), object),
        None => convert_built_in(object, &resource.storage_api_version(), &resource.api_version()),
    }
}

/// Gives a stored object today's shape of the version it was stored in, then that of the wanted version.
///
/// As in the real server, only the former fills in defaults.
fn reshape(custom: &Custom, wanted: &str, object: &mut Value) {
    let found = object["apiVersion"].as_str().unwrap_or("").to_owned();
    let schema = custom.schema_of(found.rsplit('/').next().unwrap_or(""));
    prune(schema, object);
    skopos_schema::default(schema, object);
    if found != wanted {
        object["apiVersion"] = wanted.into();
        prune(custom.schema_of(wanted.rsplit('/').next().unwrap_or("")), object);
    }
}

fn prune(schema: &skopos_schema::Structural, object: &mut Value) {
    skopos_schema::prune(schema, object, skopos_schema::Root::Resource);
    skopos_schema::prune_nulls(schema, object);
    // What is stored may be malformed by today's schema: what does not fit is left out, never an error.
    let (root, invalid) = (skopos_schema::Root::Plain, skopos_schema::Invalid::Drop);
    let _ = skopos_schema::coerce_embedded(schema, object, root, invalid);
}

/// Brings an object from the served version to the form it is stored in.
pub(crate) fn to_storage(resource: &Resource, object: &mut Value) {
    let Some(custom) = resource.custom() else {
        convert_built_in(object, &resource.api_version(), &resource.storage_api_version());
        return;
    };
    if resource.version != resource.storage_version {
        object["apiVersion"] = resource.storage_api_version().into();
        let schema = custom.schema_of(&resource.storage_version);
        prune(schema, object);
        skopos_schema::default(schema, object);
    }
}

/// What core events and events.k8s.io events call the same things.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An object of a built-in kind in another version, also one from which an apply took mandatory fields.
pub(crate) fn converted(object: &Value, from: &str, to: &str) -> Value {
    let mut object = object.clone();
    let (group, version) = from.split_once('/').unwrap_or(("", from));
    if let Some(kind) = skopos_builtin::kind(group, version, object["kind"].as_str().unwrap_or_default()) {
        // Go has no objects without mandatory fields: they are zero. Types were checked before.
        let _ = skopos_builtin::decode(kind, &mut object);
    }
    convert_built_in(&mut object, from, to);
    object
}

fn convert_built_in(object: &mut Value, from: &str, to: &str) {
    let Some(root) = object.as_object_mut() else {
        return;
    };
    match (from, to) {
        ("v1", "events.k8s.io/v1") => EVENT_FIELDS
            .iter()
            .for_each(|(core, new)| rename(root, core, new)),
        ("events.k8s.io/v1", "v1") => EVENT_FIELDS
            .iter()
            .for_each(|(core, new)| rename(root, new, core)),
        ("autoscaling/v2", "autoscaling/v1") => autoscaler::to_v1(root),
        ("autoscaling/v1", "autoscaling/v2") => autoscaler::to_v2(root),
        _ => {}
    }
    root.insert("apiVersion".into(), to.into());
}

fn rename(root: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = root.remove(from) {
        root.insert(to.to_owned(), value);
    }
}

/// An entry for an object that was not stored because the request was a dry run.
pub(crate) fn unsaved_entry(resource: &Resource, key: &str, object: &Value) -> Arc<Entry> {
    let value = Bytes::from(encode_unsaved(resource, object, None));
    // Newer than any schema, so that it is shown as it is.
    let revision = Revision(u64::MAX);
    Arc::new(Entry {
        key: key.into(),
        value,
        created: revision,
        modified: revision,
    })
}

/// An entry that shows `object` at the version of the entry it would have replaced.
pub(crate) fn unsaved_update(resource: &Resource, entry: &Entry, object: &Value) -> Arc<Entry> {
    let version = entry.modified.to_string();
    let value = Bytes::from(encode_unsaved(resource, object, Some(&version)));
    Arc::new(Entry {
        key: entry.key.clone(),
        value,
        created: entry.created,
        modified: Revision(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_of_both_groups_are_the_same_event() {
        let core = json!({"apiVersion": "v1", "involvedObject": {"name": "a"}, "message": "m", "count": 2});
        let mut event = core.clone();
        convert_built_in(&mut event, "v1", "events.k8s.io/v1");
        assert_eq!(
            event,
            json!({"apiVersion": "events.k8s.io/v1", "regarding": {"name": "a"}, "note": "m", "deprecatedCount": 2})
        );
        convert_built_in(&mut event, "events.k8s.io/v1", "v1");
        assert_eq!(event, core);
    }
}
