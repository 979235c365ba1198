//! What became of spans, as metrics, read when they are asked for.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use crate::{Traces, exporter::Shared};

/// What became of the spans that were taken in.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// The receiver has them.
    pub(crate) taken: Count,
    /// The receiver took the others of their batch.
    pub(crate) rejected: Count,
    /// The receiver does not want their batch.
    pub(crate) refused: Count,
    /// The receiver was away for too long.
    pub(crate) unavailable: Count,
    /// The process ended first.
    pub(crate) ended: Count,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Sent {
    /// Of so many it is known what became of them.
    pub(crate) fn n_settled(&self) -> u64 {
        [
            &self.taken,
            &self.rejected,
            &self.refused,
            &self.unavailable,
            &self.ended,
        ]
        .map(Count::get)
        .into_iter()
        .sum()
    }
}

impl Traces {
    /// Shows what becomes of spans as `skopos_trace_*` in a registry, for as long as the registry lives.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Page(self.shared.clone())));
    }
}

#[derive(Debug)]
struct Page(Arc<Shared>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (queue, sent) = (&self.0.queue, &self.0.sent);
        let help = "Spans that the OpenTelemetry receiver has";
        let described = encoder.encode_descriptor("skopos_trace_spans", help, None, MetricType::Counter)?;
        ConstCounter::new(sent.taken.get()).encode(described)?;
        let help = "Spans that were lost, by reason";
        let mut lost =
            encoder.encode_descriptor("skopos_trace_lost_spans", help, None, MetricType::Counter)?;
        for (reason, n_lost) in [
            ("full", queue.n_turned_away()),
            ("rejected", sent.rejected.get()),
            ("refused", sent.refused.get()),
            ("unavailable", sent.unavailable.get()),
            ("ended", sent.ended.get()),
        ] {
            let labels = [("reason", reason)];
            ConstCounter::new(n_lost).encode(lost.encode_family(&labels)?)?;
        }
        let help = "Spans that wait to be sent";
        let described =
            encoder.encode_descriptor("skopos_trace_waiting_spans", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(queue.len()).unwrap_or(i64::MAX)).encode(described)
    }
}
