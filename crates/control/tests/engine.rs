//! Rules and sinks of a cluster, from change to delivery.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use skopos_control::EngineConfig;
use skopos_object::Status;
use skopos_sink::Allowed;
use skopos_testkit::{Added, Fault, Rule, TestServer, definition};

use support::Running;

struct Stage {
    server: TestServer,
    dir: tempfile::TempDir,
    running: Option<Running>,
}

impl Stage {
    /// A server with our kinds and widgets.
    async fn new() -> Self {
        Self {
            server: support::server().await,
            dir: tempfile::tempdir().unwrap(),
            running: None,
        }
    }

    async fn start(&mut self) {
        let config = EngineConfig {
            allowed: Allowed {
                exec: false,
                file: true,
            },
            status_every: Duration::from_millis(100),
            review_every: Duration::from_millis(200),
            ..EngineConfig::new(self.dir.path().join("data"))
        };
        self.running = Some(Running::open(&self.server, config).await);
    }

    async fn stop(&mut self) {
        self.running.take().unwrap().stop().await;
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out.jsonl")
    }

    /// A sink that is a file, and a rule that sends all widgets there.
    async fn sink_and_rule(&self, spec: Value) {
        let file = json!({"file": {"path": self.out()}});
        support::put(&self.server, "Sink", "default", "out", &file).await;
        let mut rule = support::all_widgets("out");
        for (field, value) in spec.as_object().unwrap() {
            rule[field] = value.clone();
        }
        support::put(&self.server, "Rule", "default", "all", &rule).await;
    }

    async fn widget(&self, name: &str, size: u64) {
        support::widget(&self.server, "default", name, size).await;
    }

    async fn delete(&self, name: &str) {
        let widgets = self.server.api("example.com/v1", "Widget", "widgets");
        let api = skopos_client::Api::namespaced(widgets.client(), widgets.resource(), "default");
        api.delete(name, &Default::default()).await.unwrap();
    }

