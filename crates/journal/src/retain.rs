//! What need not be kept any more goes: out of each segment of which it is half.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use skopos_object::Op;

use crate::{
    Observed, Seq,
    checkpoint::{checkpoint_name, parse_checkpoint_name},
    journal::Shared,
    record::{Bodies, Meta, RECORD_HEADER},
    segment::{Count, Segment, SegmentId},
    sidecar::sidecar_name,
    state::{Known, State, object_key},
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
    /// So many bytes of changes, as they stand in the log.
    pub max_bytes: Option<u64>,
}

impl Limits {
    /// What keeps as much as either of two.
    #[must_use]
    pub fn longest(self, other: Self) -> Self {
        Self {
            max_age: self.max_age.zip(other.max_age).map(|(a, b)| a.max(b)),
            max_changes: self.max_changes.zip(other.max_changes).map(|(a, b)| a.max(b)),
            max_bytes: self.max_bytes.zip(other.max_bytes).map(|(a, b)| a.max(b)),
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

/// A complete segment of which enough need not be kept.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) segment: Arc<Segment>,
    pub(crate) dropping: Dropping,
    /// Whether no file is before it.
    pub(crate) is_oldest: bool,
}

/// Which changes of a segment go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropping {
    everything: bool,
    old: BTreeMap<u32, Old>,
}

/// Which changes of a collection go: those before a time, so many of the first, and of the first those with so many bytes.
#[derive(Clone, Copy, Debug)]
struct Old {
    before: Timestamp,
    n_first: u64,
    first_bytes: u64,
}

impl Old {
    fn new(
        state: &State,
        limits: Limits,
        segment: &Segment,
        collection: u32,
        count: &Count,
        now: Timestamp,
    ) -> Self {
        let age = limits.max_age.and_then(|age| now.checked_sub(age).ok());
        let (mut n_later, mut later_bytes) = (0, 0);
        if limits.max_changes.is_some() || limits.max_bytes.is_some() {
            for later in later(state, segment, collection) {
                n_later += later.n;
                later_bytes += later.bytes;
            }
        }
        let beyond = |max: Option<u64>, later: u64, here: u64| {
            max.map_or(0, |max| (later + here).saturating_sub(max).min(here))
        };
        Self {
            before: age.unwrap_or(Timestamp::MIN),
            n_first: beyond(limits.max_changes, n_later, count.n),
            first_bytes: beyond(limits.max_bytes, later_bytes, count.bytes),
        }
    }

    /// Whether every change goes.
    fn takes_all(&self, count: &Count) -> bool {
        count.newest < self.before || self.n_first >= count.n || self.first_bytes >= count.bytes
    }

    /// How many bytes go, about.
    fn bytes(&self, count: &Count) -> u64 {
        if count.newest < self.before {
            return count.bytes;
        }
        let of_first = count.bytes * self.n_first / count.n.max(1);
        of_first.max(self.first_bytes)
    }
}

impl Dropping {
    /// Whether a change with a body so long goes. To be asked once for each, in order.
    pub(crate) fn takes(&mut self, meta: &Meta, body_len: usize) -> bool {
        let Some(old) = self.old.get_mut(&meta.collection) else {
            return self.everything;
        };
        let is_first = old.n_first > 0 || old.first_bytes > 0;
        old.n_first = old.n_first.saturating_sub(1);
        old.first_bytes = old.first_bytes.saturating_sub((RECORD_HEADER + body_len) as u64);
        self.everything || is_first || meta.at < old.before
    }

