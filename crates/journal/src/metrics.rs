//! The journal and what fills it as metrics, read when they are asked for.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{Capture, CaptureStatus, Journal, JournalStats, Log as _, Phase};

impl Journal {
    /// Shows the journal as `skopos_journal_*` in a registry, for as long as the registry lives.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(JournalExporter(self.clone())));
    }
}

impl Capture {
    /// Shows each collection as `skopos_capture_*` in a registry, for as long as the registry lives.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(CaptureExporter(self.clone())));
    }
}

#[derive(Debug)]
struct JournalExporter(Journal);

#[derive(Debug)]
struct CaptureExporter(Capture);

/// A number of the journal: name, help, unit, whether it only grows, value.
type JournalMetric = (
    &'static str,
    &'static str,
    Option<Unit>,
    bool,
    fn(&JournalStats) -> f64,
);

const JOURNAL: [JournalMetric; 7] = [
    (
        "skopos_journal_head",
        "Number of the newest change",
        None,
        false,
        |stats| stats.head.0 as f64,
    ),
    (
        "skopos_journal_first",
        "Number of the oldest change kept",
        None,
        false,
        |stats| stats.first.0 as f64,
    ),
    (
        "skopos_journal_objects",
        "Objects that exist, as far as is known",
        None,
        false,
        |stats| stats.n_objects as f64,
    ),
    (
        "skopos_journal_disk",
        "Size of the log",
        Some(Unit::Bytes),
        false,
        |stats| stats.disk_bytes as f64,
    ),
    (
        "skopos_journal_commits",
        "Commits, each of one or several batches",
        None,
        true,
        |stats| stats.n_commits as f64,
    ),
    (
        "skopos_journal_commit_errors",
        "Commits that failed, for example on a full disk",
        None,
        true,
        |stats| stats.n_commit_errors as f64,
    ),
    (
        "skopos_journal_written",
        "Bytes written",
        Some(Unit::Bytes),
        true,
        |stats| stats.written_bytes as f64,
    ),
];

impl Collector for JournalExporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        for (name, help, unit, grows, value) in &JOURNAL {
            number(&mut encoder, (name, help, unit.as_ref(), *grows), value(&stats))?;
        }
        let (holes, damage) = (self.0.holes().len(), self.0.damage().len());
        let about = (
            "skopos_journal_holes",
            "Times for which changes may be missing, as far as they are remembered",
            None,
            false,
        );
        number(&mut encoder, about, holes as f64)?;
        let about = (
            "skopos_journal_damaged",
            "Parts of the log that cannot be read",
            None,
            false,
        );
        number(&mut encoder, about, damage as f64)
    }
}

/// Writes one number without labels.
fn number(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit, grows): (&str, &str, Option<&Unit>, bool),
    value: f64,
) -> fmt::Result {
    match grows {
        true => ConstCounter::new(value).encode(encoder.encode_descriptor(
            name,
            help,
            unit,
            MetricType::Counter,
        )?),
        false => {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?)
        }
    }
}

/// A number of each collection: name, help, unit, value.
type CaptureMetric = (
    &'static str,
    &'static str,
    Option<Unit>,
    fn(&CaptureStatus, &Capture) -> Option<f64>,
);

const CAPTURE: [CaptureMetric; 4] = [
    (
        "skopos_capture_watching",
        "1 while the collection is followed",
        None,
        |status, _| Some(f64::from(u8::from(status.phase == Phase::Watching))),
    ),
    (
        "skopos_capture_paused",
        "1 while there is no room for changes",
        None,
        |status, _| Some(f64::from(u8::from(matches!(status.phase, Phase::Paused(_))))),
    ),
    (
        "skopos_capture_heard_age",
        "Time since the collection was last known to be up to date",
        Some(Unit::Seconds),
        |status, capture| {
            let age = capture.now().duration_since(status.heard?);
            Some(Duration::try_from(age).unwrap_or_default().as_secs_f64())
        },
    ),
    (
        "skopos_capture_malformed_objects",
        "Objects that could not be read and were left out",
        None,
        |status, _| Some(status.n_malformed as f64),
    ),
];

impl Collector for CaptureExporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.status();
        for (name, help, unit, value) in &CAPTURE {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            for status in &all {
                if let Some(value) = value(status, &self.0) {
                    let labels = [("collection", status.name.to_string())];
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}
