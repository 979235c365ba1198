//! Events beside rules, sinks and records.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use skopos_control::EngineConfig;
use skopos_testkit::TestServer;

use support::{Running, all_widgets, put, server, until};

/// The events about a rule.
async fn about(server: &TestServer, rule: &str) -> Vec<Value> {
    let all = server.api("events.k8s.io/v1", "Event", "events");
    let mut list = all.list(&Default::default());
    let mut found = Vec::new();
    while let Some(object) = list.next().await.unwrap() {
        let event = object.to_value();
        if event["regarding"]["name"] == rule {
            found.push(event);
        }
    }
    found
}

async fn first_about(server: &TestServer, rule: &str) -> Value {
    until("an event", async || {
        about(server, rule).await.pop().ok_or(Value::Null)
    })
    .await
}

fn config(dir: &tempfile::TempDir) -> EngineConfig {
    EngineConfig {
        // Often, so that whatever is told at each look is told many times.
        status_every: Duration::from_millis(1),
        ..EngineConfig::new(dir.path().join("data"))
    }
}

async fn put_mistaken(server: &TestServer, name: &str) {
    let mut spec = all_widgets("out");
    spec["when"] = json!("object.spec.size >");
    put(server, "Rule", "default", name, &spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_mistake_gives_one_event() {
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let running = Running::open(&server, config(&dir)).await;
    put_mistaken(&server, "first").await;
    let event = first_about(&server, "first").await;
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["reason"], "Invalid");
    assert_eq!(event["action"], "PutInForce");
    assert_eq!(event["regarding"]["kind"], "Rule");
    assert!(event["note"].as_str().unwrap().contains("when"), "{event:#}");
    put_mistaken(&server, "second").await;
    first_about(&server, "second").await;
    // What was told again meanwhile is written at the end.
    running.stop().await;
    let running = Running::open(&server, config(&dir)).await;
    put_mistaken(&server, "third").await;
    first_about(&server, "third").await;
    running.stop().await;
    let events = about(&server, "first").await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["series"], Value::Null, "{events:#?}");
}
