//! What the control tells Prometheus: the conditions of rules, sinks and records, also of those from files.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::MetricType, registry::Registry,
};
use skopos_journal::{Capture, Journal, Log as _};
use skopos_react::Reactor;
use tokio::sync::watch;

use crate::{Engine, Verdicts, conditions::Conditions};

/// Shows what is in force.
struct Page {
    verdicts: watch::Receiver<Arc<Verdicts>>,
    journal: Journal,
    capture: Capture,
    reactor: Reactor,
}

impl Engine {
    /// Puts the conditions of rules, sinks and records into a registry: docs/guide/metrics.md names them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Page {
            verdicts: self.verdicts(),
            journal: self.journal().clone(),
            capture: self.capture().clone(),
            reactor: self.reactor().clone(),
        }));
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let verdicts = self.verdicts.borrow().clone();
        let (captures, holes) = (self.capture.status(), self.journal.holes());
        let all = Conditions::new(&verdicts, &captures, &holes, &self.reactor.status());
        let help = "1 if a condition of a rule, sink or record holds, 0 if not";
        let mut family = encoder.encode_descriptor("skopos_condition", help, None, MetricType::Gauge)?;
        for (label, by_name) in [
            ("rule", &all.rules),
            ("sink", &all.sinks),
            ("record", &all.records),
        ] {
            for (name, one) in by_name
                .iter()
                .flat_map(|(name, all)| all.iter().map(move |one| (name, one)))
            {
                let labels = [
                    (label, name.as_str()),
                    ("condition", &one.kind),
                    ("reason", &one.reason),
                ];
                family
                    .encode_family(&labels)?
                    .encode_gauge(&u32::from(one.holds))?;
            }
        }
        let help = "Documents in files that cannot be used at all";
        let mut family = encoder.encode_descriptor("skopos_unreadable", help, None, MetricType::Gauge)?;
        family
            .encode_family(&NO_LABELS)?
            .encode_gauge(&u32::try_from(verdicts.unreadable.len()).unwrap_or(u32::MAX))
    }
}

const NO_LABELS: [(&str, &str); 0] = [];

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}
