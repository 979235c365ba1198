//! Informers as metrics, read when they are asked for.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{Informer, InformerReport, Informers, Lag, ListReason};

impl Informer {
    /// Shows the informer as `skopos_informer_*` in a registry, for as long as the registry lives.
    pub fn register(&self, registry: &mut Registry) {
        let informer = self.clone();
        let reports = move || vec![informer.report()];
        registry.register_collector(Box::new(Exporter(Box::new(reports))));
    }
}

impl Informers {
    /// Shows the informers as `skopos_informer_*` in a registry, for as long as the registry lives.
    pub fn register(&self, registry: &mut Registry) {
        let informers = self.clone();
        let reports = move || informers.reports();
        registry.register_collector(Box::new(Exporter(Box::new(reports))));
    }
}

struct Exporter(Box<dyn Fn() -> Vec<InformerReport> + Send + Sync>);

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

/// One metric that has one value for each informer.
struct Metric {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: Value,
}

enum Value {
    Gauge(fn(&InformerReport) -> Option<f64>),
    Counter(fn(&InformerReport) -> u64),
}

const METRICS: [Metric; 15] = [
    gauge("skopos_informer_objects", "Objects in the copy", None, |report| {
        Some(report.objects as f64)
    }),
    gauge(
        "skopos_informer_store",
        "Memory that the objects take, nearly",
        Some(Unit::Bytes),
        |report| Some(report.bytes as f64),
    ),
    gauge(
        "skopos_informer_synced",
        "1 once the first list is complete",
        None,
        |report| Some(f64::from(u8::from(report.synced))),
    ),
    gauge(
        "skopos_informer_served",
        "0 while there is nothing to follow, for example because no such kind exists",
        None,
        |report| Some(f64::from(u8::from(report.not_served.is_none()))),
    ),
    gauge(
        "skopos_informer_watch_age",
        "How long the watch is open",
        Some(Unit::Seconds),
        |report| report.watch_age.map(|age| age.as_secs_f64()),
    ),
    gauge(
        "skopos_informer_last_event_age",
        "Time since something was heard, bookmarks included",
        Some(Unit::Seconds),
        |report| report.last_event_age.map(|age| age.as_secs_f64()),
    ),
    gauge(
        "skopos_informer_staleness",
        "How long the copy is out of step",
        Some(Unit::Seconds),
        |report| Some(report.staleness.as_secs_f64()),
    ),
    gauge(
        "skopos_informer_unreadable_objects",
        "Objects that cannot be read now and are set aside; at most 100 are counted",
        None,
        |report| Some(report.quarantined.len() as f64),
    ),
    gauge("skopos_informer_subscribers", "Subscribers", None, |report| {
        Some(report.subscribers.len() as f64)
    }),
    gauge(
        "skopos_informer_lag_objects",
        "Objects the slowest subscriber has not seen",
        None,
        |report| Some(worst(report).keys as f64),
    ),
    gauge(
        "skopos_informer_lag",
        "How long the slowest subscriber is behind",
        Some(Unit::Seconds),
        |report| Some(worst(report).age.as_secs_f64()),
    ),
    counter(
        "skopos_informer_events",
        "Changes heard of in watches",
        |report| report.events,
    ),
    counter(
        "skopos_informer_troubles",
        "Failures of lists and watches",
        |report| report.troubles,
    ),
    counter(
        "skopos_informer_quarantined",
        "Times that an object could not be read and was set aside",
        |report| report.quarantined_total,
    ),
    counter(
        "skopos_informer_index_panics",
        "Panics of index functions",
        |report| report.index_panics,
    ),
];

const fn gauge(
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: fn(&InformerReport) -> Option<f64>,
) -> Metric {
    let value = Value::Gauge(value);
    Metric {
        name,
        help,
        unit,
        value,
    }
}

const fn counter(name: &'static str, help: &'static str, value: fn(&InformerReport) -> u64) -> Metric {
    let (unit, value) = (None, Value::Counter(value));
    Metric {
        name,
        help,
        unit,
        value,
    }
}

fn worst(report: &InformerReport) -> Lag {
    Lag {
        keys: report
            .subscribers
            .iter()
            .map(|lag| lag.keys)
            .max()
            .unwrap_or_default(),
        age: report
            .subscribers
            .iter()
            .map(|lag| lag.age)
            .max()
            .unwrap_or_default(),
    }
}

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let reports = (self.0)();
        for metric in &METRICS {
            metric.encode(&reports, &mut encoder)?;
        }
        let name = "skopos_informer_lists";
        let mut lists =
            encoder.encode_descriptor(name, "Lists begun, by reason", None, MetricType::Counter)?;
        for report in &reports {
            // Those that never happened too, so that the first one shows as an increase.
            for reason in ListReason::ALL.map(ListReason::as_str) {
                let labels = [("informer", report.informer.as_str()), ("reason", reason)];
                let count = report.lists.get(reason).copied().unwrap_or_default();
                ConstCounter::new(count).encode(lists.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Metric {
    fn encode(
        &self,
        reports: &[InformerReport],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        let kind = match self.value {
            Value::Gauge(_) => MetricType::Gauge,
            Value::Counter(_) => MetricType::Counter,
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)?;
        for report in reports {
            let labels = [("informer", report.informer.as_str())];
            match self.value {
                Value::Gauge(value) => {
                    if let Some(value) = value(report) {
                        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                    }
                }
                Value::Counter(value) => {
                    ConstCounter::new(value(report)).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}
