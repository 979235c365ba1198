//! What a reconcile works with.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use skopos_client::{Api, Client, DeleteParams, Resource};
use skopos_informer::{Index, Store, Wanted};
use skopos_object::{GroupVersionKind, Object, ObjectKey};

use crate::records::{Records, Watchman};
use crate::run::Shared;
use crate::{Error, EventKind};

/// What a reconcile works with: the object, the caches, and a client for its writes.
///
/// Cheap to clone. Writes through it are held back when this replica ceases to lead, and the next reconcile of the
/// same object begins only when the caches show them: those of the kinds that the controller listens to, and those that
/// a reconcile asked for.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
    object: Object,
    key: ObjectKey,
    attempt: u32,
    client: Client,
    watchman: Arc<Watchman>,
}

impl Context {
    pub(crate) fn new(shared: Arc<Shared>, object: Object, attempt: u32, watchman: &Arc<Watchman>) -> Self {
        let client = shared.client().clone().guarded(watchman.clone());
        Self {
            key: object.key(),
            shared,
            object,
            attempt,
            client,
            watchman: Arc::clone(watchman),
        }
    }

    pub(crate) fn with_object(self, object: Object) -> Self {
        Self { object, ..self }
    }

    /// The object that is reconciled, as the cache shows it. It may have changed on the server since.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Its key.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Which attempt this is, from 1; more than 1 after failures.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The client for everything else that is to be written or read: any API, typed or not.
    ///
    /// It sends no write when this replica does not lead.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The cache of a kind, once it is complete. The first to ask starts it; better name the kind in
    /// [`watches`](crate::Builder::watches), then it is complete before the first reconcile, and changes are heard of.
    ///
    /// Each is kept, with a watch of its own, for as long as the controller runs. So ask for few: not for one with another
    /// selector or namespace for each object, but for the whole kind, and find what belongs to an object by an
    /// [`Index`].
    ///
    /// A kind that is not served is an error ([`Error::Kind`]), and so is one that may not be read
    /// ([`Error::Forbidden`]), both to be tried again.
    pub async fn cache(&self, kind: impl Into<Wanted>) -> Result<Store, Error> {
        let informer = self.shared.cache(kind.into()).await?;
        Ok(informer.store().clone())
    }

    /// The objects of a kind that the reconciled object controls, in no order, as the cache shows them.
    pub async fn owned(&self, kind: impl Into<Wanted>) -> Result<Vec<Object>, Error> {
        let store = self.cache(kind).await?;
        let mut owned = store.add_index(Index::owner()).get(self.object.uid());
        let is_ours = |object: &Object| {
            let mut owners = object.owners();
            owners.any(|owner| owner.controller && owner.uid == self.object.uid())
        };
        owned.retain(is_ours);
        Ok(owned)
    }

    /// The resource that holds objects of a kind.
    pub async fn resource(&self, kind: &GroupVersionKind) -> Result<Resource, Error> {
        let found = self.shared.discovery().kind(kind).await;
        found.map_err(|source| Error::Kind {
            kind: kind.kind.clone(),
            source,
        })
    }

    /// Reports something that people should see with the object: why (`reason`) and what was done about it (`action`), a
    /// word in `CamelCase` each, and a `note` in words. Never waits and never fails; repetitions are counted, not repeated.
    pub fn event(&self, kind: EventKind, reason: &str, action: &str, note: impl AsRef<str>) {
        let recorder = self.shared.recorder();
        recorder.event(&self.object, kind, reason, action, note);
    }

    /// Deletes an object, or the one of this UID only. That it is gone already is as good, also if another one has its
    /// name by now; to see that takes the right to get it.
    pub async fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Result<(), Error> {
        let resource = self.resource(kind).await?;
        let api = Api::namespaced(&self.client, &resource, &key.namespace);
        let params = DeleteParams {
            uid: uid.map(str::to_owned),
            ..DeleteParams::default()
        };
        match api.delete(&key.name, &params).await {
            Err(error) if error.is_object_not_found() => Ok(()),
            Err(error) if error.is_conflict() && is_another(&api, &key.name, uid).await? => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Who owns the fields that are written.
    pub fn field_manager(&self) -> &str {
        self.shared.field_manager()
    }

    /// What the caches show of an object, if there is one of its kind.
    pub(crate) fn cached(&self, resource: &Resource, key: &ObjectKey) -> Option<Object> {
        let caches = self.shared.caches_of(&resource.group_resource());
        caches.iter().find_map(|informer| informer.store().get_key(key))
    }

    /// The object as the cache shows it, or as this reconcile has left it since.
    pub(crate) fn newest(&self) -> Value {
        self.written().unwrap_or_else(|| self.object.to_value())
    }

    /// The object as this reconcile has left it, if it wrote to it.
    pub(crate) fn written(&self) -> Option<Value> {
        self.watchman.newest()
    }

    pub(crate) fn has_only_metadata(&self) -> bool {
        self.shared.has_only_metadata()
    }

    pub(crate) fn records(&self) -> &Records {
        self.shared.records()
    }

    pub(crate) fn count_suppressed(&self) {
        self.shared.metrics().suppressed.inc();
    }
}

/// Whether the object of a name is not the one of this UID; that there is none means the same.
async fn is_another(api: &Api, name: &str, uid: Option<&str>) -> Result<bool, Error> {
    let Some(uid) = uid else {
        return Ok(false);
    };
    let found = api.find(name).await?;
    Ok(found.is_none_or(|found| found["metadata"]["uid"] != uid))
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.key)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
