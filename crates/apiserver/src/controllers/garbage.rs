//! Garbage collection by owner reference: background, foreground and orphan.
//!
//! Every write passes through this process, so the graph is kept by watching commits, and holds only
//! objects that have owners. On start it is rebuilt from the store.

mod graph;
mod report;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;
use skopos_object::{GroupVersionKind, Status, raw_path};
use skopos_store::{Expect, Range, WriteError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::graph::{Graph, Place, owner_references};

pub(crate) use self::graph::Note;

use super::RETRY_AFTER;
use crate::options::{DeleteOptions, Propagation};
use crate::registry::{Registry, Resource};
use crate::state::Shared;
use crate::versions;
use crate::write::{ObjectExt as _, OwnWrite, delete_entry, is_held, track_own};

/// The graph of owners and dependents, and what is to be looked at.
#[derive(Debug)]
pub(crate) struct Garbage {
    bell: Notify,
    graph: Mutex<Graph>,
}

impl Garbage {
    pub(crate) fn new() -> Garbage {
        Garbage {
            bell: Notify::new(),
            graph: Mutex::new(Graph::default()),
        }
    }

    fn graph(&self) -> std::sync::MutexGuard<'_, Graph> {
        self.graph
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes note of what has been committed.
    pub(crate) fn observe(&self, note: Note) {
        let mut graph = self.graph();
        if graph.take(note) {
            drop(graph);
            self.bell.notify_one();
        }
    }

    /// Some dependent of the object waits for dependents of its own: the two may wait for each other.
    fn is_circular(&self, uid: &str) -> bool {
        let graph = self.graph();
        let mut dependents = graph.dependents.get(uid).into_iter().flatten();
        dependents.any(|place| graph.waiting.values().any(|waiting| waiting == place))
    }

    /// Reads all owner references from the store.
    pub(crate) fn rebuild(shared: &Shared) {
        for resource in shared.registry.load().stored() {
            let Ok(page) = shared.store.list(&resource.space, &Range::default()) else {
                continue;
            };
            for entry in page.items {
                let has_owner = raw_path(&entry.value, &["metadata", "ownerReferences"]).is_some();
                let is_deleting = raw_path(&entry.value, &["metadata", "deletionTimestamp"]).is_some();
                if (has_owner || is_deleting)
                    && let Ok(object) = versions::parse(&entry)
                {
                    shared.garbage.observe(Note::of_put(&resource, &object));
                }
            }
        }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
        loop {
            let dirty = std::mem::take(&mut shared.garbage.graph().dirty);
            let mut failed = Vec::new();
            for place in dirty {
                if let Err(status) = shared.collect(&place).await {
                    tracing::error!(space = %place.space, key = place.key, error = %status.message, "not collected");
                    failed.push(place);
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY_AFTER), if !failed.is_empty() => {}
                () = shared.garbage.bell.notified() => {}
            }
            shared.garbage.graph().dirty.extend(failed);
        }
    }
}

/// What is known of one owner of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Solid,
    /// Waits in foreground deletion for its dependents.
    Waiting,
    Absent,
    /// Its kind is not served: nothing can be said.
    Unknown,
}

impl Shared {
    async fn collect(&self, place: &Place) -> Result<(), Status> {
        let registry = self.registry.load_full();
        let new_owners = self.garbage.graph().new_owners.remove(place).unwrap_or_default();
        let Some((resource, key)) = resolve(&registry, place) else {
            return Ok(());
        };
        let Some(entry) = self.store.get(&resource.space, &key) else {
            return Ok(());
        };
        let object = versions::parse(&entry)?;
        if let Err(status) = self.report_strange_owners(&registry, &object, &new_owners).await {
            tracing::warn!(key, error = %status.message, "no event of an owner in another namespace");
        }
        if object.is_deleting() {
            return self.finish_deletion(&registry, &resource, &key, &object).await;
        }
        self.collect_dependent(&registry, &resource, &key, &object).await
    }

