//! Kinds whose definition goes: their objects are gone with it, and whoever watched them is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::Api;
use skopos_control::EngineConfig;
use skopos_sink::Allowed;
use skopos_testkit::{TestServer, definition};

use support::Running;

/// A server with widgets, which have a short name, a record of them and a rule that sends them to a file.
struct Stage {
    server: TestServer,
    dir: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let server = support::server().await;
        let mut widgets = definition("example.com", "v1", "Widget", "widgets");
        widgets["spec"]["names"]["shortNames"] = json!(["wd"]);
        server.put(&widgets).await;
        let stage = Self {
            server,
            dir: tempfile::tempdir().unwrap(),
        };
        let file = json!({"file": {"path": stage.dir.path().join("out.jsonl")}});
        support::put(&stage.server, "Sink", "default", "out", &file).await;
        let record = json!({"watch": [{"group": "example.com", "kind": "wd"}]});
        support::put(&stage.server, "Record", "default", "all", &record).await;
        stage.rule(false).await;
        stage
    }

    async fn rule(&self, is_suspended: bool) {
        let mut rule = support::all_widgets("out");
        rule["watch"]["kind"] = json!("wd");
        rule["suspend"] = json!(is_suspended);
        support::put(&self.server, "Rule", "default", "all", &rule).await;
    }

    async fn start(&self) -> Running {
        self.start_in(&[]).await
    }

    async fn start_in(&self, namespaces: &[&str]) -> Running {
        let config = EngineConfig {
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            allowed: Allowed {
                exec: false,
                file: true,
            },
            status_every: Duration::from_millis(100),
            ..EngineConfig::new(self.dir.path().join("data"))
        };
        Running::open(&self.server, config).await
    }

    async fn widget(&self, name: &str) {
        support::widget(&self.server, "default", name, 1).await;
    }

    async fn delete_definition(&self) {
        let kind = "CustomResourceDefinition";
        let api = self
            .server
            .api("apiextensions.k8s.io/v1", kind, "customresourcedefinitions");
        api.delete("widgets.example.com", &Default::default())
            .await
            .unwrap();
        support::until("the definition is gone", async || {
            let found = api.find("widgets.example.com").await.unwrap();
            found.map_or(Ok(()), Err)
        })
        .await;
    }

    /// Waits until the rule or record says this.
    async fn says(&self, kind: &str, plural: &str, check: impl Fn(&Value) -> bool) {
        let all = self.server.api("skopos.dev/v1alpha1", kind, plural);
        let api = Api::namespaced(all.client(), all.resource(), "default");
        support::until("the status is so", async || {
            let status = api.get("all").await.unwrap()["status"].clone();
            check(&status).then_some(()).ok_or(status)
        })
        .await;
    }

    /// What was delivered, once it is so much.
    async fn delivered(&self, n: usize) -> Vec<String> {
        let path = self.dir.path().join("out.jsonl");
        let mut delivered = support::until("so much is delivered", async || {
            let short = |line: &Value| format!("{} {}", line["data"]["op"], line["subject"]).replace('"', "");
            let lines: Vec<String> = support::delivered(&path).iter().map(short).collect();
            match lines.len() >= n {
                true => Ok(lines),
                false => Err(json!(lines)),
            }
        })
        .await;
        delivered.sort();
        delivered
    }
}

fn is_not_served(status: &Value) -> bool {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == "Ready" && one["reason"] == "KindNotServed")
}

fn is_complete(status: &Value) -> bool {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == "CaptureComplete" && one["status"] == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_whose_definition_goes_while_nobody_looks_are_told_to_be_deleted() {
    let stage = Stage::new().await;
    let running = stage.start().await;
    stage.says("Rule", "rules", is_complete).await;
    stage.widget("a").await;
    stage.delivered(1).await;
    running.stop().await;
    stage.delete_definition().await;
    let running = stage.start().await;
    assert_eq!(
        stage.delivered(2).await,
        ["created default/a", "deleted default/a"]
    );
    stage.says("Rule", "rules", is_not_served).await;
    stage
        .says("Record", "records", |status| {
            is_not_served(status) && status["objects"] == 0
        })
        .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_rule_by_short_name_is_told_what_it_missed_of_a_kind_that_went() {
    let stage = Stage::new().await;
    let running = stage.start().await;
    stage.says("Rule", "rules", is_complete).await;
    stage.rule(true).await;
    stage
        .says("Rule", "rules", |status| status["observedGeneration"] == 2)
        .await;
    stage.widget("a").await;
    stage
        .says("Record", "records", |status| status["objects"] == 1)
        .await;
    running.stop().await;
    stage.delete_definition().await;
    let running = stage.start().await;
    stage.says("Rule", "rules", is_not_served).await;
    stage.rule(false).await;
    assert_eq!(
        stage.delivered(2).await,
        ["created default/a", "deleted default/a"]
    );
    running.stop().await;
}

/// In namespaces nobody watches definitions: only what is captured notices that its kind is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_goes_is_told_where_only_namespaces_are_watched() {
    let stage = Stage::new().await;
    let running = stage.start_in(&["default"]).await;
    stage.says("Rule", "rules", is_complete).await;
    stage.widget("a").await;
    stage.delivered(1).await;
    stage.delete_definition().await;
    assert_eq!(
        stage.delivered(2).await,
        ["created default/a", "deleted default/a"]
    );
    stage.says("Rule", "rules", is_not_served).await;
    running.stop().await;
}
