//! What reconciles wrote, so that the next one of the same object does not begin before the caches show it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use http::Method;
use serde_json::Value;
use skopos_client::{Answer, Call, Fate, WriteGuard};
use skopos_object::{GroupResource, Object, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Fence;
use crate::outstanding::Outstanding;

/// Watches over the writes of one reconcile: holds them back when this replica does not lead, and keeps what a
/// cache has to show afterwards.
#[derive(Debug)]
pub(crate) struct Watchman {
    fence: Fence,
    /// The term of the reconcile. A task that it left behind may not write in a later one.
    term: Option<u64>,
    outstanding: Outstanding,
    /// What is reconciled, if it is there.
    object: Option<Object>,
    /// The fields by which caches select.
    paths: Vec<String>,
    written: Mutex<Written>,
    /// The newest that a write to the object itself was answered with.
    newest: Mutex<Option<Value>>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// The newest state that writes to an object, or to a whole collection if it has no name, were answered with.
    pub(crate) states: BTreeMap<Place, State>,
    /// Objects that were deleted with an answer that does not have the version of their end.
    pub(crate) gone: Vec<Gone>,
}

/// An object that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) place: Place,
    uid: String,
    /// Of before. A newer one is what the delete made of an object that stays for its finalizers.
    before: Option<ResourceVersion>,
}

impl Gone {
    /// Whether it is not what a cache shows at its place.
    pub(crate) fn is_over(&self, shown: Option<&Object>) -> bool {
        let Some(shown) = shown.filter(|shown| shown.uid() == self.uid) else {
            return true;
        };
        let before = self.before.as_ref();
        before.is_some_and(|before| shown.resource_version() > *before)
    }
}

/// As far as it matters to which caches show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) version: ResourceVersion,
    /// Nothing if they are not known.
    pub(crate) labels: Option<Value>,
    /// Those by which caches select, by their paths, as far as they are known.
    pub(crate) fields: BTreeMap<String, String>,
}

impl State {
    /// Of an object, if `object` is one and not something beside it.
    fn of(object: Option<&Value>, version: ResourceVersion, paths: &[String]) -> Self {
        let fields = object.into_iter().flat_map(|object| {
            let known = |path: &String| Some((path.clone(), plain(object, path)?));
            paths.iter().filter_map(known)
        });
        Self {
            version,
            labels: object.map(|object| object["metadata"]["labels"].clone()),
            fields: fields.collect(),
        }
    }
}

