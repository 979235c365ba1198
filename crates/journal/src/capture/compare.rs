//! What reports mean for what is known: the changes to write down.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use jiff::Timestamp;
use skopos_object::{Malformed, Object, ObjectKey, Op, ResourceVersion};

use super::Selection;
use crate::{
    Journal, Observed,
    commit::Draft,
    read::states_at,
    record::{Bodies, Meta, Unpacked},
    redact::Redactor,
    segment::{Location, Segment},
    state::{Known, Uid, mirror_key},
    writers::Writers,
};

/// So many objects that are gone are written down at once.
const GONE_AT_ONCE: usize = 500;

/// Turns what is reported about one collection into changes. It reads the mirror, so it may wait for the disk.
#[derive(Debug)]
pub(super) struct Comparison {
    journal: Journal,
    collection: u32,
    redactor: Redactor,
    /// Which objects are asked for, and which were before.
    asked: Selection,
    asked_before: Selection,
}

/// What is known of an object within a batch: more than the mirror has.
#[derive(Debug)]
enum Latest {
    Exists {
        uid: Uid,
        version: ResourceVersion,
        last: State,
    },
    Gone,
}

/// A state of an object, and who wrote it.
#[derive(Clone, Debug)]
struct State {
    object: Object,
    writers: Writers,
}

/// The changes of one batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) drafts: Vec<Draft>,
    latest: HashMap<Box<str>, Latest>,
    /// Objects that were in a list.
    listed: Vec<Box<str>>,
    /// Since when changes may be missing, if some are that nobody asked for.
    pub(super) missed_since: Option<Timestamp>,
}

/// The last state that is known.
enum Before {
    Nothing,
    Exists { uid: Uid, version: ResourceVersion },
}

impl Comparison {
    pub(super) fn new(journal: Journal, collection: u32, redactor: Redactor) -> Self {
        Self {
            journal,
            collection,
            redactor,
            asked: Selection::Everything,
            asked_before: Selection::Everything,
        }
    }

    /// Of some objects only.
    pub(super) fn within(self, asked: Selection, asked_before: Selection) -> Self {
        Self {
            asked,
            asked_before,
            ..self
        }
    }

    /// Whether there may be objects that are asked for and were not before.
    pub(super) fn asks_for_more(&self) -> bool {
        !self.asked_before.covers(&self.asked)
    }

    /// An object is there, and may be one that was not asked for before; nobody looked at it then. It may have been asked for
    /// still earlier, and have changed since.
    pub(super) fn newly_asked(&self, object: Object, batch: &mut Batch) {
        if !self.asked.takes(&object) || self.asked_before.takes(&object) {
            return;
        }
        let key = mirror_key(&object.key());
        match self.before(&key, batch) {
            Before::Nothing => self.created(key, self.state(object), Observed::First, batch),
            Before::Exists { uid, version }
                if uid == Uid::new(object.uid()) && version < object.resource_version() =>
            {
                let after = self.known_since(&key);
                batch.missed_since = Some(batch.missed_since.map_or(after, |since| since.min(after)));
                self.updated(key, self.state(object), Observed::Relist { after }, batch);
            }
            // It is as it was, or the watch will tell: that something is gone is written down, asked for or not.
            Before::Exists { .. } => {}
        }
    }

    /// Whether a watch tells of something that is past: the object is known as it was later.
    pub(super) fn is_past(&self, object: &Object, batch: &Batch) -> bool {
        match self.before(&mirror_key(&object.key()), batch) {
            Before::Exists { version, .. } => version > object.resource_version(),
            Before::Nothing => false,
        }
    }

    /// An object is there, as a watch says.
    pub(super) fn applied(&self, object: Object, observed: Observed, batch: &mut Batch) {
        let is_asked = self.asked.takes(&object);
        let observed_new = self.observed_new(&object, observed);
        let key = mirror_key(&object.key());
        match self.before(&key, batch) {
            Before::Nothing => {
                if is_asked {
                    self.created(key, self.state(object), observed_new, batch);
                }
            }
            Before::Exists { uid, version } if uid == Uid::new(object.uid()) => {
                let is_new = version != object.resource_version();
                if is_new && (is_asked || self.was_asked(&key, batch)) {
                    self.updated(key, self.state(object), observed, batch);
                }
            }
            Before::Exists { .. } => {
                self.gone(&key, observed, batch);
                if is_asked {
                    self.created(key, self.state(object), observed_new, batch);
                }
            }
        }
    }

