//! What a queue counts. Plain numbers under the queue's lock; [`Metrics`](crate::Metrics) reads them.

use std::collections::HashMap;
use std::time::Duration;

use crate::config::Priority;

/// Tenants whose waiting is counted apart; the rest is counted together.
const MAX_TENANTS: usize = 100;

/// Upper bounds of the histograms in seconds: those of client-go, so that dashboards fit.
pub(crate) const BOUNDS: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0,
];

/// How often things happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) adds: u64,
    pub(crate) coalesced: u64,
    pub(crate) refused: u64,
    pub(crate) retries: u64,
    pub(crate) handed_out: u64,
    pub(crate) abandoned: u64,
    pub(crate) dead_lettered: u64,
    pub(crate) dead_letters_full: u64,
    /// Only kept when somebody looks at the metrics.
    pub(crate) times: Option<Box<Times>>,
}

/// How long things took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pub(crate) queued: Histogram,
    pub(crate) worked: Histogram,
    pub(crate) by_tenant: HashMap<Box<str>, Waits>,
    pub(crate) other_tenants: Waits,
}

impl Times {
    pub(crate) fn handed_out(&mut self, tenant: &str, waited: Duration) {
        self.queued.record(waited);
        let has_room = self.by_tenant.len() < MAX_TENANTS;
        let waits = match self.by_tenant.get_mut(tenant) {
            Some(waits) => waits,
            None if has_room => self.by_tenant.entry(tenant.into()).or_default(),
            None => &mut self.other_tenants,
        };
        waits.count += 1;
        waits.sum += waited;
    }
}

/// How often and how long in all a tenant's keys waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    pub(crate) sum: Duration,
}

/// Counts per bucket; the last is for what exceeds every bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    pub(crate) counts: [u64; BOUNDS.len() + 1],
    pub(crate) sum: f64,
}

impl Histogram {
    pub(crate) fn record(&mut self, value: Duration) {
        let value = value.as_secs_f64();
        self.counts[BOUNDS.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }
}

/// The queue at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) stats: Stats,
    pub(crate) depth: [usize; Priority::ALL.len()],
    pub(crate) delayed: usize,
    pub(crate) running: usize,
    pub(crate) dead_letters: usize,
    pub(crate) tenants: usize,
    pub(crate) oldest: Duration,
    pub(crate) unfinished: Duration,
    pub(crate) longest_running: Duration,
}
