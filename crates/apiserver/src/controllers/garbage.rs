//! Garbage collection by owner reference: background, foreground and orphan.
//!
//! Every write passes through this process, so the graph is kept by watching commits, and holds only
//! objects that have owners. On start it is rebuilt from the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;
use skopos_object::{GroupVersionKind, Status, raw_path};
use skopos_store::{Expect, Range, WriteError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::options::{DeleteOptions, Propagation};
use crate::registry::{Registry, Resource};
use crate::state::Shared;
use crate::versions;
use crate::write::{ObjectExt as _, delete_entry};

/// An object by where it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    space: Arc<str>,
    key: String,
}

/// The graph of owners and dependents, and what is to be looked at.
#[derive(Debug)]
pub(crate) struct Garbage {
    bell: Notify,
    graph: Mutex<Graph>,
}

#[derive(Debug, Default)]
struct Graph {
    /// Dependents by the uid of an owner.
    dependents: HashMap<String, HashSet<Place>>,
    /// The uids each dependent names, to take it out of the map above.
    owners: HashMap<Place, Vec<String>>,
    /// Objects whose owners, or whose own deletion, must be looked at.
    dirty: HashSet<Place>,
}

/// What a committed write means for the graph; made before the write, so that nothing else is needed after it.
#[derive(Debug)]
pub(crate) enum Note {
    Put {
        place: Place,
        owners: Vec<String>,
        waits: bool,
    },
    Removal {
        place: Place,
        uid: String,
        owners: Vec<Place>,
    },
}

impl Note {
    pub(crate) fn of_put(resource: &Resource, object: &Value) -> Note {
        let waits = object.is_deleting() && !object.finalizers().is_empty();
        Note::Put {
            place: place_of(resource, object),
            owners: owner_uids(object),
            waits,
        }
    }

    pub(crate) fn of_removal(resource: &Resource, last: &Value) -> Note {
        Note::Removal {
            place: place_of(resource, last),
            uid: last.uid().to_owned(),
            owners: owner_places(last),
        }
    }
}

impl Graph {
    /// Returns whether there is something to look at.
    fn take(&mut self, note: Note) -> bool {
        match note {
            Note::Put { place, owners, waits } => {
                if owners.is_empty() && !self.owners.contains_key(&place) && !waits {
                    return false;
                }
                self.set_owners(&place, owners);
                self.dirty.insert(place);
                true
            }
            Note::Removal { place, uid, owners } => {
                self.set_owners(&place, Vec::new());
                let orphans: Vec<Place> = self.dependents.get(&uid).into_iter().flatten().cloned().collect();
                let any = !orphans.is_empty() || !owners.is_empty();
                self.dirty.extend(orphans);
                // An owner that waits for its dependents looks again when one of them goes.
                self.dirty.extend(owners);
                any
            }
        }
    }

