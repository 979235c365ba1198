//! What rules and deliveries tell Prometheus.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, histogram::Histogram},
    registry::Registry,
};

use super::{
    board::{RouteState, RuleState, SinkReport, Status},
    shared::Shared,
};

/// From the change being written down to its acknowledgement.
pub(crate) type Latency = Histogram;

/// A histogram from a millisecond to a quarter of an hour.
pub(crate) fn latency() -> Latency {
    let bounds = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 900.0,
    ];
    Histogram::new(bounds)
}

/// Shows a reactor, as long as it is there.
struct Page {
    shared: Weak<Shared>,
}

type Read<S, T> = (&'static str, &'static str, fn(&S) -> T);

const RULE_COUNTERS: [Read<RuleState, u64>; 3] = [
    ("skopos_rule_matched", "Changes that matched", |rule| rule.matched),
    (
        "skopos_rule_failed",
        "Changes that could not be evaluated",
        |rule| rule.failed,
    ),
    (
        "skopos_rule_missed",
        "Changes never seen: damaged, or removed before the rule got to them",
        |rule| rule.missed,
    ),
];

const RULE_GAUGES: [Read<RuleState, f64>; 4] = [
    (
        "skopos_rule_position",
        "Change up to which the rule has looked",
        |rule| rule.position.0 as f64,
    ),
    ("skopos_rule_lag_changes", "Changes not looked at yet", |rule| {
        rule.lag_changes as f64
    }),
    (
        "skopos_rule_lag_seconds",
        "How old the first change not looked at may be",
        |rule| rule.lag.as_secs_f64(),
    ),
    (
        "skopos_rule_suspended",
        "1 if the rule stands still because it did more than it may, or was paused",
        |rule| f64::from(u8::from(rule.suspended.is_some())),
    ),
];

const ROUTE_GAUGES: [Read<RouteState, f64>; 2] = [
    ("skopos_delivery_pending", "Deliveries that wait", |route| {
        route.pending as f64
    }),
    (
        "skopos_delivery_dead_letters",
        "Deliveries given up and kept",
        |route| route.dead as f64,
    ),
];

const SINK_GAUGES: [Read<SinkReport, f64>; 3] = [
    ("skopos_sink_in_flight", "Requests on their way", |sink| {
        sink.in_flight as f64
    }),
    (
        "skopos_sink_in_memory",
        "Deliveries that wait in memory; the others wait on disk",
        |sink| sink.in_memory as f64,
    ),
    (
        "skopos_sink_down_seconds",
        "For how long nothing has arrived although it was tried; 0 while it works",
        |sink| sink.down_for.as_ref().map_or(0.0, Duration::as_secs_f64),
    ),
];

pub(super) fn register(shared: &Arc<Shared>, registry: &mut Registry) {
    registry.register_collector(Box::new(Page {
        shared: Arc::downgrade(shared),
    }));
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.shared.upgrade() else {
            return Ok(());
        };
        let status = shared.store.board.status(shared.log.head(), shared.now());
        rules(&mut encoder, &status)?;
        routes(&mut encoder, &status)?;
        sinks(&mut encoder, &status)?;
        let help =
            "1 while nothing is looked at or sent because there is no room on the disk to keep the state";
        let mut family =
            encoder.encode_descriptor("skopos_delivery_no_space", help, None, MetricType::Gauge)?;
        family
            .encode_family(&NO_LABELS)?
            .encode_gauge(&u32::from(status.no_space.is_some()))?;
        let name = "skopos_delivery_latency_seconds";
        let help = "From a change being written down to its acknowledgement";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        shared.latency.encode(metric.encode_family(&NO_LABELS)?)
    }
}

const NO_LABELS: [(&str, &str); 0] = [];

fn rules(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> fmt::Result {
    for (name, help, read) in RULE_COUNTERS {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (rule, state) in &status.rules {
            let labels = [("rule", rule.as_str())];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&read(state), None)?;
        }
    }
    for (name, help, read) in RULE_GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (rule, state) in &status.rules {
            family
                .encode_family(&[("rule", rule.as_str())])?
                .encode_gauge(&read(state))?;
        }
    }
    Ok(())
}

fn routes(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> fmt::Result {
    let all = || {
        let rules = status.rules.iter();
        rules.flat_map(|(rule, state)| routes_of(rule, state))
    };
    let help = "Deliveries that were acknowledged";
    let mut family =
        encoder.encode_descriptor("skopos_delivery_delivered", help, None, MetricType::Counter)?;
    for (rule, sink, route) in all() {
        let labels = [("rule", rule), ("sink", sink)];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&route.delivered, None)?;
    }
    for (name, help, read) in ROUTE_GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (rule, sink, route) in all() {
            let labels = [("rule", rule), ("sink", sink)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_gauge(&read(route))?;
        }
    }
    Ok(())
}

fn routes_of<'a>(
    rule: &'a str,
    state: &'a RuleState,
) -> impl Iterator<Item = (&'a str, &'a str, &'a RouteState)> {
    state
        .routes
        .iter()
        .map(move |(sink, route)| (rule, sink.as_str(), route))
}

fn sinks(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> fmt::Result {
    let help = "Attempts that failed";
    let name = "skopos_sink_failed_attempts";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (sink, report) in &status.sinks {
        let labels = [("sink", sink.as_str())];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&report.failed_attempts, None)?;
    }
    for (name, help, read) in SINK_GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (sink, report) in &status.sinks {
            family
                .encode_family(&[("sink", sink.as_str())])?
                .encode_gauge(&read(report))?;
        }
    }
    Ok(())
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}
