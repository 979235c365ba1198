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

/// The same in nanoseconds.
const BOUNDS_IN_NANOS: [u64; BOUNDS.len()] = {
    let mut bounds = [10; BOUNDS.len()];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 10;
        at += 1;
    }
    bounds
};

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
    /// Decides, before anything is counted of a tenant, whether it is counted apart. That stays so: a series that came and
    /// went would be a counter that goes back.
    pub(crate) fn meet(&mut self, tenant: &str) {
        if self.by_tenant.len() < MAX_TENANTS && !self.by_tenant.contains_key(tenant) {
            self.by_tenant.insert(tenant.into(), Waits::default());
        }
    }

    /// Counts how long keys of a tenant waited.
    pub(crate) fn add(&mut self, tenant: &str, waits: Waits) {
        let sum = self.by_tenant.get_mut(tenant).unwrap_or(&mut self.other_tenants);
        sum.count += waits.count;
        sum.sum += waits.sum;
    }
}

/// How often and how long in all a tenant's keys waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    pub(crate) sum: Duration,
}

impl Waits {
    pub(crate) fn record(&mut self, waited: Duration) {
        self.count += 1;
        self.sum += waited;
    }
}

/// Counts per bucket; the last is for what exceeds every bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    pub(crate) counts: [u64; BOUNDS.len() + 1],
    pub(crate) sum: Duration,
}

impl Histogram {
    /// Compares with every bound: a search would be guessed wrongly by the processor more often than not.
    pub(crate) fn record(&mut self, value: Duration) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        let n_below: usize = BOUNDS_IN_NANOS
            .iter()
            .map(|bound| usize::from(*bound < nanos))
            .sum();
        self.counts[n_below] += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_below_the_first_bound_that_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        let times = [0, 10, 11, 1_000, 1_001, 999_999_999, 1_000_000_000, u64::MAX];
        for nanos in times {
            histogram.record(Duration::from_nanos(nanos));
        }
        assert_eq!(histogram.counts, [2, 1, 1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
        for (nanos, seconds) in BOUNDS_IN_NANOS.iter().zip(BOUNDS) {
            assert_eq!(Duration::from_nanos(*nanos), Duration::from_secs_f64(seconds));
        }
    }
}
