//! One space: the ordered entries of one resource and the ring of its recent events.

use std::{
    borrow::Borrow, cmp::Ordering, collections::BTreeSet, collections::VecDeque, ops::Bound, sync::Arc,
    time::Duration,
};

use tokio::sync::watch;

use crate::entry::{Entry, Event, EventOp, Revision};

/// How much history each space keeps. The first bound that is hit evicts the oldest events, and
/// watchers that still needed them are cut off with [`Compacted`](crate::Compacted).
#[derive(Clone, Debug)]
pub struct History {
    /// Events per space.
    pub max_events: usize,
    /// Bytes per space that only the ring keeps alive: replaced values and tombstones.
    pub max_bytes: usize,
    /// Age of an event, as told by [`Store::maintain`](crate::Store::maintain); also the age after which
    /// a revision can no longer be listed.
    pub max_age: Duration,
}

impl Default for History {
    fn default() -> Self {
        Self {
            max_events: 100_000,
            max_bytes: 32 << 20,
            max_age: Duration::from_secs(300),
        }
    }
}

/// An entry ordered by its key alone, so that the map needs no second copy of the key.
#[derive(Debug)]
pub(crate) struct ByKey(pub(crate) Arc<Entry>);

impl ByKey {
    fn bytes(&self) -> &[u8] {
        self.0.key.as_bytes()
    }
}

impl Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

/// Entries, recent events, and the bell that wakes watchers.
#[derive(Debug)]
pub(crate) struct Space {
    entries: BTreeSet<ByKey>,
    // Ascending by revision, and complete: every event of this space after `floor` is here.
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    floor: Revision,
    bell: watch::Sender<()>,
}

impl Space {
    pub(crate) fn new(floor: Revision) -> Self {
        let bell = watch::Sender::new(());
        Self {
            entries: BTreeSet::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            floor,
            bell,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key.as_bytes()).map(|found| &found.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries whose key starts with `prefix` and comes after `after`, in key order.
    pub(crate) fn range<'a>(
        &'a self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Entry>> + use<'a> {
        let end = prefix_end(prefix.as_bytes());
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.as_bytes()),
            _ => Bound::Included(prefix.as_bytes()),
        };
        let end = end.as_deref();
        // BTreeSet::range panics on an inverted range, which a cursor past the prefix would give.
        let empty = matches!((start, end), (Bound::Excluded(s) | Bound::Included(s), Some(e)) if s >= e);
        let start = if empty {
            Bound::Included(end.unwrap_or_default())
        } else {
            start
        };
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range::<[u8], _>((start, end)).map(|entry| &entry.0)
    }

    /// The revision after which all events are at hand.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// All events after `revision`, oldest first. Complete only if `revision >= floor()`.
    pub(crate) fn events_after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let start = self.ring.partition_point(|event| event.revision() <= revision);
        self.ring.range(start..)
    }

    pub(crate) fn listen(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    pub(crate) fn ring_bell(&self) {
        self.bell.send_replace(());
    }

    /// Puts an entry without an event, as loaded from a snapshot.
    pub(crate) fn restore(&mut self, entry: Arc<Entry>) {
        self.entries.replace(ByKey(entry));
    }

    /// Applies one event to the entries and appends it to the ring; returns how many old events that evicted.
    pub(crate) fn apply(&mut self, event: Arc<Event>, history: &History) -> usize {
        match event.op {
            EventOp::Put => drop(self.entries.replace(ByKey(event.entry.clone()))),
            EventOp::Delete => drop(self.entries.take(event.entry.key.as_bytes())),
        }
        self.ring_bytes += retained_bytes(&event);
        self.ring.push_back(event);
        let mut evicted = 0;
        while self.ring.len() > history.max_events || self.ring_bytes > history.max_bytes {
            self.evict_oldest();
            evicted += 1;
        }
        evicted
    }

    /// Forgets the events up to and including `upto`; returns how many there were.
    pub(crate) fn forget(&mut self, upto: Revision) -> usize {
        let mut evicted = 0;
        while self.ring.front().is_some_and(|event| event.revision() <= upto) {
            self.evict_oldest();
            evicted += 1;
        }
        evicted
    }

    /// Forgets the events up to `upto` and refuses to serve from before it even if there were none.
    pub(crate) fn compact(&mut self, upto: Revision) -> usize {
        let evicted = self.forget(upto);
        self.floor = self.floor.max(upto);
        evicted
    }

    fn evict_oldest(&mut self) {
        if let Some(event) = self.ring.pop_front() {
            self.ring_bytes -= retained_bytes(&event);
            self.floor = event.revision();
        }
    }
}

/// What an event alone keeps in memory. The value of a put is the current one or some later event's
/// previous one, so counting previous values and tombstones counts each buffer once.
fn retained_bytes(event: &Event) -> usize {
    const OVERHEAD: usize = 160;
    let previous = event.previous.as_ref().map_or(0, |entry| entry.value.len());
    let tombstone = if event.op == EventOp::Delete {
        event.entry.value.len()
    } else {
        0
    };
    OVERHEAD + previous + tombstone
}

/// The first byte string after all those that start with `prefix`; `None` if there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
