//! The controller on a server of the test's own, in milliseconds; or, with `SKOPOS_TARGET=<kubeconfig>`, on a real one.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use serde_json::{Value, json};
use skopos::controller::{Manager, ManagerConfig};
use skopos::{
    Api, CancellationToken, Client, DeleteParams, GroupVersionKind, Patch, Resource, Sources, WriteParams,
    connect,
};
use skopos_testkit::{TestServer, eventually, value};
use tokio::task::JoinHandle;

const CRD: &str = include_str!("../manifests/crd.yaml");
const SAMPLE: &str = include_str!("../manifests/sample.yaml");

/// On a real server the tests share the directory and the definition.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Stage {
    client: Client,
    /// Kept so that it goes on.
    _server: Option<TestServer>,
    namespace: String,
    shutdown: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
}

impl Stage {
    /// A server with the definition, a namespace of its own, and the controller at work.
    async fn new(namespace: &str) -> Self {
        let (client, server) = match std::env::var_os("SKOPOS_TARGET") {
            None => {
                let server = TestServer::start().await;
                (server.client(), Some(server))
            }
            Some(kubeconfig) => {
                let explicit = Some(kubeconfig.into());
                (
                    connect(&Sources {
                        explicit,
                        ..Sources::default()
                    })
                    .await
                    .unwrap(),
                    None,
                )
            }
        };
        let mut manager = Manager::new(&client, ManagerConfig::new("myapp")).unwrap();
        manager.add(skopos_example_myapp::controller());
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(manager.run(shutdown.clone()));
        let stage = Self {
            client,
            _server: server,
            namespace: namespace.to_owned(),
            shutdown,
            running,
        };
        for document in CRD.split("\n---\n") {
            stage.apply(&value(document)).await;
        }
        stage
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .await;
        stage
    }

    /// Applies an object; a kind that was just defined may take a moment to be served.
    async fn apply(&self, object: &Value) {
        let kind = GroupVersionKind::from_api_version(
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        );
        let (api, name) = (
            self.api(&kind.unwrap()),
            object["metadata"]["name"].as_str().unwrap(),
        );
        eventually(async || {
            let patch = Patch::Apply {
                object,
                manager: "test",
                force: true,
            };
            let applied = api.patch(name, patch, &WriteParams::default()).await;
            applied.map(|_| ()).map_err(|error| error.to_string())
        })
        .await;
    }

    fn api(&self, kind: &GroupVersionKind) -> Api {
        let plural = format!("{}s", kind.kind.to_lowercase());
        let namespaced = !matches!(kind.kind.as_str(), "Namespace" | "CustomResourceDefinition");
        Api::namespaced(
            &self.client,
            &Resource::known(kind, &plural, namespaced),
            &self.namespace,
        )
    }

    fn apps(&self) -> Api {
        self.api(&GroupVersionKind::new("stable.example.com", "v1", "MyApp"))
    }

    fn deployments(&self) -> Api {
        self.api(&GroupVersionKind::new("apps", "v1", "Deployment"))
    }

    fn services(&self) -> Api {
        self.api(&GroupVersionKind::new("", "v1", "Service"))
    }

    async fn entry(&self) -> Option<Value> {
        let maps = Resource::known(&GroupVersionKind::new("", "v1", "ConfigMap"), "configmaps", true);
        let entries = Api::namespaced(&self.client, &maps, skopos_example_myapp::DIRECTORY);
        entries
            .find(&format!("{}.myapp-frontend", self.namespace))
            .await
            .unwrap()
    }

    async fn create_sample(&self) {
        let mut sample = value(SAMPLE);
        sample["metadata"]["namespace"] = self.namespace.as_str().into();
        self.apply(&sample).await;
    }

    /// Waits until the object has this field.
    async fn until(&self, api: &Api, pointer: &str, expect: &Value) -> Value {
        let mut found = Value::Null;
        eventually(async || {
            found = api.find("myapp-frontend").await.unwrap().unwrap_or_default();
            let is = found.pointer(pointer);
            if is == Some(expect) {
                Ok(())
            } else {
                Err(format!("{pointer} is {is:?}"))
            }
        })
        .await;
        found
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_app_becomes_a_deployment_and_a_service_and_hears_how_they_are() {
    let _turn = ONE_AT_A_TIME.lock();
    let stage = Stage::new("myapp-made").await;
    stage.create_sample().await;
    let deployment = stage
        .until(&stage.deployments(), "/spec/replicas", &json!(3))
        .await;
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("MyApp"), &json!(true))
    );
    stage
        .until(&stage.services(), "/spec/ports/0/port", &json!(80))
        .await;
    let app = stage
        .until(&stage.apps(), "/status/conditions/0/status", &json!("False"))
        .await;
    assert_eq!(
        app["status"]["conditions"][0]["message"],
        "0 of 3 replicas are available"
    );

    let status = json!({"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}});
    let (patch, params) = (Patch::Merge(&status), WriteParams::default());
    stage
        .deployments()
        .patch_subresource("myapp-frontend", "status", patch, &params)
        .await
        .unwrap();
    let app = stage
        .until(&stage.apps(), "/status/conditions/0/status", &json!("True"))
        .await;
    assert_eq!(app["status"]["availableReplicas"], 3);
    assert_eq!(app["status"]["observedGeneration"], app["metadata"]["generation"]);
    stage.stop().await;
}

#[tokio::test]
async fn drift_is_repaired_and_a_change_of_the_app_is_carried_out() {
    let _turn = ONE_AT_A_TIME.lock();
    let stage = Stage::new("myapp-drift").await;
    stage.create_sample().await;
    stage
        .until(&stage.deployments(), "/spec/replicas", &json!(3))
        .await;
    let params = WriteParams::default();
    let drift = json!({"spec": {"replicas": 1}});
    stage
        .deployments()
        .patch("myapp-frontend", Patch::Merge(&drift), &params)
        .await
        .unwrap();
    stage
        .until(&stage.deployments(), "/spec/replicas", &json!(3))
        .await;
    stage
        .services()
        .delete("myapp-frontend", &DeleteParams::default())
        .await
        .unwrap();
    stage
        .until(&stage.services(), "/spec/ports/0/port", &json!(80))
        .await;
    let wish = json!({"spec": {"replicas": 5, "port": 8080}});
    stage
        .apps()
        .patch("myapp-frontend", Patch::Merge(&wish), &params)
        .await
        .unwrap();
    stage
        .until(&stage.deployments(), "/spec/replicas", &json!(5))
        .await;
    stage
        .until(&stage.services(), "/spec/ports/0/port", &json!(8080))
        .await;
    stage.stop().await;
}

#[tokio::test]
async fn a_deleted_app_leaves_nothing_behind() {
    let _turn = ONE_AT_A_TIME.lock();
    let stage = Stage::new("myapp-gone").await;
    stage.create_sample().await;
    stage
        .until(&stage.services(), "/spec/ports/0/port", &json!(80))
        .await;
    eventually(async || {
        if stage.entry().await.is_some() {
            Ok(())
        } else {
            Err("not listed")
        }
    })
    .await;
    stage
        .apps()
        .delete("myapp-frontend", &DeleteParams::default())
        .await
        .unwrap();
    eventually(async || {
        for api in [stage.apps(), stage.deployments(), stage.services()] {
            if api.find("myapp-frontend").await.unwrap().is_some() {
                return Err(format!("{} is still there", api.path()));
            }
        }
        Ok(())
    })
    .await;
    assert_eq!(stage.entry().await, None);
    stage.stop().await;
}
