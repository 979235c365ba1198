//! The one door to the store: encodes objects and tells the controllers what has changed.

use std::sync::Arc;

use serde_json::{Map, Value};
use skopos_object::{Reason, Status};
use skopos_schema::write_fields;
use skopos_store::{Entry, Expect, Op, Template, Write, WriteError};
use tokio::sync::OwnedRwLockReadGuard;

use super::ObjectExt as _;
use super::patch::is_apply;
use crate::call::Call;
use crate::controllers::Note;
use crate::definition;
use crate::registry::Resource;
use crate::state::Shared;
use crate::versions;

/// Writes an object as JSON with room for its resource version, which only the store can know.
fn encode_template(resource: &Resource, object: &Value) -> Template {
    let (bytes, revision_at) = encode(object, Some(""), FieldsOrder::of(resource));
    Template {
        bytes: bytes.into(),
        revision_at: Some(revision_at),
    }
}

/// An object as it would be stored, at a version of its own or at none.
pub(crate) fn encode_unsaved(resource: &Resource, object: &Value, resource_version: Option<&str>) -> Vec<u8> {
    encode(object, resource_version, FieldsOrder::of(resource)).0
}

/// Would storing `object` over `entry` change a single byte?
pub(super) fn is_unchanged(resource: &Resource, object: &Value, entry: &Entry) -> bool {
    let version = entry.modified.0.to_string();
    encode_unsaved(resource, object, Some(&version)) == entry.value.as_ref()
}

/// How the owned fields of an object are sorted.
#[derive(Clone, Copy)]
enum FieldsOrder {
    /// As everything else, by the text of their names.
    Text,
    /// Items of lists by the values of their keys: built-in kinds keep what the merge wrote.
    Keys,
}

impl FieldsOrder {
    fn of(resource: &Resource) -> FieldsOrder {
        match resource.built_in() {
            Some(_) => FieldsOrder::Keys,
            None => FieldsOrder::Text,
        }
    }
}

/// Encodes with the given resource version and says where in the buffer it stands.
fn encode(object: &Value, resource_version: Option<&str>, order: FieldsOrder) -> (Vec<u8>, usize) {
    let empty = Map::new();
    let root = object.as_object().unwrap_or(&empty);
    let mut out = Vec::with_capacity(1024);
    let mut revision_at = 0;
    out.push(b'{');
    for (i, (name, value)) in root.iter().enumerate() {
        separate(&mut out, i, name);
        match value {
            Value::Object(metadata) if name == "metadata" => {
                revision_at = encode_metadata(&mut out, metadata, resource_version, order);
            }
            other => write_value(&mut out, other),
        }
    }
    out.push(b'}');
    (out, revision_at)
}

fn encode_metadata(
    out: &mut Vec<u8>,
    metadata: &Map<String, Value>,
    resource_version: Option<&str>,
    order: FieldsOrder,
) -> usize {
    let mut revision_at = None;
    let mut n_written = 0;
    let write_version = |out: &mut Vec<u8>, i: usize| {
        let Some(resource_version) = resource_version else {
            return 0;
        };
        separate(out, i, "resourceVersion");
        out.push(b'"');
        let at = out.len();
        out.extend_from_slice(resource_version.as_bytes());
        out.push(b'"');
        at
    };
    out.push(b'{');
    for (name, value) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
        if revision_at.is_none() && name.as_str() > "resourceVersion" {
            revision_at = Some(write_version(out, n_written));
            n_written += usize::from(resource_version.is_some());
        }
        separate(out, n_written, name);
        match (order, value) {
            (FieldsOrder::Keys, Value::Array(entries)) if name == "managedFields" => {
                write_managed_fields(out, entries);
            }
            _ => write_value(out, value),
        }
        n_written += 1;
    }
    let revision_at = revision_at.unwrap_or_else(|| write_version(out, n_written));
    out.push(b'}');
    revision_at
}