    /// Whether an object that is known was one of those that are asked for, as it was last written down.
    fn was_asked(&self, key: &str, batch: &Batch) -> bool {
        match self.asked == Selection::Everything {
            true => true,
            false => self
                .last(key, batch)
                .is_none_or(|last| self.asked.takes(&last.object)),
        }
    }

    /// Of an object that nobody asked for before, nothing is known about its past.
    fn observed_new(&self, object: &Object, observed: Observed) -> Observed {
        match observed {
            Observed::Relist { .. } if !self.asked_before.takes(object) => Observed::First,
            observed => observed,
        }
    }

    /// An object is in a list. An older version than the one that is known says nothing, unless versions cannot be compared.
    pub(super) fn listed(&self, object: Object, observed: Observed, comparable: bool, batch: &mut Batch) {
        let key = mirror_key(&object.key());
        batch.listed.push(key.clone());
        let is_older = match self.before(&key, batch) {
            Before::Exists { uid, version } => {
                comparable && uid == Uid::new(object.uid()) && version > object.resource_version()
            }
            Before::Nothing => false,
        };
        if !is_older {
            self.applied(object, observed, batch);
        }
    }

    /// An object is gone, and this is its last state.
    pub(super) fn deleted(&self, object: Object, observed: Observed, batch: &mut Batch) {
        let is_asked = self.asked.takes(&object);
        let State { object, .. } = self.state(object);
        let key = mirror_key(&object.key());
        match self.before(&key, batch) {
            Before::Nothing if !is_asked => return,
            Before::Exists { uid, .. } if uid != Uid::new(object.uid()) => {
                self.gone(&key, observed, batch);
                if !is_asked {
                    return;
                }
            }
            _ => {}
        }
        let meta = self.meta(Op::Deleted, &object, observed);
        let bodies = Bodies::pack(Some(object.bytes()), None);
        batch.drafts.push(Draft::Change(meta, bodies));
        batch.latest.insert(key, Latest::Gone);
    }

    /// Something cannot be read. It is there all the same, as far as is known, unless it is said to be gone.
    pub(super) fn unreadable(&self, op: Op, object: &Malformed, observed: Observed, batch: &mut Batch) {
        let Some(key) = object.key.as_ref().map(mirror_key) else {
            return;
        };
        let is_past = match self.before(&key, batch) {
            Before::Exists { version, .. } => {
                !object.resource_version.is_empty() && version > object.resource_version
            }
            Before::Nothing => false,
        };
        match op {
            Op::Deleted if !is_past => self.gone(&key, observed, batch),
            Op::Deleted => {}
            Op::Created | Op::Updated => batch.listed.push(key),
        }
    }

    /// Some of the objects that were not in the list of a generation.
    pub(super) fn unlisted(&self, generation: u32) -> Vec<Box<str>> {
        let state = self.journal.shared.read();
        let Some(collection) = state.get(self.collection) else {
            return Vec::new();
        };
        let unseen = collection
            .objects
            .iter()
            .filter(|(_, known)| known.seen != generation);
        unseen.take(GONE_AT_ONCE).map(|(key, _)| key.clone()).collect()
    }

    /// An object is gone, as a comparison found out; its last known state is written down.
    pub(super) fn gone(&self, key: &str, observed: Observed, batch: &mut Batch) {
        let (uid, version) = match self.before(key, batch) {
            Before::Nothing => return,
            Before::Exists { uid, version } => (uid, version),
        };
        let last = self.last(key, batch);
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let meta = Meta {
            key: ObjectKey::namespaced(namespace, name),
            uid: uid.to_string(),
            version,
            ..self.blank(Op::Deleted, observed)
        };
        let bodies = Bodies::pack(last.as_ref().map(|last| &last.object.bytes()[..]), None);
        batch.drafts.push(Draft::Change(meta, bodies));
        batch.latest.insert(key.into(), Latest::Gone);
    }

    /// Notes which objects were in the list of a generation, once the batch is written.
    pub(super) fn mark(&self, batch: Batch, generation: u32) {
        if batch.listed.is_empty() {
            return;
        }
        let mut state = self
            .journal
            .shared
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(collection) = state.collections.get_mut(self.collection as usize) else {
            return;
        };
        for key in batch.listed {
            if let Some(known) = collection.objects.get_mut(&key) {
                known.seen = generation;
            }
        }
    }