    /// Carries out what the object's `orphan` or `foregroundDeletion` finalizer stands for.
    async fn finish_deletion(
        &self,
        registry: &Registry,
        resource: &Arc<Resource>,
        key: &str,
        object: &Value,
    ) -> Result<(), Status> {
        let finalizers = object.finalizers();
        let dependents: Vec<Place> = self
            .garbage
            .graph()
            .dependents
            .get(object.uid())
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        if finalizers.contains(&"orphan") {
            for place in &dependents {
                self.release_dependent(registry, place, object.uid()).await?;
            }
            return self.drop_finalizer(resource, key, "orphan").await;
        }
        if !finalizers.contains(&"foregroundDeletion") {
            return Ok(());
        }
        let mut blocked = false;
        for place in &dependents {
            blocked |= self.delete_dependent(registry, place, object.uid()).await?;
        }
        match blocked {
            true => Ok(()),
            false => self.drop_finalizer(resource, key, "foregroundDeletion").await,
        }
    }

    /// Deletes a dependent of an object in foreground deletion; says whether the owner must wait for it.
    async fn delete_dependent(
        &self,
        registry: &Registry,
        place: &Place,
        owner: &str,
    ) -> Result<bool, Status> {
        let Some((resource, key)) = resolve(registry, place) else {
            return Ok(false);
        };
        let read = || -> Result<_, Status> {
            let entry = self.store.get(&resource.space, &key);
            entry.map(|entry| versions::parse(&entry)).transpose()
        };
        match read()? {
            Some(object) if !object.is_deleting() => {
                self.collect_dependent(registry, &resource, &key, &object).await?;
            }
            // Being deleted is a way without a turn: its owner waits for its end.
            _ => {}
        }
        let is_blocking = |r: &Value| r["uid"] == owner && r["blockOwnerDeletion"] == true;
        Ok(read()?.is_some_and(|object| owner_references(&object).iter().any(is_blocking)))
    }

    /// Deletes an object whose owners are all gone or going, or takes those out of it.
    async fn collect_dependent(
        &self,
        registry: &Registry,
        resource: &Arc<Resource>,
        key: &str,
        object: &Value,
    ) -> Result<(), Status> {
        let owners = owner_references(object);
        let states: Vec<Owner> = owners
            .iter()
            .map(|owner| self.owner_state(registry, object, owner))
            .collect();
        // Of which nothing can be said may be what keeps it.
        if owners.is_empty() || states.contains(&Owner::Unknown) {
            return Ok(());
        }
        if states.contains(&Owner::Solid) {
            let leaving = owners
                .iter()
                .zip(&states)
                .filter(|(_, state)| **state != Owner::Solid);
            let leaving: Vec<&str> = leaving.filter_map(|(owner, _)| owner["uid"].as_str()).collect();
            return self.release(resource, key, &leaving).await;
        }
        let has_dependents = self.garbage.graph().dependents.contains_key(object.uid());
        if !states.contains(&Owner::Waiting) || !has_dependents {
            return self
                .delete_as_seen(resource, key, object, wanted_propagation(object))
                .await;
        }
        if !self.garbage.is_circular(object.uid()) {
            return self
                .delete_as_seen(resource, key, object, Propagation::Foreground)
                .await;
        }
        self.unblock(resource, key).await?;
        let Some(entry) = self.store.get(&resource.space, key) else {
            return Ok(());
        };
        let unblocked = versions::parse(&entry)?;
        self.delete_as_seen(resource, key, &unblocked, Propagation::Foreground)
            .await
    }

