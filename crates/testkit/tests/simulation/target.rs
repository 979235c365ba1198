//! A server that is not in this process, and the proxies through which it is reached.

use serde_json::{Value, json};
use skopos_client::{Api, Client, Error, ListParams, Resource};
use skopos_object::GroupVersionKind;
use skopos_testkit::{Faults, Proxy, TestServer, definition, eventually};

use super::world::NAMESPACES;

pub(crate) struct Target {
    direct: Client,
    reader: (Client, Proxy),
    writer: (Client, Proxy),
    widgets: Resource,
    /// Where no other server is named.
    _own: Option<TestServer>,
}

impl Target {
    /// The server that `SKOPOS_TARGET` names by its kubeconfig, else an embedded one. It has no widgets of this group.
    pub(crate) async fn new(group: &str, faults: &Faults, writes: &Faults) -> Self {
        let (kubeconfig, own) = match std::env::var("SKOPOS_TARGET") {
            Ok(path) => (std::fs::read_to_string(path).unwrap(), None),
            Err(_) => {
                let mut server = TestServer::start().await;
                (server.serve().await, Some(server))
            }
        };
        let kube = connect(&kubeconfig).await;
        let gvk = GroupVersionKind::new(group, "v1", "Widget");
        let target = Self {
            direct: Client::new(kube.clone(), "target"),
            reader: behind(&kube, faults).await,
            writer: behind(&kube, writes).await,
            widgets: Resource::known(&gvk, "widgets", true),
            _own: own,
        };
        target.prepare().await;
        target
    }

    /// Widgets past all faults.
    pub(crate) fn direct(&self) -> Api {
        Api::all(&self.direct, &self.widgets)
    }

    pub(crate) fn reader(&self) -> &Client {
        &self.reader.0
    }

    pub(crate) fn writer(&self) -> Client {
        self.writer.0.clone()
    }

    async fn prepare(&self) {
        let definitions = known(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        );
        let definition = definition(&self.widgets.group, "v1", "Widget", "widgets");
        create(&Api::all(&self.direct, &definitions), &definition).await;
        for name in NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(
                &Api::all(&self.direct, &known("", "Namespace", "namespaces")),
                &namespace,
            )
            .await;
        }
        eventually(async || self.clear().await).await;
    }

    /// Removes what an earlier life left.
    async fn clear(&self) -> Result<(), Error> {
        for namespace in NAMESPACES {
            let widgets = Api::namespaced(&self.direct, &self.widgets, namespace);
            widgets
                .delete_collection(&Default::default(), &ListParams::default())
                .await?;
        }
        Ok(())
    }
}

/// Removes what the lives in a group left, but for the namespaces.
pub(crate) async fn tidy_up(group: &str) {
    let Ok(path) = std::env::var("SKOPOS_TARGET") else {
        return;
    };
    let kube = connect(&std::fs::read_to_string(path).unwrap()).await;
    let definitions = known(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let definitions = Api::all(&Client::new(kube, "target"), &definitions);
    let deleted = definitions
        .delete(&format!("widgets.{group}"), &Default::default())
        .await;
    deleted.unwrap();
}

async fn connect(kubeconfig: &str) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

async fn behind(server: &kube::Client, faults: &Faults) -> (Client, Proxy) {
    let proxy = Proxy::start(server.clone(), faults).await.unwrap();
    let client = Client::new(connect(&proxy.kubeconfig()).await, "proxy");
    (client, proxy)
}

fn known(group: &str, kind: &str, plural: &str) -> Resource {
    Resource::known(&GroupVersionKind::new(group, "v1", kind), plural, false)
}

/// Creates what is not there yet.
async fn create(api: &Api, object: &Value) {
    let created = api.create(object, &Default::default()).await;
    assert!(created.is_ok() || created.is_err_and(|error| error.is_conflict()));
}