/// The text of a field, if it is there and has one.
fn plain(object: &Value, path: &str) -> Option<String> {
    match path.split('.').try_fold(object, |value, name| value.get(name))? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl Watchman {
    /// Over the writes of a reconcile of this object, or of one that is gone.
    /// `paths` are the fields by which caches select.
    pub(crate) fn new(
        (fence, term): (&Fence, Option<u64>),
        outstanding: &Outstanding,
        object: Option<&Object>,
        paths: Vec<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            fence: fence.clone(),
            term,
            outstanding: outstanding.clone(),
            object: object.cloned(),
            paths,
            written: Mutex::default(),
            newest: Mutex::default(),
        })
    }

    /// The object as this reconcile left it, if it wrote to it.
    pub(crate) fn newest(&self) -> Option<Value> {
        self.lock_newest().clone()
    }

    fn keep_newest(&self, answer: &Value) {
        let Some(object) = &self.object else {
            return;
        };
        let kind = object.group_version_kind();
        let is_of_kind = answer["kind"] == kind.kind && answer["apiVersion"] == kind.api_version();
        // An answer of another kind, such as a scale, is not the object.
        if !is_of_kind || answer["metadata"]["uid"] != object.uid() {
            return;
        }
        let mut newest = self.lock_newest();
        let is_newer = |kept: &Value| version_of(kept) < version_of(answer);
        if newest.as_ref().is_none_or(is_newer) {
            *newest = Some(answer.clone());
        }
    }

    fn lock_newest(&self) -> MutexGuard<'_, Option<Value>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written until now; forgets it.
    pub(crate) fn take(&self) -> Written {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteGuard for Watchman {
    fn admit(&self, _: &Call) -> Result<Option<Instant>, Box<dyn StdError + Send + Sync>> {
        let until = self.fence.check_in(self.term)?;
        self.outstanding.sent();
        Ok(until)
    }

    fn ended(&self, _: &Call, fate: Fate) {
        self.outstanding.ended(fate);
    }

    fn written(&self, call: &Call, answer: &Answer) {
        if call.is_dry_run() {
            return;
        }
        if let Some(place) = Place::of(call.path()) {
            let (method, answer) = (call.method(), &answer.value);
            self.lock().note(place, method, answer, &self.paths);
            self.keep_newest(answer);
        }
    }
}

impl Written {
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty() && self.gone.is_empty()
    }

    fn note(&mut self, mut place: Place, method: &Method, answer: &Value, paths: &[String]) {
        if method == Method::DELETE && place.key.name.is_empty() {
            return self.note_deleted(&place, answer, paths);
        }
        let version = version_of(answer);
        if !version.is_empty() {
            let text = |field: &str| answer["metadata"][field].as_str().unwrap_or_default();
            // Whoever lets the server choose a name learns it here.
            if place.key.name.is_empty() {
                place.key.name = text("name").to_owned();
            }
            // A scale, say, is answered without the labels of what it is of, and so are many objects at once.
            let is_known = !place.is_other && !place.key.name.is_empty();
            self.add(place, State::of(is_known.then_some(answer), version, paths));
        } else if method == Method::DELETE
            && let Some(uid) = answer["details"]["uid"].as_str()
        {
            self.gone.push(Gone {
                place,
                uid: uid.to_owned(),
                before: None,
            });
        }
    }

    /// Notes objects that were deleted together. The answer has them as they were before, and its version is of before, too.
    fn note_deleted(&mut self, place: &Place, answer: &Value, paths: &[String]) {
        let items = answer["items"].as_array().into_iter().flatten();
        // What is being deleted already need not change.
        for item in items.filter(|item| item["metadata"]["deletionTimestamp"].is_null()) {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
            let (version, uid) = (version_of(item), text("uid").to_owned());
            let place = Place {
                key: ObjectKey::namespaced(text("namespace"), text("name")),
                ..place.clone()
            };
            // A cache that does not show it yet has not seen it go.
            self.add(place.clone(), State::of(Some(item), version.clone(), paths));
            self.gone.push(Gone {
                place,
                uid,
                before: Some(version),
            });
        }
    }

    fn merge(&mut self, newer: Self) {
        for (place, state) in newer.states {
            self.add(place, state);
        }
        self.gone.extend(newer.gone);
    }

    /// A write that changed nothing is answered with a version that may be older than another's.
    fn add(&mut self, place: Place, state: State) {
        match self.states.entry(place) {
            Entry::Occupied(mut known) if known.get().version <= state.version => {
                known.insert(state);
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(none) => {
                none.insert(state);
            }
        }
    }
}

fn version_of(object: &Value) -> ResourceVersion {
    ResourceVersion::new(object["metadata"]["resourceVersion"].as_str().unwrap_or_default())
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) collection: GroupResource,
    /// Without a name for all, with neither for all of all namespaces.
    pub(crate) key: ObjectKey,
    /// Whether it is something beside the object, such as its scale.
    is_other: bool,
}

impl Place {
    fn of(path: &str) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_subresource(rest) => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (resource, rest) = rest.split_first()?;
        Some(Self {
            collection: GroupResource::new(group, *resource),
            key: ObjectKey::namespaced(namespace, rest.first().copied().unwrap_or_default()),
            is_other: rest.get(1).is_some_and(|subresource| *subresource != "status"),
        })
    }
}

impl Place {
    /// Whether it is all objects of a collection, in whatever namespace.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.key.name.is_empty() && self.key.namespace.is_empty()
    }
}

