//! What the fields that decide about deliveries do.

use std::time::Duration;

use serde_json::json;
use skopos_control::{ResumeRule, Status};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::Instant,
};

use crate::stage::{Stage, is, message, reason};

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_one_object_wait_for_each_other() {
    let stage = Stage::start().await;
    let dir = stage.dir.path().display();
    // A second one that runs meanwhile finds the directory there.
    let script = "mkdir busy || touch overlap; sleep 0.05; rmdir busy; echo x >> runs";
    let sink = format!("exec: {{command: [sh, -c, '{script}'], dir: {dir}}}\ndelivery: {{orderBy: none}}");
    stage.put("Sink", "script", &sink).await;
    stage.rule("all", "do: [{sink: script}]").await;
    for size in 1..=6 {
        stage.widget("a", size).await;
    }
    stage
        .status("Rule", "all", |status| status["delivered"] == 6)
        .await;
    assert!(!stage.dir.path().join("overlap").exists());
    let runs = std::fs::read_to_string(stage.dir.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 6);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_one_object_run_at_once_if_allowed() {
    let stage = Stage::start().await;
    let dir = stage.dir.path().display();
    // Each ends only when two have begun.
    let script = "touch run.$$; until [ $(ls | grep -c run) -ge 2 ]; do sleep 0.02; done";
    let sink = format!(
        "exec: {{command: [sh, -c, '{script}'], dir: {dir}, concurrencyPolicy: Allow}}\ndelivery: {{concurrency: 2}}"
    );
    stage.put("Sink", "script", &sink).await;
    stage.rule("all", "do: [{sink: script}]").await;
    stage.widget("a", 1).await;
    stage.widget("a", 2).await;
    let status = stage
        .status("Rule", "all", |status| status["delivered"] == 2)
        .await;
    assert_eq!(status.get("lastError"), None, "{status:#}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_matches_everything_is_held_by_its_limits_and_loses_nothing() {
    let stage = Stage::start().await;
    stage.file("out").await;
    let limited = |limits: &str| format!("limits: {limits}\ndo: [{{sink: out}}]");
    stage
        .rule("all", &limited("{maxActionsPerMinute: 3, onExceed: suspend}"))
        .await;
    for n in 0..8 {
        stage.widget(&format!("w{n}"), 1).await;
    }
    let status = stage
        .status("Rule", "all", |status| {
            reason(status, "Delivering") == "Suspended"
        })
        .await;
    assert!(
        message(&status, "Delivering").contains("more than 3 matches in a minute"),
        "{status:#}"
    );
    // What is too much for a minute waits, with `delay`; it does not suspend.
    stage
        .put(
            "Rule",
            "all",
            &format!(
                "watch: {{group: example.com, kind: Widget}}\n{}",
                limited("{maxActionsPerMinute: 2, onExceed: delay}")
            ),
        )
        .await;
    stage
        .status("Rule", "all", |status| is(status, "Ready", "True"))
        .await;
    let resumed = stage.admin.ask(&ResumeRule { rule: "all".into() }).await.unwrap();
    assert_eq!(resumed.rule, "default/all");
    assert_eq!(
        resumed.suspended.as_deref(),
        Some("more than 3 matches in a minute")
    );
    stage.delivered(5).await;
    let again = stage.admin.ask(&ResumeRule { rule: "all".into() }).await.unwrap();
    assert_eq!(again.suspended, None, "it was not suspended");
    stage.rule("all", &limited("{maxActionsPerMinute: 1000}")).await;
    let mut subjects: Vec<String> = stage
        .delivered(8)
        .await
        .iter()
        .map(|one| one["subject"].as_str().unwrap().to_owned())
        .collect();
    subjects.sort();
    let all: Vec<String> = (0..8).map(|n| format!("default/w{n}")).collect();
    assert_eq!(subjects, all);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_told_again_whenever_a_rule_that_reconciles_changes() {
    let stage = Stage::start().await;
    stage.widget("old", 1).await;
    stage.file("out").await;
    stage.rule("all", "existing: reconcile\ndo: [{sink: out}]").await;
    let first = stage.delivered(1).await;
    assert_eq!(
        (&first[0]["subject"], &first[0]["type"]),
        (&json!("default/old"), &json!("dev.skopos.created"))
    );
    stage
        .rule("all", "existing: reconcile\ndo: [{sink: out, payload: ref}]")
        .await;
    let second = stage.delivered(2).await;
    assert_eq!(second[1]["subject"], "default/old");
    assert!(
        second[1]["id"]
            .as_str()
            .unwrap()
            .ends_with(".reconcile-2/default.all"),
        "{second:?}"
    );
    stage.stop().await;
}

/// An endpoint that never answers the first request, and all others at once.
async fn endpoint() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut unanswered = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            if unanswered.is_empty() {
                unanswered.push(stream);
                continue;
            }
            tokio::spawn(async move {
                let mut buffer = [0; 65536];
                while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn without_order_the_next_event_of_an_object_need_not_wait() {
    let stage = Stage::start().await;
    let address = endpoint().await;
    let sink = format!("webhook: {{url: 'http://{address}/'}}\ndelivery: {{orderBy: none, timeout: 10m}}");
    stage.put("Sink", "hook", &sink).await;
    stage.rule("all", "do: [{sink: hook}]").await;
    stage.widget("a", 1).await;
    stage.widget("a", 2).await;
    let status = stage
        .status("Rule", "all", |status| status["delivered"] == 1)
        .await;
    assert_eq!((&status["matched"], &status["pending"]), (&json!(2), &json!(1)));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_tried_so_often_is_given_up() {
    let stage = Stage::start().await;
    // Nobody listens on port 1.
    let sink = "webhook: {url: 'http://127.0.0.1:1/'}\n\
                delivery: {maxAttempts: 2, backoff: {initial: 1ms, max: 2ms}}";
    stage.put("Sink", "hook", sink).await;
    stage.rule("all", "do: [{sink: hook}]").await;
    stage.widget("a", 1).await;
    let status = stage
        .status("Rule", "all", |status| status["deadLettered"] == 1)
        .await;
    assert_eq!((&status["delivered"], &status["pending"]), (&json!(0), &json!(0)));
    let sinks = stage.admin.ask(&Status {}).await.unwrap().sinks;
    assert_eq!(sinks[0].failed_attempts, 2);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_events_a_second_than_the_sink_takes() {
    let stage = Stage::start().await;
    let sink = json!({"file": {"path": stage.out()}, "delivery": {"maxPerSecond": 2}});
    stage.put_value("Sink", "out", &sink).await;
    stage.rule("all", "do: [{sink: out}]").await;
    let began = Instant::now();
    for n in 0..5 {
        stage.widget(&format!("w{n}"), 1).await;
    }
    stage.delivered(5).await;
    // Two at once at most, and then two a second; how much longer it takes nobody promises.
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    stage.stop().await;
}
