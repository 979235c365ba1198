//! Update: read, change, check, compare-and-set; again when somebody else was faster.

use std::sync::Arc;

use serde_json::Value;
use skopos_object::{FieldError, FieldPath, GroupKind, Status};
use skopos_schema::keep_times;
use skopos_store::{Entry, Expect, WriteError};

use super::prepare::{self, Operation};
use super::{Author, ObjectExt as _, body, commit, create, track};
use crate::call::{Answer, Call};
use crate::options::{WriteKind, WriteOptions};
use crate::state::Shared;
use crate::{claims, scale, strategy, versions};

pub(crate) async fn update(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Update)?;
    if call.target.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    if call.target.subresource == "scale" {
        return scale::update(shared, call, &options).await;
    }
    let object = body::read_object(call, options.field_validation)?;
    check_name(call, &object)?;
    let absent = shared.store.get(&call.resource.space, &call.key()).is_none();
    if absent && call.target.subresource.is_empty() && strategy::creates_on_update(&call.resource) {
        let entry = create::insert(shared, call, to_be_made(call, object)?, &options).await?;
        return Ok(Answer::Stored { code: 201, entry });
    }
    let entry = modify(shared, call, &options, Change::Replace(&object)).await?;
    Ok(Answer::Stored { code: 200, entry })
}

/// What is not there has no uid, so that none can be asked for; a version is no matter.
fn to_be_made(call: &Call, mut object: Value) -> Result<Value, Status> {
    check_uid(call, &object, "")?;
    match object.meta_str("resourceVersion") {
        "" => {}
        version => {
            parse_version(version)?;
            object.remove_meta("resourceVersion");
        }
    }
    Ok(object)
}

pub(super) fn check_name(call: &Call, object: &Value) -> Result<(), Status> {
    let wanted = &call.target.name;
    match object.name() {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))),
        name if name == wanted => Ok(()),
        name => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        ))),
    }
}

