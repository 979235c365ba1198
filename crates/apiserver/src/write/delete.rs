//! Delete: at once, or by marking the object and waiting for its finalizers.

mod plan;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use skopos_object::{Details, GroupResource, Status, json};
use skopos_store::{Entry, Expect, WriteError};

use self::plan::{Plan, plan};
use super::{ObjectExt as _, commit};
use crate::call::{Answer, Call};
use crate::options::{DeleteOptions, ListOptions};
use crate::present::{self, Types};
use crate::registry::Resource;
use crate::state::Shared;
use crate::{read, strategy, versions};

/// Said where a job is deleted and nothing is said of its pods.
const PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// What has become of an object that was to be deleted.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Value),
    /// It is marked, and goes once its finalizers are done.
    Marked(Arc<Entry>),
}

impl Deleted {
    /// The last state of an object, at the version of its end.
    fn gone(mut last: Value, end: &Entry) -> Deleted {
        last.set_meta("resourceVersion", end.modified.to_string());
        Deleted::Gone(last)
    }
}

pub(crate) async fn delete(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let options = read_options(call)?;
    let key = call.key();
    let deleted = delete_entry(shared, &call.resource, &key, &options, call.now).await?;
    match deleted.ok_or_else(|| call.not_found())? {
        Deleted::Marked(entry) => {
            let code = if options.not_orphaning { 202 } else { 200 };
            Ok(Answer::Stored { code, entry })
        }
        Deleted::Gone(mut last) if strategy::returns_deleted_object(&call.resource) => {
            versions::to_served(&call.resource, &mut last);
            Ok(Answer::Object {
                code: 200,
                value: last,
            })
        }
        Deleted::Gone(last) => Ok(Answer::Status(Status::success(Details {
            name: call.target.name.clone(),
            group: call.resource.group.clone(),
            kind: call.resource.plural.clone(),
            uid: last.uid().to_owned(),
            ..Details::default()
        }))),
    }
}

fn read_options(call: &Call) -> Result<DeleteOptions, Status> {
    let body = match call.body.is_empty() {
        true => None,
        false => Some(decode_options(call)?),
    };
    let options = DeleteOptions::parse(&call.query, body.as_ref())?;
    if options.propagation.is_none() && call.resource.is("batch", "jobs") {
        call.warn(PODS_STAY);
    }
    Ok(options)
}

fn decode_options(call: &Call) -> Result<Value, Status> {
    let decoded = present::decode_body(&call.headers, &call.body, "DeleteOptions", Types::Optional);
    decoded
        .map(|decoded| decoded.value)
        .map_err(|status| match json::decode(&call.body) {
            // The real server leaves out here what it says of objects.
            Err(error) if status.code == 400 => {
                Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
            }
            _ => status,
        })
}

pub(crate) async fn delete_collection(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let options = read_options(call)?;
    let list_options = ListOptions::parse(&call.query, false)?;
    let listed = read::select(shared, call, &list_options)?;
    let mut items = Vec::with_capacity(listed.items.len());
    for entry in &listed.items {
        // The answer shows the objects as they were listed, also those that are only marked.
        delete_entry(shared, &call.resource, &entry.key, &options, call.now).await?;
        items.push(versions::from_entry(&call.resource, entry)?);
    }
    read::respond_with_values(call, &listed.meta(), items)
}

/// Deletes one object or marks it; `None` when it is not there.
pub(crate) async fn delete_entry(
    shared: &Shared,
    resource: &Arc<Resource>,
    key: &str,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Option<Deleted>, Status> {
    loop {
        let Some(entry) = shared.store.get(&resource.space, key) else {
            return Ok(None);
        };
        let old = versions::in_storage(resource, &entry)?;
        check_preconditions(resource, &old, &entry, options)?;
        check_protected(resource, &old)?;
        let outcome = match plan(resource, &old, options, now) {
            Plan::Keep if options.dry_run || commit::is_unchanged(resource, &old, &entry) => {
                return Ok(Some(Deleted::Marked(entry)));
            }
            // Stored in the shape of another schema: it is written in that of today, as by every other write.
            Plan::Keep => shared
                .put(resource, key, Expect::At(entry.modified), &old)
                .await
                .map(Deleted::Marked),
            Plan::Mark(marked) if options.dry_run => {
                return Ok(Some(Deleted::Marked(versions::unsaved_update(
                    resource, &entry, &marked,
                ))));
            }
            Plan::Remove if options.dry_run => return Ok(Some(Deleted::Gone(old))),
            Plan::MarkAndRemove(marked) if options.dry_run => return Ok(Some(Deleted::Gone(marked))),
            Plan::Mark(marked) => shared
                .put(resource, key, Expect::At(entry.modified), &marked)
                .await
                .map(Deleted::Marked),
            Plan::MarkAndRemove(marked) => mark_and_remove(shared, resource, key, &entry, marked).await,
            Plan::Remove => shared
                .remove(resource, key, Expect::At(entry.modified), &old)
                .await
                .map(|entry| Deleted::gone(old, &entry)),
        };
        match outcome {
            Ok(deleted) => return Ok(Some(deleted)),
            Err(WriteError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => return Err(commit::storage_failed(&error)),
        }
    }
}

/// Marks an object and removes it: watchers see both.
async fn mark_and_remove(
    shared: &Shared,
    resource: &Arc<Resource>,
    key: &str,
    entry: &Entry,
    marked: Value,
) -> Result<Deleted, WriteError> {
    let entry = shared
        .put(resource, key, Expect::At(entry.modified), &marked)
        .await?;
    let marked = versions::in_storage(resource, &entry).unwrap_or(marked);
    shared
        .remove(resource, key, Expect::At(entry.modified), &marked)
        .await
        .map(|entry| Deleted::gone(marked, &entry))
}

/// A namespace stays until its own finalizers, in `spec`, are done.
fn holds_namespace(resource: &Resource, object: &Value) -> bool {
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    resource.is("", "namespaces") && finalizers.is_some_and(|list| !list.is_empty())
}

/// An object without finalizers that is nevertheless not to be removed yet.
pub(crate) fn is_held(resource: &Resource, object: &Value) -> bool {
    holds_namespace(resource, object) || plan::grace_seconds(object) > 0
}

fn check_preconditions(
    resource: &Resource,
    old: &Value,
    entry: &Entry,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // The real server names the kind here where it names the resource elsewhere.
    let named = GroupResource::new(resource.group.clone(), resource.kind.clone());
    let conflict = |why: String| Err(Status::conflict(&named, old.name(), &why));
    if let Some(uid) = options.precondition_uid.as_deref()
        && uid != old.uid()
    {
        let found = old.uid();
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
        ));
    }
    if let Some(version) = options.precondition_version.as_deref()
        && version != entry.modified.to_string()
    {
        let found = entry.modified;
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        ));
    }
    Ok(())
}

fn check_protected(resource: &Resource, old: &Value) -> Result<(), Status> {
    if !resource.is("", "namespaces") {
        return Ok(());
    }
    if ["default", "kube-system", "kube-public"].contains(&old.name()) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(&resource.group_resource(), old.name(), why));
    }
    Ok(())
}
