//! A server with the kind `App` and a manager that runs one controller.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use skopos_client::{Api, Client, DeleteParams, Patch, Resource, WriteParams};
use skopos_controller::{Action, Context, Controller, ControllerQueue, Failure, Manager, ManagerConfig};
use skopos_informer::Informers;
use skopos_object::{GroupVersionKind, Object};
use skopos_testkit::{TestServer, definition, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Stage {
    pub(crate) server: TestServer,
    pub(crate) config: ManagerConfig,
}

/// A manager at work.
pub(crate) struct Running {
    pub(crate) queue: ControllerQueue,
    pub(crate) registry: prometheus_client::registry::Registry,
    pub(crate) informers: Informers,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

/// Lines that reconciles write down, in their order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.all().iter().filter(|other| *other == line).count()
    }

    pub(crate) async fn until(&self, expect: &[&str]) {
        eventually(async || {
            let all = self.all();
            if all == expect {
                Ok(())
            } else {
                Err(format!("{all:?} instead of {expect:?}"))
            }
        })
        .await;
    }

    /// Waits for the first line.
    pub(crate) async fn until_some(&self) {
        eventually(async || match self.all().is_empty() {
            true => Err("nothing yet"),
            false => Ok(()),
        })
        .await;
    }

    pub(crate) async fn until_count(&self, line: &str, n: usize) {
        eventually(async || {
            let count = self.count(line);
            if count >= n {
                Ok(())
            } else {
                Err(format!("{line} {count} times: {:?}", self.all()))
            }
        })
        .await;
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let server = TestServer::start().await;
        server.put(&definition("x.io", "v1", "App", "apps")).await;
        Self {
            server,
            config: ManagerConfig::new("x.io/apps"),
        }
    }

    pub(crate) fn run(&self, controller: Controller) -> Running {
        self.run_with(self.config.clone(), controller)
    }

    pub(crate) fn run_with(&self, config: ManagerConfig, controller: Controller) -> Running {
        self.run_on(&self.server.client(), config, controller)
    }

    pub(crate) fn run_on(&self, client: &Client, config: ManagerConfig, controller: Controller) -> Running {
        let mut manager = Manager::new(client, config).unwrap();
        let queue = manager.add(controller);
        let mut registry = prometheus_client::registry::Registry::default();
        manager.register(&mut registry);
        let informers = manager.informers().clone();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(manager.run(shutdown.clone()));
        Running {
            queue,
            registry,
            informers,
            shutdown,
            task,
        }
    }

    pub(crate) fn apps(&self) -> Api {
        self.api("x.io", "App", "apps")
    }

    pub(crate) fn maps(&self) -> Api {
        self.api("", "ConfigMap", "configmaps")
    }

    pub(crate) fn leases(&self) -> Api {
        self.api("coordination.k8s.io", "Lease", "leases")
    }

    fn api(&self, group: &str, kind: &str, plural: &str) -> Api {
        let resource = Resource::known(&GroupVersionKind::new(group, "v1", kind), plural, true);
        Api::namespaced(&self.server.direct(), &resource, "default")
    }

    pub(crate) async fn create(&self, name: &str) -> Value {
        let metadata = json!({"name": name, "namespace": "default"});
        let app = json!({"apiVersion": "x.io/v1", "kind": "App", "metadata": metadata, "spec": {"n": 1}});
        self.apps()
            .create(&app, &WriteParams::default())
            .await
            .unwrap()
            .value
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(&patch);
        self.apps()
            .patch(name, patch, &WriteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn set(&self, name: &str, n: i64) {
        self.patch(name, json!({"spec": {"n": n}})).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.apps().delete(name, &DeleteParams::default()).await.unwrap();
    }
}

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }

    pub(crate) fn begin_to_stop(&self) {
        self.shutdown.cancel();
    }

    /// Stops as a process does that is killed.
    pub(crate) async fn kill(self) {
        self.task.abort();
        self.task.await.unwrap_err();
    }

    pub(crate) async fn stopped(self) {
        self.ended().await.unwrap();
    }

    /// What the manager returned.
    pub(crate) async fn ended(self) -> std::io::Result<()> {
        self.task.await.unwrap()
    }

    /// The value of a metric with these labels, if it is there.
    pub(crate) fn sample(&self, name_and_labels: &str) -> Option<f64> {
        let text = self.metrics();
        let value = |line: &str| line.strip_prefix(name_and_labels)?.trim().parse().ok();
        text.lines().find_map(value)
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The value of a metric that has only the label of the controller.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics();
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// A controller for apps that writes down what it sees as `name n`.
pub(crate) fn noting(notes: &Notes) -> Controller {
    let notes = notes.clone();
    Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
        notes.add(format!("{} {}", app.name(), n_of(&app)));
        async { Ok::<_, Failure>(Action::Done) }
    })
}

pub(crate) fn n_of(app: &Object) -> i64 {
    app.get(&["spec", "n"])
        .and_then(|n| n.as_i64())
        .unwrap_or_default()
}

/// The answer of a manager's endpoint, head and body.
pub(crate) async fn get(endpoint: SocketAddr, path: &str) -> String {
    ask_with(endpoint, &format!("GET {path}"), "").await
}

/// The answer to another method, with more headers.
pub(crate) async fn ask_with(endpoint: SocketAddr, method_and_path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(endpoint).await.unwrap();
    let request = format!("{method_and_path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Where nobody listens yet.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).unwrap()
}
