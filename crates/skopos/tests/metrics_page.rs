//! The page on metrics names what is exported, and nothing else.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use prometheus_client::{encoding::text::encode, registry::Registry};
use skopos::{Informer, InformerConfig};

const PAGE: &str = include_str!("../../../docs/guide/metrics.md");

/// `name type` of everything in the registry, as Prometheus shows it.
fn exported() -> BTreeSet<String> {
    let mut registry = Registry::default();
    Informer::new("applications", InformerConfig::default()).register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total counter"),
            (name, other) => format!("{name} {other}"),
        })
        .collect()
}

fn documented() -> BTreeSet<String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `skopos_"));
    rows.map(|row| {
        let (name, rest) = row.split_once("` | ").unwrap();
        let (kind, _) = rest.split_once(" |").unwrap();
        format!("skopos_{name} {kind}")
    })
    .collect()
}

#[test]
fn page_names_every_metric_with_its_type() {
    assert_eq!(documented(), exported());
}
