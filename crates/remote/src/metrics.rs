//! The server that keeps things, as metrics, read when they are asked for.

use std::{fmt, sync::atomic::Ordering::Relaxed};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{Remote, health::Health};

impl Remote {
    /// Shows how the server is doing as `skopos_remote_*` in a registry, for as long as the registry lives.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Exporter(self.health().clone())));
    }
}

#[derive(Debug)]
struct Exporter(std::sync::Arc<Health>);

/// A number that only grows: name, help, unit, value.
type Counter = (&'static str, &'static str, Option<Unit>, fn(&Health) -> u64);

const COUNTERS: [Counter; 4] = [
    (
        "skopos_remote_puts",
        "Writes to the server that keeps the journal",
        None,
        |health| health.n_puts.load(Relaxed),
    ),
    (
        "skopos_remote_put",
        "Bytes written to that server",
        Some(Unit::Bytes),
        |health| health.put_bytes.load(Relaxed),
    ),
    (
        "skopos_remote_gets",
        "Reads from that server, of what is not in memory",
        None,
        |health| health.n_gets.load(Relaxed),
    ),
    (
        "skopos_remote_retries",
        "Reads and writes that failed and were tried again",
        None,
        |health| health.n_retries.load(Relaxed),
    ),
];

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, unit, value) in &COUNTERS {
            let described = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
            ConstCounter::new(value(&self.0)).encode(described)?;
        }
        let gauges = [
            (
                "skopos_remote_waiting",
                "1 while that server does not answer and capture waits for it",
                self.0.is_waiting(),
            ),
            (
                "skopos_remote_taken_over",
                "1 once another replica took over and nothing is written any more",
                self.0.lost().is_some(),
            ),
        ];
        for (name, help, value) in gauges {
            let described = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::from(value)).encode(described)?;
        }
        Ok(())
    }
}
