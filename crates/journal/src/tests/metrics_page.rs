//! The page on metrics names what is exported, and nothing else.

use std::collections::BTreeSet;

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;
use crate::{Capture, CaptureConfig};

const PAGE: &str = include_str!("../../../../docs/guide/metrics.md");

fn is_ours(line: &str) -> bool {
    line.starts_with("skopos_journal_") || line.starts_with("skopos_capture_")
}

#[tokio::test]
async fn metrics_are_those_of_the_page() {
    let journal = open(&SimDisk::default());
    let collections = Arc::new(One(None.into()));
    let capture = Capture::new(journal.clone(), collections, CaptureConfig::default());
    let mut registry = Registry::default();
    journal.register(&mut registry);
    capture.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeSet<String> = types
        .filter(|line| is_ours(line))
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total counter"),
            (name, other) => format!("{name} {other}"),
        })
        .collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .filter(|row| is_ours(row))
        .map(|row| {
            row.replacen("` | ", " ", 1)
                .split(" |")
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(exported, documented);
}