/// What an update makes of the object it finds.
pub(crate) enum Change<'a> {
    /// A whole new object from a PUT.
    Replace(&'a Value),
    /// A function of the current object, in the served version: patches.
    Patch(&'a (dyn Fn(&Value) -> Result<Value, Status> + Sync)),
    /// Like a patch, but the new object has its defaults and says already who owns what.
    Owned(&'a (dyn Fn(&Value) -> Result<Value, Status> + Sync)),
    /// Like one that says who owns what, of new replicas: what they stand in may have come with them. That is checked as
    /// it is, and has its defaults when it is read.
    Scaled(&'a (dyn Fn(&Value) -> Result<Value, Status> + Sync)),
}

/// Applies a change to the stored object, through the whole pipeline, until it wins.
///
/// A change that carries a resource version is tried once: somebody else's write in between is a conflict.
pub(crate) async fn modify(
    shared: &Shared,
    call: &Call,
    options: &WriteOptions,
    change: Change<'_>,
) -> Result<Arc<Entry>, Status> {
    let key = call.key();
    let _allocating = shared.allocate(&call.resource).await;
    loop {
        let Some(entry) = shared.store.get(&call.resource.space, &key) else {
            return Err(call.not_found());
        };
        let old = versions::from_entry(&call.resource, &entry)?;
        let mut new = match &change {
            Change::Replace(object) => (*object).clone(),
            Change::Patch(change) | Change::Owned(change) | Change::Scaled(change) => change(&old)?,
        };
        check_preconditions(call, &new, &old, &entry, matches!(change, Change::Replace(_)))?;
        if new.meta_str("resourceVersion").is_empty() {
            new.set_meta("resourceVersion", entry.modified.to_string());
        }
        prepare::drop_repeated_owners(call, &mut new);
        if let Change::Replace(_) | Change::Patch(_) = change {
            prepare::default(&call.resource, &mut new);
            track(&call.resource, Some(&old), &mut new, Author::of(call, options));
        }
        run_pipeline(shared, call, &mut new, &old)?;
        if let Change::Scaled(_) = change {
            prepare::default(&call.resource, &mut new);
        }
        match store(shared, call, &key, &entry, new, options.dry_run).await? {
            Some(entry) => return Ok(entry),
            None => tokio::task::yield_now().await,
        }
    }
}

/// Resource version and uid in the new object are preconditions.
fn check_preconditions(
    call: &Call,
    new: &Value,
    old: &Value,
    entry: &Entry,
    is_put: bool,
) -> Result<(), Status> {
    let resource = &call.resource;
    if is_put {
        check_uid(call, new, old.uid())?;
    }
    match new.meta_str("resourceVersion") {
        "" | "0" if strategy::updates_unconditionally(resource) => Ok(()),
        "" | "0" => Err(version_required(call)),
        version => match parse_version(version)? {
            version if version == entry.modified.0 => Ok(()),
            _ => Err(Status::modified(&resource.group_resource(), &call.target.name)),
        },
    }
}

/// Whether an object that was sent is the one that is there, if it says which it is.
pub(crate) fn check_uid(call: &Call, sent: &Value, found: &str) -> Result<(), Status> {
    let uid = sent.uid();
    if uid.is_empty() || uid == found {
        return Ok(());
    }
    let resource = &call.resource;
    let group = match resource.custom() {
        Some(_) => format!("{}/", resource.group),
        None => String::new(),
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {found}",
        resource.plural,
        call.key(),
    );
    Err(Status::conflict(
        &resource.group_resource(),
        &call.target.name,
        &why,
    ))
}

fn parse_version(version: &str) -> Result<u64, Status> {
    version
        .parse()
        .map_err(|_| commit::storage_error(format!("strconv.ParseUint: parsing {version:?}: invalid syntax")))
}

fn version_required(call: &Call) -> Status {
    let path = FieldPath::root().child("metadata").child("resourceVersion");
    let error = FieldError::invalid(&path, 0, "must be specified for an update");
    let named = GroupKind::new(call.resource.group.clone(), call.resource.plural.clone());
    Status::invalid(&named, &call.target.name, vec![error])
}

fn run_pipeline(shared: &Shared, call: &Call, new: &mut Value, old: &Value) -> Result<(), Status> {
    let operation = match call.target.subresource.as_str() {
        "status" => Operation::UpdateStatus { old },
        _ => Operation::Update { old },
    };
    match (operation, call.target.subresource.as_str()) {
        (Operation::UpdateStatus { .. }, _) => prepare::prepare_status_update(call, new, old)?,
        (_, "finalize") => prepare::prepare_finalize(call, new, old)?,
        _ => prepare::prepare_update(call, new, old)?,
    }
    shared.admit(call, new, operation)?;
    keep_times(old, new);
    prepare::validate(call, new, operation)?;
    if let (Operation::Update { .. }, true) = (operation, call.resource.is("", "persistentvolumeclaims")) {
        let forbidden = |why| Status::forbidden(&call.resource.group_resource(), &call.target.name, why);
        claims::admit_growth(&shared.store, new, old).map_err(forbidden)?;
    }
    Ok(())
}

/// `None` when the object changed meanwhile.
async fn store(
    shared: &Shared,
    call: &Call,
    key: &str,
    entry: &Arc<Entry>,
    mut new: Value,
    dry_run: bool,
) -> Result<Option<Arc<Entry>>, Status> {
    let resource = &call.resource;
    versions::to_storage(resource, &mut new);
    if commit::is_unchanged(resource, &new, entry) {
        return Ok(Some(Arc::clone(entry)));
    }
    let expect = Expect::At(entry.modified);
    let done = new.is_deleting() && new.finalizers().is_empty() && !super::delete::is_held(resource, &new);
    let outcome = match (dry_run, done) {
        (true, _) => return Ok(Some(versions::unsaved_update(resource, entry, &new))),
        // The answer shows the object as it was at its last stored version, like the real server's.
        (false, true) => {
            let shown = versions::unsaved_update(resource, entry, &new);
            // Watchers see it with the finalizer that was the last: it was never stored without.
            let last = versions::in_storage(resource, entry)?;
            shared.remove(resource, key, expect, &last).await.map(|_| shown)
        }
        (false, false) => shared.put_sized(call, key, expect, &new).await,
    };
    match outcome {
        Ok(entry) => Ok(Some(entry)),
        Err(WriteError::Conflict { .. }) => Ok(None),
        Err(error) => Err(commit::storage_failed(&error)),
    }
}
