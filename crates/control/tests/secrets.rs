//! The values of Secrets that are watched stay where they are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;

use serde_json::{Value, json};
use skopos_control::EngineConfig;
use skopos_journal::{Journal, JournalConfig, Log as _, Seq, Wanted};
use skopos_sink::Allowed;
use skopos_testkit::TestServer;

use support::{Running, delivered, put, server, until};

async fn put_secret(server: &TestServer, name: &str, value: &str) {
    let last_applied = json!({"stringData": {"password": value}}).to_string();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        // Where nothing but the value differs nothing visible has changed, and rules are told nothing.
        "metadata": {"name": name, "namespace": "default", "labels": {"length": value.len().to_string()},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last_applied}},
        "stringData": {"password": value}});
    server.put(&secret).await;
}

/// The files below a directory whose bytes contain a text.
fn with_text(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(with_text(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// All that a journal has of objects: on disk it is compressed.
async fn history(dir: &Path) -> String {
    let journal = Journal::open(JournalConfig::new(dir)).unwrap();
    let (entries, _) = journal.read(Seq(0), &Wanted::default(), 1000).await.unwrap();
    let objects = entries.iter().flat_map(|entry| [&entry.before, &entry.after]);
    let text = objects.flatten().map(|object| object.to_value().to_string());
    let text = text.collect();
    journal.close().await;
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_secrets_are_written_nowhere() {
    // As it was written, and as the server has it.
    const LISTED: (&str, &str) = ("hunter2-kq9", "aHVudGVyMi1rcTk=");
    const WATCHED: (&str, &str) = ("tr0ub4dor-zx", "dHIwdWI0ZG9yLXp4");
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    put_secret(&server, "old", LISTED.0).await;
    let config = EngineConfig {
        allowed: Allowed {
            exec: false,
            file: true,
        },
        ..EngineConfig::new(dir.path().join("data"))
    };
    let running = Running::open(&server, config).await;
    put(&server, "Sink", "default", "out", &json!({"file": {"path": out}})).await;
    let rule = json!({"watch": {"kind": "Secret"}, "existing": "emit", "do": [{"sink": "out"}]});
    put(&server, "Rule", "default", "all", &rule).await;
    let until_told = async |n: usize| {
        until("delivered", async || {
            let events = delivered(&out);
            match events.len() >= n {
                true => Ok(()),
                false => Err(Value::from(events)),
            }
        })
        .await;
    };
    until_told(1).await;
    put_secret(&server, "new", WATCHED.0).await;
    put_secret(&server, "old", WATCHED.0).await;
    until_told(3).await;
    running.stop().await;
    let text = std::fs::read_to_string(&out).unwrap();
    let kept = history(&dir.path().join("data/journal")).await;
    for text in [&text, &kept] {
        assert!(text.contains("old") && text.contains("new"), "{text}");
    }
    for value in [LISTED.0, LISTED.1, WATCHED.0, WATCHED.1] {
        assert_eq!(with_text(dir.path(), value), [""; 0], "{value}");
        assert!(!kept.contains(value), "{value} in {kept}");
    }
}
