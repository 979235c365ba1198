//! One space: the ordered entries of one resource and the ring of its recent events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    entries::{Entries, View},
    entry::{Entry, Event, EventOp, Revision},
};

/// How much history each space keeps. The first bound that is hit evicts the oldest events, and
/// watchers that still needed them are cut off with [`Compacted`](crate::Compacted).
#[derive(Clone, Copy, Debug)]
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

/// Entries, recent events, and the bell that wakes watchers.
#[derive(Debug)]
pub(crate) struct Space {
    entries: Entries,
    // Ascending by revision, and complete: every event of this space after `floor` is here.
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    // Where a new watch may begin. At least `lost`; more after an explicit compaction.
    floor: Revision,
    // The last event that was evicted. A watcher that has seen it has missed nothing.
    lost: Revision,
    bell: watch::Sender<()>,
}

impl Space {
    pub(crate) fn new(floor: Revision) -> Self {
        let bell = watch::Sender::new(());
        Self {
            entries: Entries::default(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            floor,
            lost: floor,
            bell,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries whose key starts with `prefix` and comes after `after`, to be read without the lock.
    pub(crate) fn view(&self, prefix: &str, after: Option<&str>) -> View {
        self.entries.view(prefix, after)
    }

    /// The oldest revision that a new watch may begin after.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// The revision of the last event that is no longer at hand.
    pub(crate) fn lost(&self) -> Revision {
        self.lost
    }

    /// How many events the ring holds, and how many bytes it alone keeps alive.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.ring.len(), self.ring_bytes)
    }

    /// All events after `revision`, oldest first. Complete only if `revision >= lost()`.
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
        self.entries.put(entry);
    }

    /// Applies one event to the entries and appends it to the ring; returns how many old events that evicted.
    pub(crate) fn apply(&mut self, event: Arc<Event>, history: &History) -> usize {
        match event.op {
            EventOp::Put => self.entries.put(event.entry.clone()),
            EventOp::Delete => self.entries.remove(&event.entry.key),
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
            self.lost = event.revision();
            self.floor = self.floor.max(self.lost);
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
