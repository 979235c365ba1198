//! The page on metrics names what is exported, and nothing else.

use std::collections::BTreeSet;

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::kit::{MemoryLog, Recorder, When, plan, rule};
use crate::delivery::{Config, Reactor};

const PAGE: &str = include_str!("../../../../../docs/guide/metrics.md");

const PREFIXES: [&str; 3] = ["skopos_rule_", "skopos_delivery_", "skopos_sink_"];

#[tokio::test]
async fn page_names_every_metric_with_its_type() {
    let reactor = Reactor::in_memory(MemoryLog::new(), Config::default()).unwrap();
    let sink = Recorder::new(1);
    reactor.swap(plan(
        [("r", rule("r", When::Always, &["s"]))],
        [("s", sink.planned())],
    ));
    let mut registry = Registry::default();
    reactor.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeSet<String> = types
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total counter"),
            (name, other) => format!("{name} {other}"),
        })
        .collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .filter(|row| PREFIXES.iter().any(|prefix| row.starts_with(prefix)))
        .map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            let (kind, _) = rest.split_once(" |").unwrap();
            format!("{name} {kind}")
        })
        .collect();
    assert_eq!(documented, exported);
}
