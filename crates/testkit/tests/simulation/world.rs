//! The server of a simulated life: the model source, or the embedded server over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use skopos_client::{Api, ListParams};
use skopos_object::{ListWatch, Object, ObjectKey};
use skopos_testkit::{Data, Faults, ModelSource, TestServer, definition};

/// Where objects live.
pub(crate) enum World {
    Model(ModelSource),
    Http { server: Box<TestServer>, api: Box<Api> },
}

impl World {
    pub(crate) fn model(seed: u64) -> Self {
        Self::Model(ModelSource::with_faults(Faults::seeded(seed)))
    }

    pub(crate) async fn http(seed: u64) -> Self {
        let server = TestServer::start_with_faults(Faults::seeded(seed)).await;
        prepare(&server).await;
        let api = server.api("example.com/v1", "Widget", "widgets");
        Self::Http {
            server: Box::new(server),
            api: Box::new(api),
        }
    }

    /// What the informer reads.
    pub(crate) fn source(&self) -> Arc<dyn ListWatch> {
        match self {
            Self::Model(source) => Arc::new(source.clone()),
            Self::Http { api, .. } => Arc::new(Api::clone(api)),
        }
    }

    pub(crate) fn faults(&self) -> &Faults {
        match self {
            Self::Model(source) => source.faults(),
            Self::Http { server, .. } => server.faults(),
        }
    }

    /// Creates or replaces an object; returns the version of that.
    pub(crate) async fn put(&self, key: &ObjectKey, color: &str, n: u64) -> u64 {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"color": color}},
            "spec": {"n": n, "filler": "x".repeat(n as usize % 100)},
        });
        match self {
            Self::Model(source) => version(&source.put(&Object::from_value(&object).unwrap()).to_value()),
            Self::Http { server, .. } => version(&server.put(&object).await),
        }
    }

    pub(crate) async fn delete(&self, key: &ObjectKey) {
        match self {
            Self::Model(source) => drop(source.delete(&key.namespace, &key.name)),
            Self::Http { server, api } => {
                let direct = Api::namespaced(&server.direct(), api.resource(), &key.namespace);
                let deleted = direct.delete(&key.name, &Default::default()).await;
                assert!(deleted.is_ok() || deleted.is_err_and(|error| error.is_not_found()));
            }
        }
    }

    pub(crate) fn compact(&self) {
        match self {
            Self::Model(source) => source.compact(),
            Self::Http { server, .. } => server.compact(),
        }
    }

    pub(crate) async fn restart(&mut self, data: Data) {
        match self {
            Self::Model(source) => source.restart(data),
            Self::Http { server, .. } => {
                server.restart(data).await;
                if data == Data::Lost {
                    prepare(server).await;
                }
            }
        }
    }

    /// What is there, past all faults.
    pub(crate) async fn objects(&self) -> BTreeMap<ObjectKey, Object> {
        match self {
            Self::Model(source) => source.objects(),
            Self::Http { server, api } => {
                let mut list = api.with_client(&server.direct()).list(&ListParams::default());
                let mut objects = BTreeMap::new();
                while let Some(object) = list.next().await.unwrap() {
                    objects.insert(object.key(), object);
                }
                objects
            }
        }
    }
}

/// What every such server has.
async fn prepare(server: &TestServer) {
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    for name in ["east", "west"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.put(&namespace).await;
    }
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap()
}