    /// The status of a rule, once it is as it should be.
    async fn status(&self, check: impl Fn(&Value) -> bool) -> Value {
        let rules = self.server.api("skopos.dev/v1alpha1", "Rule", "rules");
        let api = skopos_client::Api::namespaced(rules.client(), rules.resource(), "default");
        let mut last = Value::Null;
        for _ in 0..1000 {
            let rule = api.get("all").await.unwrap();
            last = rule.get("status").cloned().unwrap_or_default();
            if check(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the status never became so: {last:#}");
    }

    /// What was delivered, in short, once there is so much of it, without repetitions.
    async fn delivered(&self, n: usize) -> Vec<String> {
        for _ in 0..1000 {
            let found = self.read();
            if found.len() >= n {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("fewer than {n} deliveries: {:?}", self.read());
    }

    fn read(&self) -> Vec<String> {
        let events = support::delivered(&self.out()).into_iter();
        let short = events.map(|line| {
            let data = &line["data"];
            let size = |side: &str| data[side]["spec"]["size"].clone();
            format!(
                "{} {} {}>{}",
                data["op"].as_str().unwrap(),
                line["subject"].as_str().unwrap(),
                size("before"),
                size("after")
            )
        });
        short.collect()
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let all = status["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}

fn is(status: &Value, kind: &str, expected: &str) -> bool {
    condition(status, kind)["status"] == expected
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_delivers_changes_and_shows_how_it_is_doing() {
    let mut stage = Stage::new().await;
    stage.widget("old", 1).await;
    stage.start().await;
    stage.sink_and_rule(json!({})).await;
    let status = stage
        .status(|status| is(status, "CaptureComplete", "True") && is(status, "Ready", "True"))
        .await;
    assert_eq!(status["observedGeneration"], 1);
    stage.widget("new", 1).await;
    stage.widget("old", 2).await;
    stage.delete("new").await;
    // In order per object; nobody promises one across objects.
    let expected = [
        "created default/new null>1",
        "deleted default/new 1>null",
        "updated default/old 1>2",
    ];
    // What is as old as the rule, to the second, counts as new; so it may be told of.
    let is_told = |line: &String| line == "created default/old null>1";
    let n_told = usize::from(stage.delivered(3).await.iter().any(is_told));
    let mut delivered = stage.delivered(3 + n_told).await;
    delivered.retain(|line| !is_told(line));
    delivered.sort_by_key(|line| line.split(' ').nth(1).map(str::to_owned));
    assert_eq!(delivered, expected);
    let status = stage.status(|status| status["delivered"] == 3 + n_told).await;
    assert_eq!(
        (&status["matched"], &status["pending"]),
        (&json!(3 + n_told), &json!(0))
    );
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_nobody_looks() {
    let mut stage = Stage::new().await;
    stage.start().await;
    stage.sink_and_rule(json!({})).await;
    stage.status(|status| is(status, "CaptureComplete", "True")).await;
    stage.widget("a", 1).await;
    stage.widget("b", 1).await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.widget("a", 2).await;
    stage.delete("b").await;
    stage.widget("c", 1).await;
    stage.server.compact();
    stage.start().await;
    let mut delivered = stage.delivered(5).await.split_off(2);
    delivered.sort();
    let expected = [
        "created default/c null>1",
        "deleted default/b 1>null",
        "updated default/a 1>2",
    ];
    assert_eq!(delivered, expected);
    let status = stage
        .status(|status| condition(status, "CaptureComplete")["reason"] == "HoleBridged")
        .await;
    assert_eq!(condition(&status, "CaptureComplete")["status"], "False");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_with_a_mistake_says_so_and_the_last_good_one_stays() {
    let mut stage = Stage::new().await;
    stage.start().await;
    stage.sink_and_rule(json!({"when": "object.spec.size > 1"})).await;
    stage
        .status(|status| is(status, "Ready", "True") && is(status, "CaptureComplete", "True"))
        .await;
    stage.sink_and_rule(json!({"when": "object.spec.size >"})).await;
    let status = stage.status(|status| is(status, "Ready", "False")).await;
    let message = condition(&status, "Ready")["message"].as_str().unwrap();
    assert!(
        message.contains("spec.when") && message.contains("generation 1 stays in force"),
        "{message}"
    );
    stage.widget("small", 1).await;
    stage.widget("large", 2).await;
    assert_eq!(stage.delivered(1).await, ["created default/large null>2"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_may_name_its_kind_in_any_case() {
    let mut stage = Stage::new().await;
    stage.start().await;
    stage
        .sink_and_rule(json!({"watch": {"group": "example.com", "kind": "WIDGETS"}}))
        .await;
    stage.status(|status| is(status, "CaptureComplete", "True")).await;
    stage.widget("a", 1).await;
    assert_eq!(stage.delivered(1).await, ["created default/a null>1"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kind_and_sink_may_come_later() {
    let mut stage = Stage::new().await;
    stage.start().await;
    let rule = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": "Rule",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"watch": {"group": "example.com", "kind": "gadgets"}, "do": [{"sink": "later"}]}});
    stage.server.put(&rule).await;
    stage
        .status(|status| condition(status, "Ready")["reason"] == "KindNotServed")
        .await;
    stage
        .server
        .put(&definition("example.com", "v1", "Gadget", "gadgets"))
        .await;
    stage
        .status(|status| condition(status, "Ready")["reason"] == "SinkMissing")
        .await;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "default"}, "spec": {"size": 3}});
    stage.server.put(&gadget).await;
    stage.status(|status| status["pending"] == 1).await;
    let sink = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": "Sink",
        "metadata": {"name": "later", "namespace": "default"}, "spec": {"file": {"path": stage.out()}}});
    stage.server.put(&sink).await;
    assert_eq!(stage.delivered(1).await, ["created default/g null>3"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_stands_still_while_nobody_may_ask_what_its_account_may_read() {
    let mut stage = Stage::new().await;
    let refusing = refuse_reviews(&stage);
    stage.start().await;
    stage.sink_and_rule(json!({"serviceAccountName": "reader"})).await;
    let status = stage
        .status(|status| condition(status, "Ready")["reason"] == "ReviewForbidden")
        .await;
    let message = condition(&status, "Ready")["message"].as_str().unwrap();
    assert!(
        message.contains("default/reader") && message.contains("subjectaccessreviews"),
        "{message}"
    );
    assert!(is(&status, "Delivering", "False"), "{status}");
    stage.status(|status| is(status, "CaptureComplete", "True")).await;
    stage.widget("a", 1).await;
    refusing.remove();
    assert_eq!(stage.delivered(1).await, ["created default/a null>1"]);
    stage.status(|status| is(status, "Ready", "True")).await;

    // A right that is taken away again stops the rule, and what was seen of it is kept.
    let refusing = refuse_reviews(&stage);
    stage
        .status(|status| condition(status, "Ready")["reason"] == "ReviewForbidden")
        .await;
    stage.widget("a", 2).await;
    refusing.remove();
    assert_eq!(stage.delivered(2).await[1], "updated default/a 1>2");
    stage.stop().await;
}

/// From now on nobody may ask what an account may do.
fn refuse_reviews(stage: &Stage) -> Added {
    let message = "cannot create resource \"subjectaccessreviews\"";
    let refused = Fault::Answer(Status::forbidden(&Default::default(), "", message));
    let refusing = Rule::write().resource("subjectaccessreviews").then(refused);
    stage.server.faults().add(refusing)
}

/// A sink that patches the object of its template.
async fn patching(stage: &Stage) {
    let sink = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": "Sink",
        "metadata": {"name": "patch", "namespace": "default"}, "spec": {"kubernetes": {"verb": "patch"}}});
    stage.server.put(&sink).await;
}

/// An action that makes the widget of this name larger than the one that changed.
fn enlarge(name: &str) -> Value {
    json!({"do": [{"sink": "patch", "template": {
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"size": "${object.spec.size + 1}"}}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_reacts_to_its_own_writes_is_suspended() {
    let mut stage = Stage::new().await;
    stage.start().await;
    patching(&stage).await;
    stage.sink_and_rule(enlarge("${object.metadata.name}")).await;
    stage.status(|status| is(status, "CaptureComplete", "True")).await;
    stage.widget("a", 1).await;
    let status = stage
        .status(|status| condition(status, "Delivering")["reason"] == "Suspended")
        .await;
    let message = condition(&status, "Delivering")["message"].as_str().unwrap();
    assert!(
        message.contains("reacts to its own writes: 6 of default/a"),
        "{message}"
    );
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_writes_other_objects_goes_on() {
    let mut stage = Stage::new().await;
    stage.start().await;
    patching(&stage).await;
    let mut spec = enlarge("copy");
    spec["when"] = json!("object.metadata.name != 'copy'");
    stage.widget("copy", 0).await;
    stage.sink_and_rule(spec).await;
    stage.status(|status| is(status, "CaptureComplete", "True")).await;
    for size in 1..=20 {
        stage.widget("a", size).await;
    }
    let status = stage.status(|status| status["delivered"] == 20).await;
    assert!(is(&status, "Delivering", "True"), "{status}");
    let widgets = stage.server.api("example.com/v1", "Widget", "widgets");
    let api = skopos_client::Api::namespaced(widgets.client(), widgets.resource(), "default");
    let copy = api.get("copy").await.unwrap();
    assert_eq!(copy["spec"]["size"], 21);
    assert!(
        copy["metadata"]["annotations"]["rule.skopos.dev/default.all"].is_string(),
        "{copy}"
    );
    stage.stop().await;
}

impl Stage {
    async fn record(&self, name: &str, namespace: &str, spec: Value) {
        let record = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": "Record",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        self.server.put(&record).await;
    }

    /// The status of a record, once it is as it should be.
    async fn record_status(&self, namespace: &str, name: &str, check: impl Fn(&Value) -> bool) -> Value {
        let records = self.server.api("skopos.dev/v1alpha1", "Record", "records");
        let api = skopos_client::Api::namespaced(records.client(), records.resource(), namespace);
        let mut last = Value::Null;
        for _ in 0..1000 {
            let record = api.get(name).await.unwrap();
            last = record.get("status").cloned().unwrap_or_default();
            if check(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the status never became so: {last:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_keeps_what_it_selects_and_waits_for_what_is_not_served() {
    let mut stage = Stage::new().await;
    stage.start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "skopos-system"}});
    stage.server.put(&namespace).await;
    stage.widget("plain", 1).await;
    let spec = |kind: &str| {
        json!({"watch": [{"group": "example.com", "kind": kind,
        "namespaces": ["default"], "selector": {"matchLabels": {"tier": "gold"}}}]})
    };
    stage.record("gold", "skopos-system", spec("Widget")).await;
    stage.record("later", "skopos-system", spec("Gadget")).await;
    let is_ready = |status: &Value| is(status, "Ready", "True") && is(status, "CaptureComplete", "True");
    stage.record_status("skopos-system", "gold", is_ready).await;
    let labelled = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "gold", "namespace": "default", "labels": {"tier": "gold"}}, "spec": {"size": 1}});
    stage.server.put(&labelled).await;
    let status = stage
        .record_status("skopos-system", "gold", |status| status["changes"] == 1)
        .await;
    assert_eq!(status["objects"], 1, "{status:#}");
    let status = stage
        .record_status("skopos-system", "later", |status| is(status, "Ready", "False"))
        .await;
    assert_eq!(
        condition(&status, "Ready")["reason"],
        "KindNotServed",
        "{status:#}"
    );
    // A second one of the kind asks for the rest.
    stage
        .record(
            "own",
            "default",
            json!({"watch": [{"group": "example.com", "kind": "widgets"}]}),
        )
        .await;
    stage
        .record_status("default", "own", |status| status["objects"] == 2)
        .await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_asks_for_what_it_may_not_have_says_so() {
    let mut stage = Stage::new().await;
    stage.start().await;
    let cases = [
        (
            json!([{"group": "example.com", "kind": "Widget", "namespaces": ["kube-system"]}]),
            "sees only that one",
        ),
        (
            json!([{"group": "example.com", "kind": "Widget", "version": "v7"}]),
            "captured in version v1",
        ),
        (
            json!([{"group": "example.com", "kind": "Widget",
                "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
            "spec.watch[0].selector",
        ),
    ];
    for (index, (watch, expected)) in cases.into_iter().enumerate() {
        let name = format!("bad-{index}");
        stage.record(&name, "default", json!({"watch": watch})).await;
        let status = stage
            .record_status("default", &name, |status| is(status, "Ready", "False"))
            .await;
        let ready = condition(&status, "Ready");
        assert_eq!(ready["reason"], "Invalid", "{status:#}");
        assert!(ready["message"].as_str().unwrap().contains(expected), "{ready:#}");
    }
    stage.stop().await;
}