/// Whether this is the rest of a path to a namespace itself, and not of one to something in it.
fn is_subresource(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

/// The records of all objects of a controller. Bounded by the number of objects: forgotten with each.
#[derive(Debug, Default)]
pub(crate) struct Records {
    by_key: Mutex<HashMap<ObjectKey, Record>>,
}

/// Of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Of the object with this UID only.
    uid: String,
    /// Not yet seen in the caches.
    pub(crate) written: Written,
    /// When the last of it was written.
    pub(crate) since: Option<Instant>,
    /// How often it was looked for since.
    n_looks: u32,
    /// Counts reconciles.
    round: u64,
    /// What was applied last, by what it was applied to, and in which round it was last asked for.
    applied: HashMap<(GroupResource, ObjectKey), (Applied, u64)>,
}

/// What was applied last, and to which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) uid: String,
    pub(crate) hash: u64,
}

impl Records {
    /// What was written for an object and perhaps is not seen yet.
    pub(crate) fn pending(&self, key: &ObjectKey, uid: &str) -> Option<(Written, Instant)> {
        let mut records = self.lock();
        let record = records.get_mut(key)?;
        if record.uid != uid {
            // Another object of the same name: nothing of the old one matters.
            records.remove(key);
            return None;
        }
        let since = record.since?;
        Some((record.written.clone(), since))
    }

    /// Says that all that was written is seen.
    pub(crate) fn seen(&self, key: &ObjectKey) {
        if let Some(record) = self.lock().get_mut(key) {
            record.written = Written::default();
            record.since = None;
        }
    }

    /// Counts that what was written was looked for and is not seen yet; returns how often that was so before.
    pub(crate) fn look_again(&self, key: &ObjectKey) -> u32 {
        let mut records = self.lock();
        let Some(record) = records.get_mut(key) else {
            return 0;
        };
        let before = record.n_looks;
        record.n_looks = before.saturating_add(1);
        before
    }

    /// Adds what a reconcile wrote.
    pub(crate) fn add(&self, key: &ObjectKey, uid: &str, written: Written) {
        if written.is_empty() {
            return;
        }
        let mut records = self.lock();
        let record = records.entry(key.clone()).or_default();
        record.be(uid);
        record.written.merge(written);
        record.since = Some(Instant::now());
        record.n_looks = 0;
    }

    /// What was applied last to an object, in the name of another.
    pub(crate) fn applied(
        &self,
        key: &ObjectKey,
        uid: &str,
        to: &(GroupResource, ObjectKey),
    ) -> Option<Applied> {
        let mut records = self.lock();
        let record = records.get_mut(key).filter(|record| record.uid == uid)?;
        let (applied, round) = record.applied.get_mut(to)?;
        *round = record.round;
        Some(applied.clone())
    }

    /// Forgets what was applied last to an object, because something else may be from now on.
    pub(crate) fn unset_applied(&self, key: &ObjectKey, to: &(GroupResource, ObjectKey)) {
        if let Some(record) = self.lock().get_mut(key) {
            record.applied.remove(to);
        }
    }

    /// Forgets what was applied to all objects, because somebody else may have applied something else since.
    pub(crate) fn forget_applied(&self) {
        for record in self.lock().values_mut() {
            record.applied.clear();
        }
    }

    /// Notes what was applied.
    pub(crate) fn set_applied(
        &self,
        key: &ObjectKey,
        uid: &str,
        to: (GroupResource, ObjectKey),
        applied: Applied,
    ) {
        let mut records = self.lock();
        let record = records.entry(key.clone()).or_default();
        record.be(uid);
        record.applied.insert(to, (applied, record.round));
    }

    /// A reconcile of an object begins.
    pub(crate) fn begin(&self, key: &ObjectKey) {
        if let Some(record) = self.lock().get_mut(key) {
            record.round += 1;
        }
    }

    /// A reconcile that did all that is to be done has ended: what it did not apply is no longer applied.
    pub(crate) fn keep_touched(&self, key: &ObjectKey) {
        if let Some(record) = self.lock().get_mut(key) {
            record.applied.retain(|_, (_, round)| *round == record.round);
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Record>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn be(&mut self, uid: &str) {
        if self.uid != uid {
            *self = Self {
                uid: uid.to_owned(),
                ..Self::default()
            };
        }
    }
}