fn write_managed_fields(out: &mut Vec<u8>, entries: &[Value]) {
    out.push(b'[');
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let Value::Object(entry) = entry else {
            write_value(out, entry);
            continue;
        };
        out.push(b'{');
        for (i, (name, value)) in entry.iter().enumerate() {
            separate(out, i, name);
            match name.as_str() {
                "fieldsV1" => write_fields(value, out),
                _ => write_value(out, value),
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

fn separate(out: &mut Vec<u8>, i: usize, name: &str) {
    if i > 0 {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, name).expect("a string can be written to memory");
    out.push(b':');
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a JSON value can be written to memory");
}

impl Shared {
    /// Stores an object of a client if etcd would take it; the owners of its fields are given up where that helps,
    /// but not by an apply, which is about them.
    pub(super) async fn put_sized(
        &self,
        call: &Call,
        key: &str,
        expect: Expect,
        object: &Value,
    ) -> Result<Arc<Entry>, WriteError> {
        let resource = &call.resource;
        let (template, stays) = self.shape(resource, object).await;
        let Err(too_large) = check_size(resource, key, object, &template) else {
            return self
                .put_shaped(resource, key, expect, object, template, stays)
                .await;
        };
        drop(stays);
        let mut object = object.clone();
        if is_apply(call) || object.meta("managedFields").is_none() {
            return Err(too_large);
        }
        object.remove_meta("managedFields");
        let (template, stays) = self.shape(resource, &object).await;
        check_size(resource, key, &object, &template)?;
        self.put_shaped(resource, key, expect, &object, template, stays)
            .await
    }

    /// Stores an object and lets the controllers know.
    pub(crate) async fn put(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        expect: Expect,
        object: &Value,
    ) -> Result<Arc<Entry>, WriteError> {
        let (template, stays) = self.shape(resource, object).await;
        self.put_shaped(resource, key, expect, object, template, stays)
            .await
    }

    async fn put_shaped(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        expect: Expect,
        object: &Value,
        template: Template,
        stays: Option<OwnedRwLockReadGuard<()>>,
    ) -> Result<Arc<Entry>, WriteError> {
        let note = Note::of_put(resource, object);
        let is_namespace = resource.is("", "namespaces");
        let op = Op::Put(template);
        let observers = (
            Arc::clone(&self.garbage),
            Arc::clone(&self.namespaces),
            Arc::clone(&self.definitions),
        );
        let is_definition = definition::is_definition(resource);
        self.write(resource, key, expect, op, move |entry| {
            drop(stays);
            let (garbage, namespaces, definitions) = observers;
            garbage.observe(note);
            if is_namespace {
                namespaces.observe(&entry.key);
            }
            if is_definition {
                definitions.observe(entry.modified);
            }
        })
        .await
    }

    /// Removes an object; its last state, with the revision of the removal, goes to the watchers.
    pub(crate) async fn remove(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        expect: Expect,
        last: &Value,
    ) -> Result<Arc<Entry>, WriteError> {
        let note = Note::of_removal(resource, last);
        let (tombstone, stays) = self.shape(resource, last).await;
        let op = Op::Delete { tombstone };
        let observers = (
            Arc::clone(&self.garbage),
            Arc::clone(&self.namespaces),
            Arc::clone(&self.definitions),
        );
        let resource_of = Arc::clone(resource);
        self.write(resource, key, expect, op, move |entry| {
            drop(stays);
            let (garbage, namespaces, definitions) = observers;
            garbage.observe(note);
            if let Some((namespace, name)) = entry.key.split_once('/') {
                namespaces.observe_removal(namespace, ["default", "kube-root-ca.crt"].contains(&name));
            }
            definitions.observe_removal(&resource_of, entry.modified);
        })
        .await
    }

    /// The bytes to store, and what keeps the registry from changing until they are stored.
    ///
    /// The definition may have changed since the request began: what it does not know would be taken for
    /// an object of today's shape.
    async fn shape(
        &self,
        resource: &Resource,
        object: &Value,
    ) -> (Template, Option<OwnedRwLockReadGuard<()>>) {
        let Some(custom) = resource.custom() else {
            return (encode_template(resource, object), None);
        };
        let stays = Arc::clone(&self.swap).read_owned().await;
        let registry = self.registry.load();
        let current = match custom.shape.is_replaced() {
            true => registry.by_space(&resource.space),
            false => None,
        };
        let Some(current) = current else {
            return (encode_template(resource, object), Some(stays));
        };
        let mut object = object.clone();
        versions::renew(current, &mut object);
        (encode_template(resource, &object), Some(stays))
    }

    /// Commits and observes as one: a client that goes away in between must not leave the controllers unaware.
    async fn write(
        &self,
        resource: &Resource,
        key: &str,
        expect: Expect,
        op: Op,
        observe: impl FnOnce(&Entry) + Send + 'static,
    ) -> Result<Arc<Entry>, WriteError> {
        let write = Write {
            space: Arc::clone(&resource.space),
            key: key.to_owned(),
            expect,
            op,
        };
        self.store.write_observed(write, observe).await
    }
}

/// What etcd takes in one request if nobody says otherwise: an object has to be smaller to be stored in a real
/// cluster.
const MAX_STORED_BYTES: usize = 3 << 19;
/// What a client of etcd sends at all.
const MAX_SENT_BYTES: usize = 2 << 20;

/// How many bytes too many an object takes in etcd, if any: custom resources are stored there in JSON, built-in
/// kinds in protobuf.
fn check_size(resource: &Resource, key: &str, object: &Value, template: &Template) -> Result<(), WriteError> {
    let mut size = template.bytes.len();
    if size > MAX_STORED_BYTES && resource.custom().is_none() {
        size = skopos_builtin::protobuf::encode(object).map_or(size, |bytes| bytes.len());
    }
    // A request names the key in its condition, in what it writes and in what it reads if the condition fails.
    size += 3 * format!("/registry/{}/{}/{key}", resource.group, resource.plural).len();
    match size > MAX_STORED_BYTES {
        true => Err(WriteError::TooLarge {
            size,
            limit: MAX_STORED_BYTES,
        }),
        false => Ok(()),
    }
}

/// The answer to a write that the store could not take.
pub(crate) fn storage_failed(error: &WriteError) -> Status {
    match error {
        WriteError::TooLarge { size, .. } if *size > MAX_SENT_BYTES => {
            return storage_error(format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {MAX_SENT_BYTES})"
            ));
        }
        WriteError::TooLarge { .. } => return storage_error("etcdserver: request is too large"),
        _ => {}
    }
    let source = std::error::Error::source(error)
        .map(|s| format!(": {s}"))
        .unwrap_or_default();
    Status::internal(format!("{error}{source}"))
}

/// An error of the storage layer, which clients see without a reason.
pub(super) fn storage_error(message: impl Into<String>) -> Status {
    Status::failure(500, Reason::Unknown, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(object: &Value) {
        let (mut bytes, at) = encode(object, Some(""), FieldsOrder::Keys);
        bytes.splice(at..at, b"17".iter().copied());
        let mut expected = object.clone();
        expected.set_meta("resourceVersion", "17");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected.to_string());
    }

    #[test]
    fn leaves_room_for_the_resource_version_in_its_sorted_place() {
        check(&json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "uid": "u"}, "spec": {}}));
        check(&json!({"metadata": {"name": "a"}}));
        check(&json!({"metadata": {"uid": "a", "resourceVersion": "5"}}));
        check(&json!({"metadata": {}}));
        check(&json!({"metadata": {"managedFields": [{"fieldsV1": {"f:a": {}}, "manager": "m"}, null]}}));
    }

    #[test]
    fn owned_items_of_built_in_kinds_come_in_the_order_of_their_keys() {
        let ports = json!({"k:{\"port\":443}": {}, "k:{\"port\":80}": {}});
        let object = json!({"metadata": {"managedFields": [{"fieldsV1": ports}]}});
        let text = |order| String::from_utf8(encode(&object, None, order).0).unwrap();
        assert!(text(FieldsOrder::Keys).contains(r#"{"k:{\"port\":80}":{},"k:{\"port\":443}":{}}"#));
        assert!(text(FieldsOrder::Text).contains(r#"{"k:{\"port\":443}":{},"k:{\"port\":80}":{}}"#));
    }
}
