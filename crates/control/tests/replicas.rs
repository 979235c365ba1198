//! A replica takes over from another what a server keeps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use skopos_control::{Engine, EngineConfig, StopError};
use skopos_remote::JournalUrl;
use skopos_sink::Allowed;
use skopos_testkit::{
    TestServer, definition,
    parts::{Nats, Postgres, USER},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Replica {
    stop: CancellationToken,
    task: JoinHandle<Result<(), StopError>>,
    reactor: skopos_react::Reactor,
}

async fn start(server: &TestServer, url: &JournalUrl, dir: &Path) -> Replica {
    let config = EngineConfig {
        server: Some(url.clone()),
        allowed: Allowed {
            exec: false,
            file: true,
        },
        status_every: Duration::from_millis(100),
        ..EngineConfig::new(dir.join("never-made"))
    };
    let engine = Engine::open(&server.client(), config).await.unwrap();
    let (stop, reactor) = (CancellationToken::new(), engine.reactor().clone());
    let task = tokio::spawn(engine.run(stop.clone()));
    Replica { stop, task, reactor }
}

async fn until(mut check: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if check() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never became so");
}

fn pending(replica: &Replica) -> u64 {
    let status = replica.reactor.status();
    let routes = status.rules.values().flat_map(|rule| rule.routes.values());
    routes.map(|route| route.pending).sum()
}

async fn widget(server: &TestServer, name: &str, size: u64) {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size}});
    server.put(&widget).await;
}

/// Name and size of what was delivered, in order, without repetitions.
fn delivered(path: &Path) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut seen = std::collections::BTreeSet::new();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let new = lines.filter(|line| seen.insert(line["id"].as_str().unwrap().to_owned()));
    new.map(|line| {
        let subject = line["subject"].as_str().unwrap().to_owned();
        (subject, line["data"]["after"]["spec"]["size"].as_u64().unwrap())
    })
    .collect()
}

async fn check_take_over(url: &str) {
    let url: JournalUrl = url.parse().unwrap();
    let (server, dir) = (TestServer::start().await, tempfile::tempdir().unwrap());
    for definition in skopos_api::definitions() {
        server.put(&definition).await;
    }
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    let rule = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": "Rule",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"watch": {"group": "example.com", "kind": "Widget"}, "do": [{"sink": "later"}]}});
    server.put(&rule).await;
    let first = start(&server, &url, dir.path()).await;
    until(|| !first.reactor.status().rules.is_empty()).await;
    for n in 0..30 {
        widget(&server, &format!("w{}", n % 3), n).await;
    }
    until(|| pending(&first) == 30).await;
    // The first is not told; it finds out when it writes.
    let second = start(&server, &url, dir.path()).await;
    widget(&server, "w0", 100).await;
    let ended = first.task.await.unwrap();
    assert!(matches!(&ended, Err(StopError::TakenOver(_))), "{ended:?}");
    until(|| pending(&second) == 31).await;
    let path = dir.path().join("out.jsonl");
    let sink = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": "Sink",
        "metadata": {"name": "later", "namespace": "default"}, "spec": {"file": {"path": path}}});
    server.put(&sink).await;
    until(|| delivered(&path).len() == 31).await;
    let found = delivered(&path);
    for name in ["default/w0", "default/w1", "default/w2"] {
        let sizes: Vec<u64> = found
            .iter()
            .filter(|(one, _)| one == name)
            .map(|(_, size)| *size)
            .collect();
        assert!(sizes.is_sorted(), "{name}: {sizes:?}");
    }
    assert!(!dir.path().join("never-made").exists());
    second.stop.cancel();
    second.task.await.unwrap().unwrap();
    let third = start(&server, &url, dir.path()).await;
    until(|| {
        third
            .reactor
            .status()
            .rules
            .values()
            .any(|rule| rule.routes.values().any(|route| route.delivered >= 31))
    })
    .await;
    assert_eq!(pending(&third), 0);
    third.stop.cancel();
    third.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_goes_on_with_what_postgres_keeps() {
    let server = Postgres::start(None).await;
    check_take_over(&format!(
        "postgres://{}:{}@{}/postgres",
        USER.0,
        USER.1,
        server.address()
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_goes_on_with_what_nats_keeps() {
    let server = Nats::start(None).await;
    check_take_over(&format!("nats://{}:{}@{}", USER.0, USER.1, server.address())).await;
}