    /// Deletes an object unless it has changed: what was found out about its owners may no longer be true then.
    async fn delete_as_seen(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        object: &Value,
        propagation: Propagation,
    ) -> Result<(), Status> {
        let options = DeleteOptions {
            precondition_uid: Some(object.uid().to_owned()),
            precondition_version: Some(object.meta_str("resourceVersion").to_owned()),
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        match delete_entry(self, resource, key, &options, Timestamp::now()).await {
            // Whoever wrote it has left a note: it is looked at again.
            Err(status) if status.code == 409 => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn owner_state(&self, registry: &Registry, dependent: &Value, owner: &Value) -> Owner {
        let text = |field: &str| owner[field].as_str().unwrap_or("");
        let Ok(gvk) = GroupVersionKind::from_api_version(text("apiVersion"), text("kind")) else {
            return Owner::Unknown;
        };
        let Some(resource) = registry.by_kind(&gvk) else {
            let was_seen_going = self.garbage.graph().gone.contains(text("uid"));
            return if was_seen_going {
                Owner::Absent
            } else {
                Owner::Unknown
            };
        };
        // A cluster-scoped object cannot be owned from inside a namespace.
        if resource.namespaced && dependent.namespace().is_empty() {
            return Owner::Unknown;
        }
        let key = resource.key(dependent.namespace(), text("name"));
        let Some(entry) = self.store.get(&resource.space, &key) else {
            return Owner::Absent;
        };
        match versions::parse(&entry) {
            Ok(found) if found.uid() != text("uid") => Owner::Absent,
            Ok(found) if found.is_deleting() && found.finalizers().contains(&"foregroundDeletion") => {
                Owner::Waiting
            }
            _ => Owner::Solid,
        }
    }

    async fn release_dependent(&self, registry: &Registry, place: &Place, owner: &str) -> Result<(), Status> {
        match resolve(registry, place) {
            Some((resource, key)) => self.release(&resource, &key, &[owner]).await,
            None => Ok(()),
        }
    }

    /// Takes owners out of an object.
    async fn release(&self, resource: &Arc<Resource>, key: &str, owners: &[&str]) -> Result<(), Status> {
        let leaves = |owner: &&Value| owner["uid"].as_str().is_some_and(|uid| owners.contains(&uid));
        self.rewrite(resource, key, |object| {
            let references = owner_references(object);
            let rest: Vec<Value> = references
                .iter()
                .filter(|owner| !leaves(owner))
                .cloned()
                .collect();
            match rest.is_empty() {
                true => object.remove_meta("ownerReferences"),
                false => object.set_meta("ownerReferences", rest),
            }
        })
        .await
    }

    /// Lets the owners of an object go before it.
    async fn unblock(&self, resource: &Arc<Resource>, key: &str) -> Result<(), Status> {
        self.rewrite(resource, key, |object| {
            let mut references = owner_references(object).to_vec();
            for reference in references.iter_mut().filter(|r| r["blockOwnerDeletion"] == true) {
                reference["blockOwnerDeletion"] = Value::Bool(false);
            }
            object.set_meta("ownerReferences", references);
        })
        .await
    }

    async fn drop_finalizer(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        finalizer: &str,
    ) -> Result<(), Status> {
        self.rewrite(resource, key, |object| {
            let rest: Vec<String> = object
                .finalizers()
                .into_iter()
                .filter(|f| *f != finalizer)
                .map(str::to_owned)
                .collect();
            object.set_finalizers(&rest);
        })
        .await
    }

    /// Changes a stored object in place; one whose last finalizer goes while it is being deleted goes too.
    async fn rewrite(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        change: impl Fn(&mut Value),
    ) -> Result<(), Status> {
        loop {
            let Some(entry) = self.store.get(&resource.space, key) else {
                return Ok(());
            };
            let before = versions::in_storage(resource, &entry)?;
            let mut object = before.clone();
            change(&mut object);
            if object != before {
                track_own(resource, Some(&before), &mut object, OwnWrite::Controller(""));
            }
            let expect = Expect::At(entry.modified);
            let is_done =
                object.is_deleting() && object.finalizers().is_empty() && !is_held(resource, &object);
            let outcome = match is_done {
                true => self.remove(resource, key, expect, &object).await,
                false if object == before => return Ok(()),
                false => self.put(resource, key, expect, &object).await,
            };
            match outcome {
                Ok(_) => return Ok(()),
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(crate::write::storage_failed(&error)),
            }
        }
    }
}

/// An object that has asked to be deleted in the foreground keeps that wish.
fn wanted_propagation(object: &Value) -> Propagation {
    match object.finalizers().as_slice() {
        list if list.contains(&"orphan") => Propagation::Orphan,
        list if list.contains(&"foregroundDeletion") => Propagation::Foreground,
        _ => Propagation::Background,
    }
}

/// Finds the resource of a place; a place known only by kind is looked up by kind.
fn resolve(registry: &Registry, place: &Place) -> Option<(Arc<Resource>, String)> {
    let Some(by_kind) = place.space.strip_prefix('?') else {
        return Some((Arc::clone(registry.by_space(&place.space)?), place.key.clone()));
    };
    let (group, kind) = by_kind.rsplit_once('/')?;
    let resource = registry
        .resources()
        .iter()
        .find(|r| r.group == group && r.kind == kind && r.is_stored())?;
    let (namespace, name) = place.key.split_once('/')?;
    Some((Arc::clone(resource), resource.key(namespace, name)))
}
