//! What tests of the engine share: a server with widgets, an engine that runs, and what a file got.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};
use skopos_control::{Engine, EngineConfig, StopError};
use skopos_testkit::{TestServer, definition};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A server with our kinds and widgets.
pub(crate) async fn server() -> TestServer {
    let server = TestServer::start().await;
    for definition in skopos_api::definitions() {
        server.put(&definition).await;
    }
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    server
}

/// An object of ours.
pub(crate) async fn put(server: &TestServer, kind: &str, namespace: &str, name: &str, spec: &Value) {
    let object = json!({"apiVersion": "skopos.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    server.put(&object).await;
}

/// The specification of a rule that sends all widgets to a sink.
pub(crate) fn all_widgets(sink: &str) -> Value {
    json!({"watch": {"group": "example.com", "kind": "Widget"}, "do": [{"sink": sink}]})
}

pub(crate) async fn widget(server: &TestServer, namespace: &str, name: &str, size: u64) {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"size": size}});
    server.put(&widget).await;
}

/// An engine at work.
pub(crate) struct Running {
    stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), StopError>>,
}

impl Running {
    pub(crate) fn start(engine: Engine) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(engine.run(stop.clone()));
        Self { stop, task }
    }

    /// Opens an engine and lets it work.
    pub(crate) async fn open(server: &TestServer, config: EngineConfig) -> Self {
        Self::start(Engine::open(&server.client(), config).await.unwrap())
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// The events that a file got, in order, without repetitions.
pub(crate) fn delivered(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| seen.insert(line["id"].as_str().unwrap().to_owned()))
        .collect()
}

/// Waits until something is there.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, Value>) -> T {
    let mut last = Value::Null;
    for _ in 0..2000 {
        match look().await {
            Ok(found) => return found,
            Err(instead) => last = instead,
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never {what}: {last:#}");
}
