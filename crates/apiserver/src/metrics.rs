//! The store's counters as samples for `/metrics`.

use skopos_store::Stats;

use crate::edge::{Sample, SampleValue};

pub(crate) fn store_samples(stats: &Stats) -> Vec<Sample> {
    let counters = [
        ("skopos_store_commits", "Writes committed", stats.commits as f64),
        (
            "skopos_store_conflicts",
            "Writes refused because their precondition did not hold",
            stats.conflicts as f64,
        ),
        (
            "skopos_store_batches",
            "Groups of writes that shared one sync",
            stats.batches as f64,
        ),
        (
            "skopos_store_errors",
            "Writes that failed because the log could not be written",
            stats.storage_errors as f64,
        ),
        ("skopos_store_syncs", "Syncs of the log", stats.syncs as f64),
        (
            "skopos_store_sync_seconds",
            "Time spent in writes and syncs of the log",
            stats.sync_time.as_secs_f64(),
        ),
        (
            "skopos_store_log_bytes",
            "Bytes appended to the log",
            stats.log_bytes as f64,
        ),
        (
            "skopos_store_snapshots",
            "Snapshots completed",
            stats.snapshots as f64,
        ),
        (
            "skopos_store_snapshot_errors",
            "Snapshots that failed",
            stats.snapshot_errors as f64,
        ),
        (
            "skopos_store_compacted_events",
            "Events evicted from history",
            stats.compacted_events as f64,
        ),
        (
            "skopos_store_cut_off_watchers",
            "Watchers cut off because they fell behind",
            stats.cut_off_watchers as f64,
        ),
    ];
    let gauges = [
        (
            "skopos_store_snapshot_bytes",
            "Size of the newest snapshot",
            stats.snapshot_bytes as f64,
        ),
        (
            "skopos_store_history_events",
            "Events held as history now",
            stats.history_events as f64,
        ),
        (
            "skopos_store_history_bytes",
            "Bytes that only the history keeps alive now",
            stats.history_bytes as f64,
        ),
        ("skopos_store_watchers", "Watchers now", stats.watchers as f64),
        (
            "skopos_store_queued_writes",
            "Writes that wait in the queue now",
            stats.queued_writes as f64,
        ),
    ];
    let sample = |name, help, value| Sample {
        name,
        help,
        labels: Vec::new(),
        value,
    };
    let counters = counters.map(|(name, help, value)| sample(name, help, SampleValue::Counter(value)));
    let gauges = gauges.map(|(name, help, value)| sample(name, help, SampleValue::Gauge(value)));
    counters.into_iter().chain(gauges).collect()
}
