//! An engine that looks at some namespaces only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use skopos_client::Api;
use skopos_control::{Engine, EngineConfig, EngineError};
use skopos_sink::Allowed;
use skopos_testkit::TestServer;

use support::{Running, all_widgets, delivered, put, server, until, widget};

fn config(dir: &Path, namespaces: &[&str]) -> EngineConfig {
    EngineConfig {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        allowed: Allowed {
            exec: false,
            file: true,
        },
        status_every: Duration::from_millis(100),
        ..EngineConfig::new(dir.join("data"))
    }
}

/// The conditions of a rule, once it is as it should be.
async fn status(server: &TestServer, namespace: &str, name: &str, check: impl Fn(&Value) -> bool) -> Value {
    let rules = server.api("skopos.dev/v1alpha1", "Rule", "rules");
    let api = Api::namespaced(rules.client(), rules.resource(), namespace);
    until("so", async || {
        let status = api.get(name).await.unwrap()["status"].clone();
        match check(&status) {
            true => Ok(status),
            false => Err(status),
        }
    })
    .await
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let all = status["conditions"].as_array().into_iter().flatten();
    all.into_iter()
        .find(|one| one["type"] == kind)
        .unwrap_or(&Value::Null)
}

fn is_complete(status: &Value) -> bool {
    condition(status, "CaptureComplete")["status"] == "True"
}

/// A sink in a namespace: a file of its own.
async fn put_sink(server: &TestServer, namespace: &str, dir: &Path) {
    let path = dir.join(format!("{namespace}.jsonl"));
    put(server, "Sink", namespace, "out", &json!({"file": {"path": path}})).await;
}

/// Which widgets the files of some namespaces were told of, in which size; sorted, since namespaces are watched one
/// beside the other.
async fn told(dir: &Path, namespaces: &[&str], n: usize) -> Vec<String> {
    until("delivered", async || {
        let files = namespaces.iter().map(|one| dir.join(format!("{one}.jsonl")));
        let events: Vec<Value> = files.flat_map(|path| delivered(&path)).collect();
        let event = |one: &Value| {
            let size = &one["data"]["after"]["spec"]["size"];
            format!("{} {size}", one["subject"].as_str().unwrap())
        };
        let mut events: Vec<String> = events.iter().map(event).collect();
        events.sort();
        match events.len() >= n {
            true => Ok(events),
            false => Err(json!(events)),
        }
    })
    .await
}

const ALL: [&str; 3] = ["a", "b", "c"];

#[tokio::test(flavor = "multi_thread")]
async fn only_their_rules_count_and_only_their_objects_are_seen() {
    let (server, dir) = (server().await, tempfile::tempdir().unwrap());
    for namespace in ALL {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.put(&object).await;
        put_sink(&server, namespace, dir.path()).await;
        put(&server, "Rule", namespace, "all", &all_widgets("out")).await;
    }
    let running = Running::open(&server, config(dir.path(), &["a", "b"])).await;
    for namespace in ["a", "b"] {
        status(&server, namespace, "all", is_complete).await;
    }
    for namespace in ["c", "a", "b"] {
        widget(&server, namespace, "w", 1).await;
    }
    assert_eq!(told(dir.path(), &ALL, 2).await, ["a/w 1", "b/w 1"]);
    running.stop().await;

    // Each namespace is gone on with where it was.
    for namespace in ["c", "a", "b"] {
        widget(&server, namespace, "w", 2).await;
    }
    let running = Running::open(&server, config(dir.path(), &["a", "b", "c"])).await;
    status(&server, "c", "all", is_complete).await;
    widget(&server, "c", "w", 3).await;
    // What the last had before is found by its first list; whether its rule, which is older, is told of it depends on
    // which of both is sooner.
    let expected = ["a/w 1", "a/w 2", "b/w 1", "b/w 2", "c/w 3"];
    let is_told = |lines: &[String]| lines.iter().any(|line| line == "c/w 2");
    let n_told = usize::from(is_told(&told(dir.path(), &ALL, 5).await));
    let mut found = told(dir.path(), &ALL, 5 + n_told).await;
    found.retain(|line| line != "c/w 2");
    assert_eq!(found, expected);
    running.stop().await;
    let refused = Engine::open(&server.client(), config(dir.path(), &[])).await;
    assert!(
        matches!(
            refused,
            Err(EngineError::OtherNamespaces {
                kept: "some",
                wanted: "all"
            })
        ),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_seen_is_said() {
    let (server, dir) = (server().await, tempfile::tempdir().unwrap());
    // In the namespace that may look everywhere.
    let system = "skopos-system";
    for namespace in [system, "a"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.put(&object).await;
    }
    put_sink(&server, system, dir.path()).await;
    let spaces = json!({"watch": {"kind": "Namespace"}, "do": [{"sink": "out"}]});
    put(&server, "Rule", system, "spaces", &spaces).await;
    let mut elsewhere = all_widgets("out");
    elsewhere["watch"]["namespaces"] = json!(["a", "z"]);
    put(&server, "Rule", system, "elsewhere", &elsewhere).await;
    let running = Running::open(&server, config(dir.path(), &[system, "a"])).await;
    let is_refused = |status: &Value| condition(status, "Ready")["reason"] == "Invalid";
    let found = status(&server, system, "spaces", is_refused).await;
    assert_eq!(
        condition(&found, "Ready")["message"],
        "spec.watch: namespaces are in no namespace, and only namespaces are looked at here (skopos-system, a)"
    );
    assert_eq!(condition(&found, "CaptureComplete")["reason"], "NotCaptured");
    let is_half = |status: &Value| is_refused(status) && is_complete(status);
    let found = status(&server, system, "elsewhere", is_half).await;
    let message = condition(&found, "Ready")["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.watch: z is not looked at here, only skopos-system, a"),
        "{message}"
    );
    // What can be seen is told all the same.
    widget(&server, "a", "w", 1).await;
    assert_eq!(told(dir.path(), &[system], 1).await, ["a/w 1"]);
    running.stop().await;
}
