//! A server, an engine that works on it, and what people look at.

use std::{path::PathBuf, time::Duration};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skopos_client::Api;
use skopos_control::{Admin, Engine, EngineConfig};
use skopos_object::yaml;
use skopos_sink::Allowed;
use skopos_testkit::TestServer;

use crate::support::{self, Running, until};

pub(crate) struct Stage {
    pub(crate) server: TestServer,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) admin: Admin,
    pub(crate) metrics: Registry,
    pub(crate) running: Running,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// An engine that also reads this from a file.
    pub(crate) async fn start_with(file: &str) -> Self {
        let server = support::server().await;
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("rules.yaml");
        std::fs::write(&rules, file).unwrap();
        let config = EngineConfig {
            allowed: Allowed {
                exec: true,
                file: true,
            },
            files: vec![rules],
            search_path: std::env::var_os("PATH"),
            status_every: Duration::from_millis(100),
            ..EngineConfig::new(dir.path().join("data"))
        };
        let engine = Engine::open(&server.client(), config).await.unwrap();
        let mut metrics = Registry::default();
        engine.register(&mut metrics);
        Self {
            server,
            dir,
            admin: engine.admin(),
            metrics,
            running: Running::start(engine),
        }
    }

    pub(crate) async fn stop(self) {
        self.running.stop().await;
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("out.jsonl")
    }

    pub(crate) async fn put(&self, kind: &str, name: &str, spec: &str) {
        let spec = yaml::decode(spec.as_bytes()).unwrap().value;
        self.put_value(kind, name, &spec).await;
    }

    /// Creates or replaces one of our objects.
    pub(crate) async fn put_value(&self, kind: &str, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        self.server.put(&object).await;
    }

    pub(crate) fn api(&self, kind: &str) -> Api {
        let plural = format!("{}s", kind.to_lowercase());
        let all = self.server.api("skopos.dev/v1alpha1", kind, &plural);
        Api::namespaced(all.client(), all.resource(), "default")
    }

    /// A sink that is a file.
    pub(crate) async fn file(&self, name: &str) {
        let spec = json!({"file": {"path": self.out()}});
        self.put_value("Sink", name, &spec).await;
    }

    /// A rule about all widgets, with more in its specification, once it watches.
    pub(crate) async fn rule(&self, name: &str, more: &str) {
        let spec = format!("watch: {{group: example.com, kind: Widget}}\n{more}");
        self.put("Rule", name, &spec).await;
        self.status("Rule", name, |status| {
            is(status, "CaptureComplete", "True") && is(status, "Ready", "True")
        })
        .await;
    }

    pub(crate) async fn widget(&self, name: &str, size: u64) {
        support::widget(&self.server, "default", name, size).await;
    }

    /// The status of one of our objects, once it is of its newest generation and as it should be.
    pub(crate) async fn status(&self, kind: &str, name: &str, check: impl Fn(&Value) -> bool) -> Value {
        let api = self.api(kind);
        until("so", async || {
            let object = api.get(name).await.unwrap();
            let status = object.get("status").cloned().unwrap_or_default();
            let is_new = status["observedGeneration"] == object["metadata"]["generation"];
            match is_new && check(&status) {
                true => Ok(status),
                false => Err(status),
            }
        })
        .await
    }

    /// What a file got, once there is so much of it.
    pub(crate) async fn delivered(&self, n: usize) -> Vec<Value> {
        let out = self.out();
        until("delivered", async || {
            let found = support::delivered(&out);
            match found.len() >= n {
                true => Ok(found),
                false => Err(found.into()),
            }
        })
        .await
    }
}

pub(crate) fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let all = status["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}

pub(crate) fn is(status: &Value, kind: &str, expected: &str) -> bool {
    condition(status, kind)["status"] == expected
}

pub(crate) fn reason(status: &Value, kind: &str) -> String {
    condition(status, kind)["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn message(status: &Value, kind: &str) -> String {
    condition(status, kind)["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
