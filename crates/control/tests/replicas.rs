//! A replica takes over from another what a server keeps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::{path::Path, time::Duration};

use serde_json::json;
use skopos_control::{Engine, EngineConfig, StopError};
use skopos_journal::{Capture, Phase};
use skopos_remote::{BlocksError, JournalUrl};
use skopos_sink::Allowed;
use skopos_testkit::{
    TestServer,
    parts::{Nats, Postgres, USER},
};

use support::{Running, all_widgets, put, widget};

struct Replica {
    running: Running,
    capture: Capture,
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
    Replica {
        capture: engine.capture().clone(),
        reactor: engine.reactor().clone(),
        running: Running::start(engine),
    }
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

/// How a replica ended; it holds nothing any more.
async fn end_of(replica: Replica) -> Result<(), StopError> {
    replica.running.task.await.unwrap()
}

async fn until_watching(replica: &Replica) {
    until(|| {
        let captures = replica.capture.status();
        let is_watching = captures.iter().any(|one| one.phase == Phase::Watching);
        is_watching && !replica.reactor.status().rules.is_empty()
    })
    .await;
}

fn pending(replica: &Replica) -> u64 {
    let status = replica.reactor.status();
    let routes = status.rules.values().flat_map(|rule| rule.routes.values());
    routes.map(|route| route.pending).sum()
}

/// Name and size of what was delivered, in order, without repetitions.
fn delivered(path: &Path) -> Vec<(String, u64)> {
    let events = support::delivered(path).into_iter();
    let short = events.map(|line| {
        let subject = line["subject"].as_str().unwrap().to_owned();
        (subject, line["data"]["after"]["spec"]["size"].as_u64().unwrap())
    });
    short.collect()
}

async fn check_take_over(url: &str) {
    let url: JournalUrl = url.parse().unwrap();
    let (server, dir) = (support::server().await, tempfile::tempdir().unwrap());
    put(&server, "Rule", "default", "all", &all_widgets("later")).await;
    let first = start(&server, &url, dir.path()).await;
    // What is written before that is found by a list, which tells only how it ended.
    until_watching(&first).await;
    for n in 0..30 {
        widget(&server, "default", &format!("w{}", n % 3), n).await;
    }
    until(|| pending(&first) == 30).await;
    // The first is not told; it finds out when it writes.
    let second = start(&server, &url, dir.path()).await;
    widget(&server, "default", "w0", 100).await;
    let ended = end_of(first).await;
    assert!(matches!(&ended, Err(StopError::Lost(_))), "{ended:?}");
    until(|| pending(&second) == 31).await;
    let path = dir.path().join("out.jsonl");
    put(
        &server,
        "Sink",
        "default",
        "later",
        &json!({"file": {"path": path}}),
    )
    .await;
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
    second.running.stop().await;
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
    third.running.stop().await;
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

/// Nobody waits for the standby here, so a failover loses what it does not have: journal and deliveries go back. The
/// source still knows what happened since, and the ids are made from what it says.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_went_back_in_a_failover_is_noticed_and_catches_up() {
    let mut primary = Postgres::start(None).await;
    let mut standby = primary.start_standby().await;
    let url: JournalUrl = format!(
        "postgres://{}:{}@{},{}/postgres",
        USER.0,
        USER.1,
        primary.address(),
        standby.address()
    )
    .parse()
    .unwrap();
    let (server, dir) = (support::server().await, tempfile::tempdir().unwrap());
    let path = dir.path().join("out.jsonl");
    put(&server, "Rule", "default", "all", &all_widgets("out")).await;
    put(
        &server,
        "Sink",
        "default",
        "out",
        &json!({"file": {"path": path}}),
    )
    .await;
    let first = start(&server, &url, dir.path()).await;
    until_watching(&first).await;
    widget(&server, "default", "w", 0).await;
    until(|| delivered(&path).len() == 1).await;
    standby.catch_up_with(&primary).await;
    standby.stop().await;
    for n in 1..=5 {
        widget(&server, "default", "w", n).await;
    }
    until(|| delivered(&path).len() == 6).await;
    primary.kill().await;
    standby.start_again().await;
    standby.promote().await;
    widget(&server, "default", "w", 6).await;
    let ended = end_of(first).await;
    assert!(
        matches!(&ended, Err(StopError::Lost(BlocksError::WentBack(_)))),
        "{ended:?}"
    );
    let second = start(&server, &url, dir.path()).await;
    until(|| delivered(&path).len() == 7).await;
    let sizes: Vec<u64> = delivered(&path).into_iter().map(|(_, size)| size).collect();
    assert_eq!(sizes, [0, 1, 2, 3, 4, 5, 6]);
    second.running.stop().await;
}