    /// What goes by the limits, and how many bytes that is, about.
    fn by_limits(state: &State, retention: &Retention, segment: &Segment, now: Timestamp) -> (Self, u64) {
        let mut dropping = Self::default();
        let mut dropped_bytes = 0;
        for (collection, count) in &segment.places().counts {
            let limits = retention.of(state, *collection);
            let old = Old::new(state, limits, segment, *collection, count, now);
            dropped_bytes += old.bytes(count);
            dropping.old.insert(*collection, old);
        }
        (dropping, dropped_bytes)
    }
}

/// The oldest complete segment of which half need not be kept, or of which all goes since there is too much.
pub(crate) fn candidate(shared: &Shared, active: SegmentId, now: Timestamp) -> Option<Candidate> {
    let state = shared.read();
    let held = held(shared);
    let retention = shared.retention.read().unwrap_or_else(PoisonError::into_inner);
    let live = live_bytes(&state);
    let live = |segment: &Segment| live.get(&segment.id).copied().unwrap_or(0);
    let oldest = state.segments.keys().next().copied();
    let complete = || {
        let segments = state.segments.values();
        segments.filter(|segment| segment.id < active && segment.last() <= held)
    };
    let found = |segment: &Arc<Segment>, dropping| Candidate {
        segment: segment.clone(),
        dropping,
        is_oldest: Some(segment.id) == oldest,
    };
    let total: u64 = state.segments.values().map(|segment| segment.len()).sum();
    let is_too_much = retention.max_bytes.is_some_and(|max| total > max);
    let everything = Dropping {
        everything: true,
        ..Dropping::default()
    };
    for segment in complete() {
        if segment.is_damaged() {
            // It cannot be thinned out. Those after it can.
            let is_old = || is_too_much || is_all_old(&state, &retention, segment, now);
            if Some(segment.id) == oldest && is_old() {
                return Some(found(segment, everything));
            }
            continue;
        }
        let (dropping, dropped_bytes) = Dropping::by_limits(&state, &retention, segment, now);
        let n_entries = segment.places().n_entries;
        let is_worth_it = match n_entries {
            // Without changes, only copies and what says that objects are gone.
            0 => Some(segment.id) == oldest || !segment.is_rewritten(),
            _ => dropped_bytes > 0,
        };
        let kept = match n_entries {
            0 => 0,
            _ => segment.len().saturating_sub(dropped_bytes),
        };
        // Less than half must stay: otherwise more and more would be copied for less and less.
        if is_worth_it && (kept + live(segment)) * 2 <= segment.len() {
            return Some(found(segment, dropping));
        }
    }
    if !is_too_much {
        return None;
    }
    let mut with_changes = complete().filter(|segment| !segment.is_empty() && !segment.is_damaged());
    let segment = with_changes.find(|segment| live(segment) * 2 <= segment.len())?;
    Some(found(segment, everything))
}

/// Whether all changes of a segment go by the limits. One without any is as old as those after it.
fn is_all_old(state: &State, retention: &Retention, segment: &Segment, now: Timestamp) -> bool {
    let goes = |segment: &Segment, is_enough: fn(&Old, &Count) -> bool| {
        let places = segment.places();
        let mut old = places.counts.iter().map(|(collection, count)| {
            let limits = retention.of(state, *collection);
            is_enough(&Old::new(state, limits, segment, *collection, count, now), count)
        });
        old.all(|is_old| is_old)
    };
    match segment.is_empty() {
        false => goes(segment, Old::takes_all),
        true => {
            let later = state.segments.range(segment.id.next()..);
            let mut later = later.map(|(_, segment)| segment).filter(|one| !one.is_empty());
            later
                .next()
                .is_some_and(|next| goes(next, |old, count| old.bytes(count) > 0))
        }
    }
}

/// How many bytes of each segment are the last states of objects that exist.
fn live_bytes(state: &State) -> HashMap<SegmentId, u64> {
    let mut live = HashMap::new();
    for known in state.collections.iter().flat_map(|one| one.objects.values()) {
        let len = RECORD_HEADER as u64 + u64::from(known.location.len);
        *live.entry(known.location.segment).or_default() += len;
    }
    live
}

/// Up to where nobody needs changes any more.
fn held(shared: &Shared) -> Seq {
    let holds = shared.holds.lock().unwrap_or_else(PoisonError::into_inner);
    holds.values().min().copied().unwrap_or(Seq(u64::MAX))
}

/// The changes of a collection that stand after a segment.
fn later<'a>(state: &'a State, segment: &Segment, collection: u32) -> impl Iterator<Item = Count> + 'a {
    let later = state.segments.range(segment.id.next()..);
    later.filter_map(move |(_, segment)| segment.places().counts.get(&collection).copied())
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
    let meta = Meta {
        seq: known.seq,
        at,
        op: Op::Updated,
        observed: Observed::Live,
        collection,
        key: object_key(key),
        uid: known.uid.to_string(),
        version: known.version.clone(),
    };
    let mut body = Vec::new();
    meta.write(&Bodies::pack(None, None), &mut body);
    (meta, body)
}

/// Removes the files of a segment, after the checkpoints that need it.
pub(crate) fn forget(shared: &Shared, segment: &Segment) -> io::Result<()> {
    forget_checkpoints(shared, segment)?;
    let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
    state.segments.remove(&segment.id);
    drop(state);
    for name in [segment.id.name(), sidecar_name(segment.id)] {
        match shared.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, name, "could not remove a file of the journal");
            }
            _ => {}
        }
    }
    if let Err(error) = shared.disk.sync_names() {
        tracing::warn!(%error, "could not make a removal durable");
    }
    Ok(())
}

/// A checkpoint from before a segment needs what goes with it: deletions that are told after it.
pub(crate) fn forget_checkpoints(shared: &Shared, segment: &Segment) -> io::Result<()> {
    let names = shared.disk.names()?;
    let old = names.iter().filter_map(|name| parse_checkpoint_name(name));
    for id in old.filter(|id| *id <= segment.id) {
        shared.disk.remove(&checkpoint_name(id))?;
    }
    shared.disk.sync_names()
}