    /// Replaces what is known about the owners of an object.
    fn set_owners(&mut self, place: &Place, uids: Vec<String>) {
        for uid in self.owners.remove(place).unwrap_or_default() {
            if let Some(places) = self.dependents.get_mut(&uid) {
                places.remove(place);
                if places.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
        for uid in &uids {
            self.dependents
                .entry(uid.clone())
                .or_default()
                .insert(place.clone());
        }
        if !uids.is_empty() {
            self.owners.insert(place.clone(), uids);
        }
    }
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
            let dirty: Vec<Place> = shared.garbage.graph().dirty.drain().collect();
            for place in dirty {
                if let Err(status) = shared.collect(&place).await {
                    tracing::error!(space = %place.space, key = place.key, error = %status.message, "not collected");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = shared.garbage.bell.notified() => {}
            }
        }
    }
}

fn place_of(resource: &Resource, object: &Value) -> Place {
    Place {
        space: Arc::clone(&resource.space),
        key: resource.key(object.namespace(), object.name()),
    }
}

fn owner_references(object: &Value) -> &[Value] {
    object
        .meta("ownerReferences")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn owner_uids(object: &Value) -> Vec<String> {
    owner_references(object)
        .iter()
        .filter_map(|owner| owner["uid"].as_str())
        .map(str::to_owned)
        .collect()
}

/// The owners of an object, known only by kind until the registry is asked.
fn owner_places(object: &Value) -> Vec<Place> {
    let namespace = object.namespace();
    let place = |owner: &Value| {
        let api_version = owner["apiVersion"].as_str()?;
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = owner["kind"].as_str()?;
        Some(Place {
            space: format!("?{group}/{kind}").into(),
            key: format!("{namespace}/{}", owner["name"].as_str()?),
        })
    };
    owner_references(object).iter().filter_map(place).collect()
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
        let Some((resource, key)) = resolve(&registry, place) else {
            return Ok(());
        };
        let Some(entry) = self.store.get(&resource.space, &key) else {
            return Ok(());
        };
        let object = versions::parse(&entry)?;
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
        let Some(entry) = self.store.get(&resource.space, &key) else {
            return Ok(false);
        };
        let object = versions::parse(&entry)?;
        let blocks = owner_references(&object)
            .iter()
            .any(|reference| reference["uid"] == owner && reference["blockOwnerDeletion"] == true);
        let other_owner = owner_references(&object).iter().any(|reference| {
            reference["uid"] != owner && self.owner_state(registry, &object, reference) == Owner::Solid
        });
        if other_owner {
            self.release_dependent(registry, place, owner).await?;
            return Ok(false);
        }
        if !object.is_deleting() {
            let has_dependents = self.garbage.graph().dependents.contains_key(object.uid());
            let propagation = if has_dependents {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            let options = DeleteOptions {
                propagation: Some(propagation),
                precondition_uid: Some(object.uid().to_owned()),
                ..DeleteOptions::default()
            };
            delete_entry(self, &resource, &key, &options, Timestamp::now()).await?;
        }
        Ok(blocks && self.store.get(&resource.space, &key).is_some())
    }

    /// Deletes an object whose owners are all gone, or takes the gone ones out of it.
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
        if owners.is_empty()
            || states
                .iter()
                .all(|state| matches!(state, Owner::Solid | Owner::Unknown))
        {
            return Ok(());
        }
        let is_kept = states
            .iter()
            .any(|state| matches!(state, Owner::Solid | Owner::Unknown));
        if is_kept {
            for (owner, state) in owners.iter().zip(&states) {
                if let (Owner::Absent, Some(uid)) = (state, owner["uid"].as_str()) {
                    self.release(resource, key, uid).await?;
                }
            }
            return Ok(());
        }
        let options = DeleteOptions {
            precondition_uid: Some(object.uid().to_owned()),
            propagation: default_propagation(object),
            ..DeleteOptions::default()
        };
        match delete_entry(self, resource, key, &options, Timestamp::now()).await {
            // Recreated under the same name meanwhile: the new one is looked at on its own.
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
            return Owner::Unknown;
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
            Some((resource, key)) => self.release(&resource, &key, owner).await,
            None => Ok(()),
        }
    }

    /// Takes one owner out of an object.
    async fn release(&self, resource: &Arc<Resource>, key: &str, owner: &str) -> Result<(), Status> {
        self.rewrite(resource, key, |object| {
            let rest: Vec<Value> = owner_references(object)
                .iter()
                .filter(|o| o["uid"] != owner)
                .cloned()
                .collect();
            match rest.is_empty() {
                true => object.remove_meta("ownerReferences"),
                false => object.set_meta("ownerReferences", rest),
            }
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
            let before = versions::parse(&entry)?;
            let mut object = before.clone();
            change(&mut object);
            let expect = Expect::At(entry.modified);
            let outcome = match object.is_deleting() && object.finalizers().is_empty() {
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
fn default_propagation(object: &Value) -> Option<Propagation> {
    match object.finalizers().as_slice() {
        list if list.contains(&"orphan") => Some(Propagation::Orphan),
        list if list.contains(&"foregroundDeletion") => Some(Propagation::Foreground),
        _ => Some(Propagation::Background),
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
