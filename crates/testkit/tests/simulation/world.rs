//! The server of a simulated life: the model source, the embedded server, or any server behind a proxy.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use skopos_client::{Api, Client, ListParams};
use skopos_object::{ListWatch, Object, ObjectKey};
use skopos_testkit::{Data, Fault, Faults, ModelSource, Rule, TestServer, definition};

use super::target::Target;
use super::tempo::Tempo;
use super::writer::Writer;

pub(crate) const NAMESPACES: [&str; 2] = ["east", "west"];

/// Where objects live.
pub(crate) enum World {
    Model(ModelSource),
    Http(Box<Http>),
}

/// A server over HTTP.
pub(crate) struct Http {
    server: Server,
    /// What goes wrong for those who read.
    faults: Faults,
    /// Widgets as those who read see them.
    api: Api,
    writer: Writer,
    /// Widgets past all faults.
    direct: Api,
}

enum Server {
    InProcess(Box<TestServer>),
    /// Its proxies live as long as this.
    Target {
        _target: Box<Target>,
    },
}

impl World {
    pub(crate) fn model(seed: u64) -> Self {
        Self::Model(ModelSource::with_faults(Faults::seeded(seed)))
    }

    pub(crate) async fn http(seed: u64) -> Self {
        let server = TestServer::start_with_faults(Faults::seeded(seed)).await;
        prepare(&server).await;
        let api = server.api("example.com/v1", "Widget", "widgets");
        let writes = Faults::seeded(!seed);
        let writer = patient(&api, server.client_behind(&writes), Tempo::Paused);
        Self::Http(Box::new(Http {
            faults: server.faults().clone(),
            writer: Writer::new(writer, writes),
            direct: api.with_client(&server.direct()),
            api,
            server: Server::InProcess(Box::new(server)),
        }))
    }

    /// On the server that `SKOPOS_TARGET` names, else on an embedded one over TLS; in a group of its own.
    pub(crate) async fn target(seed: u64, group: &str) -> Self {
        let (faults, writes) = (Faults::seeded(seed), Faults::seeded(!seed));
        let target = Target::new(group, &faults, &writes).await;
        let direct = target.direct();
        Self::Http(Box::new(Http {
            faults,
            writer: Writer::new(patient(&direct, target.writer(), Tempo::Real), writes),
            api: direct.with_client(target.reader()),
            direct,
            server: Server::Target {
                _target: Box::new(target),
            },
        }))
    }

    /// What the informer reads.
    pub(crate) fn source(&self) -> Arc<dyn ListWatch> {
        match self {
            Self::Model(source) => Arc::new(source.clone()),
            Self::Http(http) => Arc::new(http.api.clone()),
        }
    }

    /// What goes wrong for those who read.
    pub(crate) fn faults(&self) -> &Faults {
        match self {
            Self::Model(source) => source.faults(),
            Self::Http(http) => &http.faults,
        }
    }

    /// What goes wrong for the one who writes, where that goes over HTTP.
    pub(crate) fn write_faults(&self) -> Option<&Faults> {
        match self {
            Self::Model(_) => None,
            Self::Http(http) => Some(http.writer.faults()),
        }
    }

    /// Creates or replaces an object; returns the version of that.
    pub(crate) async fn put(&self, key: &ObjectKey, color: &str, n: u64) -> u64 {
        let mut object = widget(&self.api_version(), &key.namespace, color, n);
        object["metadata"]["name"] = json!(key.name);
        let written = match self {
            Self::Model(source) => source.put(&Object::from_value(&object).unwrap()).to_value(),
            Self::Http(http) => http.writer.put(&object).await,
        };
        let version = written["metadata"]["resourceVersion"].as_str();
        version.and_then(|version| version.parse().ok()).unwrap()
    }

    /// Has the server name a new object, and sees that there is one of it and not two.
    pub(crate) async fn make(&self, namespace: &str, color: &str, n: u64) -> Result<(), String> {
        let Self::Http(http) = self else { return Ok(()) };
        let mut object = widget(&self.api_version(), namespace, color, n);
        object["metadata"]["generateName"] = json!("made-");
        let made = http.writer.create(&object).await;
        let objects = self.objects().await;
        let there = objects
            .values()
            .filter(|object| object.get(&["spec", "n"]) == Some(n.into()))
            .count();
        match (made, there) {
            (Ok(_), 1) | (Err(_), 0 | 1) => Ok(()),
            (made, there) => Err(format!("created {there} times: {made:?}")),
        }
    }

    pub(crate) async fn delete(&self, key: &ObjectKey) {
        match self {
            Self::Model(source) => drop(source.delete(&key.namespace, &key.name)),
            Self::Http(http) => {
                let direct = Api::namespaced(http.direct.client(), http.direct.resource(), &key.namespace);
                let deleted = direct.delete(&key.name, &Default::default()).await;
                assert!(deleted.is_ok() || deleted.is_err_and(|error| error.is_not_found()));
            }
        }
    }

    /// Forgets the history. A server that cannot be told to looks as if it had to those who read.
    pub(crate) fn compact(&self) {
        match self {
            Self::Model(source) => source.compact(),
            Self::Http(http) => match &http.server {
                Server::InProcess(server) => server.compact(),
                Server::Target { .. } => {
                    http.faults.add(Rule::watch().nth(1).then(Fault::gone()));
                    http.faults.cut_open_streams();
                }
            },
        }
    }

    /// Restarts the server. One that is not ours to restart only breaks what is open.
    pub(crate) async fn restart(&mut self, data: Data) {
        match self {
            Self::Model(source) => source.restart(data),
            Self::Http(http) => match &mut http.server {
                Server::InProcess(server) => {
                    server.restart(data).await;
                    if data == Data::Lost {
                        prepare(server).await;
                    }
                }
                Server::Target { .. } => http.faults.cut_open_streams(),
            },
        }
    }

    /// What is there, past all faults.
    pub(crate) async fn objects(&self) -> BTreeMap<ObjectKey, Object> {
        match self {
            Self::Model(source) => source.objects(),
            Self::Http(http) => {
                let mut list = http.direct.list(&ListParams::default());
                let mut objects = BTreeMap::new();
                while let Some(object) = list.next().await.unwrap() {
                    objects.insert(object.key(), object);
                }
                objects
            }
        }
    }

    fn api_version(&self) -> String {
        match self {
            Self::Model(_) => "example.com/v1".to_owned(),
            Self::Http(http) => http.api.resource().gvk().api_version(),
        }
    }
}

fn widget(api_version: &str, namespace: &str, color: &str, n: u64) -> Value {
    json!({
        "apiVersion": api_version, "kind": "Widget",
        "metadata": {"namespace": namespace, "labels": {"color": color}},
        "spec": {"n": n, "filler": "x".repeat(n as usize % 100)},
    })
}

/// The same through a client that tries again where that is safe.
fn patient(api: &Api, client: Client, tempo: Tempo) -> Api {
    api.with_client(&client.with_limits(&tempo.limits()))
}

/// What every such server has.
async fn prepare(server: &TestServer) {
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.put(&namespace).await;
    }
}