    fn created(&self, key: Box<str>, state: State, observed: Observed, batch: &mut Batch) {
        let State { object, writers } = state;
        let writers = match observed {
            // It was there before, and nobody knows who wrote when.
            Observed::First => writers,
            Observed::Live | Observed::Resumed | Observed::Relist { .. } => writers.all_new(),
        };
        let meta = self.meta(Op::Created, &object, observed);
        let bodies = Bodies::pack(None, Some(object.bytes())).with_writers(writers.clone());
        batch.drafts.push(Draft::Change(meta, bodies));
        batch.latest.insert(key, Latest::of(State { object, writers }));
    }

    fn updated(&self, key: Box<str>, state: State, observed: Observed, batch: &mut Batch) {
        let State { object, writers } = state;
        let before = self.last(&key, batch);
        let writers = match &before {
            Some(before) => writers.new_since(&before.writers),
            None => writers,
        };
        let meta = self.meta(Op::Updated, &object, observed);
        let before = before.as_ref().map(|before| &before.object.bytes()[..]);
        let bodies = Bodies::pack(before, Some(object.bytes())).with_writers(writers.clone());
        batch.drafts.push(Draft::Change(meta, bodies));
        batch.latest.insert(key, Latest::of(State { object, writers }));
    }

    /// What is written down of an object that was told.
    fn state(&self, object: Object) -> State {
        let (object, writers) = Writers::take_from(object);
        State {
            object: self.redactor.redact(object),
            writers,
        }
    }

    fn meta(&self, op: Op, object: &Object, observed: Observed) -> Meta {
        Meta {
            key: object.key(),
            uid: object.uid().into(),
            version: object.resource_version(),
            ..self.blank(op, observed)
        }
    }

    fn blank(&self, op: Op, observed: Observed) -> Meta {
        Meta {
            seq: crate::Seq::default(),
            at: Timestamp::UNIX_EPOCH,
            op,
            observed,
            collection: self.collection,
            key: ObjectKey::default(),
            uid: String::new(),
            version: ResourceVersion::default(),
        }
    }

    fn before(&self, key: &str, batch: &Batch) -> Before {
        match batch.latest.get(key) {
            Some(Latest::Gone) => Before::Nothing,
            Some(Latest::Exists { uid, version, .. }) => Before::Exists {
                uid: uid.clone(),
                version: version.clone(),
            },
            None => {
                let state = self.journal.shared.read();
                let known = state.known(self.collection, key);
                known.map_or(Before::Nothing, |Known { uid, version, .. }| Before::Exists {
                    uid: uid.clone(),
                    version: version.clone(),
                })
            }
        }
    }

    /// The last state; nothing if there is none or it cannot be read.
    fn last(&self, key: &str, batch: &Batch) -> Option<State> {
        match batch.latest.get(key) {
            Some(Latest::Gone) => return None,
            Some(Latest::Exists { last, .. }) => return Some(last.clone()),
            None => {}
        }
        let shared = &self.journal.shared;
        let (segment, location) = self.place(key)?;
        // Damage is noted where it is found; the change is worth writing down without what was before.
        let Unpacked { after, writers, .. } = states_at(shared, &segment, location).ok()?;
        // It may have been written down before somebody asked for more to be left out.
        let object = self.redactor.redact(after?);
        Some(State { object, writers })
    }

    /// When the last change of an object that is known was written down; long ago if that cannot be read.
    fn known_since(&self, key: &str) -> Timestamp {
        let read = |(segment, location): (Arc<Segment>, Location)| {
            let read = self.journal.shared.read_meta(&segment, location);
            read.ok().map(|(meta, _)| meta.at)
        };
        self.place(key).and_then(read).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Where the last change of an object stands.
    fn place(&self, key: &str) -> Option<(Arc<Segment>, Location)> {
        let state = self.journal.shared.read();
        let location = state.get(self.collection)?.objects.get(key)?.location;
        Some((state.segments.get(&location.segment)?.clone(), location))
    }
}

impl Latest {
    fn of(last: State) -> Self {
        Self::Exists {
            uid: Uid::new(last.object.uid()),
            version: last.object.resource_version(),
            last,
        }
    }
}
