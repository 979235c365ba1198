//! The page on metrics names what is exported, and nothing else.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use prometheus_client::{encoding::text::encode, registry::Registry};
use skopos::controller::{Action, Context, Controller, Failure, Manager, ManagerConfig};
use skopos::{Informer, InformerConfig, Object};
use skopos_testkit::TestServer;

const PAGE: &str = include_str!("../../../docs/guide/metrics.md");

/// What the page has tables of.
const PREFIXES: [&str; 3] = ["skopos_informer_", "skopos_controller_", "controller_runtime_"];

/// `name type` of what informers and controllers export, as Prometheus shows it.
async fn exported() -> BTreeSet<String> {
    let mut registry = Registry::default();
    Informer::new("applications", InformerConfig::default()).register(&mut registry);
    let server = TestServer::start().await;
    let mut manager = Manager::new(&server.client(), ManagerConfig::new("x.io/apps")).unwrap();
    let idle = |_: Object, _: Context| async { Ok::<_, Failure>(Action::Done) };
    manager.add(Controller::for_("apps.x.io").reconcile(idle));
    manager.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .filter(|line| PREFIXES.iter().any(|prefix| line.starts_with(prefix)))
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total counter"),
            (name, other) => format!("{name} {other}"),
        })
        .collect()
}

fn documented() -> BTreeSet<String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let metrics = rows.filter(|row| PREFIXES.iter().any(|prefix| row.starts_with(prefix)));
    metrics
        .map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            let (kind, _) = rest.split_once(" |").unwrap();
            format!("{name} {kind}")
        })
        .collect()
}

#[tokio::test]
async fn page_names_every_metric_with_its_type() {
    assert_eq!(documented(), exported().await);
}
