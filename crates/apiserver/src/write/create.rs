//! Create: POST to a collection, and PUT to a name that may be created so.

use std::sync::Arc;

use serde_json::Value;
use skopos_object::{Status, raw_path};
use skopos_schema::generated_name;
use skopos_store::{Entry, Expect, WriteError};
use uuid::Uuid;

use super::prepare::{self, Operation};
use super::{Author, ObjectExt as _, body, commit, metadata, track};
use crate::call::{Answer, Call};
use crate::options::{WriteKind, WriteOptions};
use crate::state::Shared;
use crate::versions;

/// How often a generated name is tried anew when it is taken.
const GENERATE_NAME_ATTEMPTS: usize = 8;

pub(crate) async fn create(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Create)?;
    let object = body::read_object(call, options.field_validation)?;
    if call.resource.namespaced && call.target.namespace.is_empty() {
        return Err(Status::bad_request("namespace is required for this resource"));
    }
    let entry = insert(shared, call, object, &options).await?;
    Ok(Answer::Stored { code: 201, entry })
}

/// Runs a new object through the pipeline and stores it.
pub(super) async fn insert(
    shared: &Shared,
    call: &Call,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Arc<Entry>, Status> {
    metadata::wipe_for_create(&mut object);
    prepare::drop_repeated_owners(call, &mut object);
    prepare::default(&call.resource, &mut object);
    track(&call.resource, None, &mut object, Author::of(call, options));
    let dry_run = options.dry_run;
    let prefix = object.meta_str("generateName").to_owned();
    let named = call.resource.group_resource();
    if !object.name().is_empty() || prefix.is_empty() {
        let name = object.name().to_owned();
        let stored = insert_once(shared, call, object, dry_run).await?;
        return stored.ok_or_else(|| taken(shared, call, &name));
    }
    shared.admit_create(call, &prefix)?;
    for _ in 0..GENERATE_NAME_ATTEMPTS {
        let mut candidate = object.clone();
        candidate.set_meta("name", generate_name(&prefix, shared.chance.uuid()));
        if let Some(entry) = insert_once(shared, call, candidate, dry_run).await? {
            return Ok(entry);
        }
    }
    Err(Status::generate_name_conflict(&named, &prefix, 1))
}

/// The refusal of a name, which may be about to become free.
fn taken(shared: &Shared, call: &Call, name: &str) -> Status {
    let resource = &call.resource;
    let mut status = Status::already_exists(&resource.group_resource(), name);
    let key = resource.key(&call.target.namespace, name);
    let current = shared.store.get(&resource.space, &key);
    if current.is_some_and(|entry| raw_path(&entry.value, &["metadata", "deletionTimestamp"]).is_some()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// `None` when the name is taken.
pub(super) async fn insert_once(
    shared: &Shared,
    call: &Call,
    mut object: Value,
    dry_run: bool,
) -> Result<Option<Arc<Entry>>, Status> {
    let resource = &call.resource;
    prepare::prepare_create(shared, call, &mut object)?;
    let _allocating = shared.allocate(resource).await;
    shared.admit(call, &mut object, Operation::Create)?;
    prepare::validate(call, &object, Operation::Create)?;
    let key = resource.key(&call.target.namespace, object.name());
    versions::to_storage(resource, &mut object);
    if dry_run {
        let taken = shared.store.get(&resource.space, &key).is_some();
        return Ok((!taken).then(|| versions::unsaved_entry(resource, &key, &object)));
    }
    match shared.put_sized(call, &key, Expect::Absent, &object).await {
        Ok(entry) => {
            shared.namespaces.recheck(&shared.store, &entry);
            Ok(Some(entry))
        }
        Err(WriteError::Conflict { .. }) => Ok(None),
        Err(error) => Err(commit::storage_failed(&error)),
    }
}

fn generate_name(prefix: &str, random: Uuid) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let suffix = random
        .as_bytes()
        .iter()
        .take(5)
        .map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()] as char);
    generated_name(prefix, suffix)
}
