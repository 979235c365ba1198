//! An election as metrics: client-go's names, and more.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge};

use crate::Fence;

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Reads of a leader, which renews without reading if all goes well.
    pub(super) slow_paths: AtomicU64,
    pub(super) terms: AtomicU64,
    pub(super) losses: AtomicU64,
    pub(super) slow_renewals: AtomicU64,
    pub(super) failures: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Exporter {
    pub(super) name: String,
    pub(super) fence: Fence,
    pub(super) counts: Arc<Counts>,
}

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let labels = [("name", self.name.as_str())];
        let mut status = encoder.encode_descriptor(
            "leader_election_master_status",
            "1 while this replica leads",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(i64::from(self.fence.is_open())).encode(status.encode_family(&labels)?)?;
        for (name, help, count) in self.counters() {
            let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count.load(Relaxed)).encode(counter.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Exporter {
    fn counters(&self) -> [(&'static str, &'static str, &AtomicU64); 5] {
        let counts = &*self.counts;
        [
            (
                "leader_election_slowpath",
                "Renewals for which the lease had to be read first",
                &counts.slow_paths,
            ),
            (
                "skopos_leader_terms",
                "Times this replica became the leader",
                &counts.terms,
            ),
            (
                "skopos_leader_losses",
                "Times this replica lost the lead against its will",
                &counts.losses,
            ),
            (
                "skopos_leader_slow_renewals",
                "Renewals that took longer than the pause between two",
                &counts.slow_renewals,
            ),
            (
                "skopos_leader_failures",
                "Requests for the lease that failed",
                &counts.failures,
            ),
        ]
    }
}
