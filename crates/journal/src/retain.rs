//! What need not be kept any more goes, a whole segment at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use skopos_object::{ObjectKey, Op};

use crate::{
    Observed, Seq,
    checkpoint::{checkpoint_name, parse_checkpoint_name},
    journal::Shared,
    record::{Bodies, Meta},
    segment::{Segment, SegmentId},
    sidecar::sidecar_name,
    state::{Known, State},
};

/// So much is copied out of a segment in one transaction.
const CARRY_BYTES: usize = 1 << 20;

/// How much history is kept. What is beyond any of these goes, the oldest first, unless someone holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// For collections without limits of their own.
    pub default: Limits,
    /// By the name of the collection, such as `backups.velero.io`.
    pub collections: BTreeMap<String, Limits>,
    /// The whole log, in bytes; what is older goes whatever the other limits are.
    pub max_bytes: Option<u64>,
}

/// How much history of a collection is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Changes not older than this.
    pub max_age: Option<Duration>,
    /// So many changes.
    pub max_changes: Option<u64>,
}

impl Limits {
    /// What keeps as much as either of two.
    #[must_use]
    pub fn longest(self, other: Self) -> Self {
        Self {
            max_age: self.max_age.zip(other.max_age).map(|(a, b)| a.max(b)),
            max_changes: self.max_changes.zip(other.max_changes).map(|(a, b)| a.max(b)),
        }
    }
}

impl Retention {
    fn of(&self, state: &State, collection: u32) -> Limits {
        let name = state.get(collection).map(|one| one.about.name.as_str());
        let own = name.and_then(|name| self.collections.get(name));
        own.copied().unwrap_or(self.default)
    }
}

/// The oldest segment, if it need not be kept.
pub(crate) fn removable(shared: &Shared, active: SegmentId, now: Timestamp) -> Option<Arc<Segment>> {
    let state = shared.read();
    let oldest = state.segments.values().next()?.clone();
    if oldest.id == active || oldest.last() > held(shared) {
        return None;
    }
    let retention = shared.retention.read().unwrap_or_else(PoisonError::into_inner);
    let total: u64 = state.segments.values().map(|segment| segment.len()).sum();
    let is_too_much = retention.max_bytes.is_some_and(|max| total > max);
    let is_expired = || {
        let places = oldest.places();
        places.counts.iter().all(|(collection, count)| {
            let limits = retention.of(&state, *collection);
            let is_old = limits.max_age.is_some_and(|age| {
                Duration::try_from(now.duration_since(count.newest)).is_ok_and(|since| since > age)
            });
            is_old
                || limits
                    .max_changes
                    .is_some_and(|max| n_later(&state, &oldest, *collection) >= max)
        })
    };
    (is_too_much || is_expired()).then_some(oldest)
}

/// Up to where nobody needs changes any more.
fn held(shared: &Shared) -> Seq {
    let holds = shared.holds.lock().unwrap_or_else(PoisonError::into_inner);
    holds.values().min().copied().unwrap_or(Seq(u64::MAX))
}

/// How many changes of a collection stand after a segment.
fn n_later(state: &State, segment: &Segment, collection: u32) -> u64 {
    let later = state.segments.range(segment.id.next()..);
    later
        .filter_map(|(_, segment)| segment.places().counts.get(&collection).map(|count| count.n))
        .sum()
}

/// Some of the changes in a segment whose objects still exist as they left them; none when all were copied.
pub(crate) fn to_carry(shared: &Shared, segment: &Segment) -> Vec<(Meta, Vec<u8>)> {
    let mut found = Vec::new();
    {
        let state = shared.read();
        let mut n_bytes = 0;
        for (number, collection) in (0..).zip(&state.collections) {
            let here = |known: &Known| known.location.segment == segment.id;
            for (key, known) in collection.objects.iter().filter(|(_, known)| here(known)) {
                if n_bytes < CARRY_BYTES {
                    found.push((number, key.clone(), known.clone(), state.newest));
                    n_bytes += known.location.len as usize;
                }
            }
        }
    }
    let read = |(collection, key, known, at): (u32, Box<str>, Known, Timestamp)| {
        shared.read_meta(segment, known.location).unwrap_or_else(|error| {
            tracing::error!(%key, %error, "the last state of an object cannot be read; it is kept without");
            without_body(collection, &key, &known, at)
        })
    };
    found.into_iter().map(read).collect()
}

/// What is known of an object whose record is damaged: that it exists, so that its deletion will be noticed.
fn without_body(collection: u32, key: &str, known: &Known, at: Timestamp) -> (Meta, Vec<u8>) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let meta = Meta {
        seq: known.seq,
        at,
        op: Op::Updated,
        observed: Observed::Live,
        collection,
        key: ObjectKey::namespaced(namespace, name),
        uid: known.uid.to_string(),
        version: known.version.clone(),
    };
    let mut body = Vec::new();
    meta.write(&Bodies::pack(None, None), &mut body);
    (meta, body)
}

/// Removes the files of a segment, and checkpoints that are of no use without it.
pub(crate) fn forget(shared: &Shared, segment: &Segment) {
    let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
    state.segments.remove(&segment.id);
    drop(state);
    let mut names = vec![segment.id.name(), sidecar_name(segment.id)];
    let all = shared.disk.names().unwrap_or_default();
    let old = all.iter().filter_map(|name| parse_checkpoint_name(name));
    names.extend(old.filter(|id| *id <= segment.id).map(checkpoint_name));
    for name in names {
        match shared.disk.remove(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, name, "could not remove a file of the journal");
            }
            _ => {}
        }
    }
    if let Err(error) = shared.disk.sync_names() {
        tracing::warn!(%error, "could not make a removal durable");
    }
}
