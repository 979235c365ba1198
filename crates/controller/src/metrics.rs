//! What controllers tell Prometheus: the names that users of controller-runtime know, and more.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The metrics of any number of controllers, told apart by the label `controller`.
#[derive(Clone, Default)]
pub struct Metrics {
    families: Families,
    pub(crate) queues: skopos_queue::Metrics,
}

#[derive(Clone, Default)]
struct Families {
    results: Family<ResultOf, Counter>,
    errors: Family<Of, Counter>,
    terminal_errors: Family<Of, Counter>,
    panics: Family<Of, Counter>,
    hearing_panics: Family<Of, Counter>,
    hearing_errors: Family<Of, Counter>,
    timeouts: Family<Of, Counter>,
    cancelled: Family<Of, Counter>,
    suppressed: Family<Of, Counter>,
    cache_waits: Family<Of, Counter>,
    time: Times,
    lag: Times,
    active: Family<Of, Gauge>,
    concurrency: Family<Of, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultOf {
    controller: String,
    result: &'static str,
}

#[derive(Clone)]
struct Times(Family<Of, Histogram, Buckets>);

impl Default for Times {
    fn default() -> Self {
        Self(Family::new_with_constructor(Buckets))
    }
}

#[derive(Clone, Copy)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new([
            0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
        ])
    }
}

/// Those of one controller.
pub(crate) struct ControllerMetrics {
    pub(crate) done: Counter,
    pub(crate) requeued: Counter,
    pub(crate) failed: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) hearing_panics: Counter,
    pub(crate) hearing_errors: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) suppressed: Counter,
    pub(crate) cache_waits: Counter,
    pub(crate) time: Histogram,
    pub(crate) lag: Histogram,
    pub(crate) active: Gauge,
    pub(crate) concurrency: Gauge,
}

impl Metrics {
    /// Metrics of no controller yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `registry` show these metrics.
    pub fn register(&self, registry: &mut Registry) {
        let all = &self.families;
        self.queues.register(registry);
        let controllers = registry.sub_registry_with_prefix("controller_runtime");
        controllers.register("reconcile", "Reconciles, by result", all.results.clone());
        controllers.register("reconcile_errors", "Reconciles that failed", all.errors.clone());
        controllers.register(
            "terminal_reconcile_errors",
            "Reconciles that failed for good",
            all.terminal_errors.clone(),
        );
        controllers.register("reconcile_panics", "Reconciles that panicked", all.panics.clone());
        controllers.register(
            "reconcile_timeouts",
            "Reconciles that took too long",
            all.timeouts.clone(),
        );
        controllers.register_with_unit(
            "reconcile_time",
            "How long reconciles take",
            Unit::Seconds,
            all.time.0.clone(),
        );
        controllers.register("active_workers", "Reconciles that run now", all.active.clone());
        controllers.register(
            "max_concurrent_reconciles",
            "How many reconciles may run at once",
            all.concurrency.clone(),
        );
        let ours = registry.sub_registry_with_prefix("skopos_controller");
        ours.register_with_unit(
            "reconcile_lag",
            "From hearing of a change to the begin of the reconcile that sees it",
            Unit::Seconds,
            all.lag.0.clone(),
        );
        ours.register(
            "hearing_panics",
            "Panics in predicates and in functions that say whom a change concerns",
            all.hearing_panics.clone(),
        );
        ours.register(
            "hearing_errors",
            "States of related objects that do not fit their type, so that nobody knows whom they concern",
            all.hearing_errors.clone(),
        );
        ours.register(
            "reconciles_cancelled",
            "Reconciles that were cancelled because this replica ceased to lead or to run",
            all.cancelled.clone(),
        );
        ours.register(
            "writes_suppressed",
            "Writes that were not sent because they would have changed nothing",
            all.suppressed.clone(),
        );
        ours.register(
            "cache_waits",
            "Reconciles put off because a cache did not show yet what the one before wrote",
            all.cache_waits.clone(),
        );
    }

    pub(crate) fn controller(&self, name: &str) -> ControllerMetrics {
        let all = &self.families;
        let of = Of {
            controller: name.to_owned(),
        };
        let result = |result: &'static str| {
            let labels = ResultOf {
                controller: name.to_owned(),
                result,
            };
            all.results.get_or_create_owned(&labels)
        };
        let counter =
            |family: &Family<Of, Counter>| -> Counter<u64, AtomicU64> { family.get_or_create_owned(&of) };
        ControllerMetrics {
            done: result("success"),
            requeued: result("requeue_after"),
            failed: result("error"),
            errors: counter(&all.errors),
            terminal_errors: counter(&all.terminal_errors),
            panics: counter(&all.panics),
            hearing_panics: counter(&all.hearing_panics),
            hearing_errors: counter(&all.hearing_errors),
            timeouts: counter(&all.timeouts),
            cancelled: counter(&all.cancelled),
            suppressed: counter(&all.suppressed),
            cache_waits: counter(&all.cache_waits),
            time: all.time.0.get_or_create_owned(&of),
            lag: all.lag.0.get_or_create_owned(&of),
            active: all.active.get_or_create_owned(&of),
            concurrency: all.concurrency.get_or_create_owned(&of),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl fmt::Debug for ControllerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerMetrics")
    }
}
