//! Counters of the store, for a server to export.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Counters since the store was opened, and a few present values. All reads are cheap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Writes committed.
    pub commits: u64,
    /// Writes refused because their precondition did not hold.
    pub conflicts: u64,
    /// Groups of writes that shared one sync.
    pub batches: u64,
    /// Writes that failed because the log could not be written.
    pub storage_errors: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Time spent in writes and syncs of the log.
    pub sync_time: Duration,
    /// Bytes appended to the log.
    pub log_bytes: u64,
    /// Snapshots completed.
    pub snapshots: u64,
    /// Snapshots that failed; the log is kept and the next one tries again.
    pub snapshot_errors: u64,
    /// Time spent on completed snapshots.
    pub snapshot_time: Duration,
    /// Bytes of the newest snapshot.
    pub snapshot_bytes: u64,
    /// Events evicted from history.
    pub compacted_events: u64,
    /// Watchers that were cut off because they fell behind the history.
    pub cut_off_watchers: u64,
    /// Watchers now.
    pub watchers: usize,
    /// Events held as history now, over all spaces.
    pub history_events: usize,
    /// Bytes that only the history keeps alive now, over all spaces.
    pub history_bytes: usize,
    /// Writes that wait in the queue now.
    pub queued_writes: usize,
    /// What the queue holds at most.
    pub queue_capacity: usize,
}

/// The live counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) storage_errors: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_nanos: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) snapshot_errors: AtomicU64,
    pub(crate) snapshot_nanos: AtomicU64,
    pub(crate) snapshot_bytes: AtomicU64,
    pub(crate) compacted_events: AtomicU64,
    pub(crate) cut_off_watchers: AtomicU64,
    pub(crate) watchers: AtomicUsize,
}

impl Counters {
    pub(crate) fn read(&self) -> Stats {
        Stats {
            commits: self.commits.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            batches: self.batches.load(Relaxed),
            storage_errors: self.storage_errors.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            sync_time: Duration::from_nanos(self.sync_nanos.load(Relaxed)),
            log_bytes: self.log_bytes.load(Relaxed),
            snapshots: self.snapshots.load(Relaxed),
            snapshot_errors: self.snapshot_errors.load(Relaxed),
            snapshot_time: Duration::from_nanos(self.snapshot_nanos.load(Relaxed)),
            snapshot_bytes: self.snapshot_bytes.load(Relaxed),
            compacted_events: self.compacted_events.load(Relaxed),
            cut_off_watchers: self.cut_off_watchers.load(Relaxed),
            watchers: self.watchers.load(Relaxed),
            history_events: 0,
            history_bytes: 0,
            queued_writes: 0,
            queue_capacity: 0,
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
