//! The rights in `manifests/deploy.yaml` are those that the controller uses.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use skopos::controller::{LeaderConfig, Manager, ManagerConfig};
use skopos::{Api, CancellationToken, Client, DeleteParams, GroupVersionKind, Resource};
use skopos_testkit::{Fault, Rule, TestServer, eventually, value};

const CRD: &str = include_str!("../manifests/crd.yaml");
const SAMPLE: &str = include_str!("../manifests/sample.yaml");
const DEPLOY: &str = include_str!("../manifests/deploy.yaml");

/// What a request has to be allowed, in the words of a role: `verb group/resource`, where, and of what name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    right: String,
    namespace: String,
    name: String,
}

impl Asked {
    /// Nothing for what everybody may see: discovery. What is applied is made if it is not there, which is a right of its
    /// own.
    fn read(request: &Request<Body>) -> Vec<Self> {
        let content = request.headers().get(CONTENT_TYPE);
        let is_applied = content.is_some_and(|content| content == "application/apply-patch+yaml");
        let asked = Self::read_one(request).into_iter();
        asked
            .flat_map(|asked| {
                let create = Self {
                    right: asked.right.replacen("patch ", "create ", 1),
                    ..asked.clone()
                };
                [Some(asked), is_applied.then_some(create)]
            })
            .flatten()
            .collect()
    }

    fn read_one(request: &Request<Body>) -> Option<Self> {
        let uri = request.uri();
        let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, rest) = rest.split_first()?;
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let verb = match (request.method(), rest.is_empty()) {
            (&Method::GET, _) if is_watch => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            _ => "delete",
        };
        let subresource = rest.get(1).map(|name| format!("/{name}"));
        Some(Self {
            right: format!("{verb} {group}/{resource}{}", subresource.unwrap_or_default()),
            namespace: namespace.to_owned(),
            name: rest.first().copied().unwrap_or_default().to_owned(),
        })
    }
}

/// What a role allows.
#[derive(Debug)]
struct Granted {
    right: String,
    /// Everywhere, if it is empty.
    namespace: String,
    /// Whatever its name, if it is empty.
    names: Vec<String>,
}

impl Granted {
    fn all() -> Vec<Self> {
        let roles = DEPLOY.split("\n---\n").map(value);
        let is_role = |role: &Value| matches!(role["kind"].as_str(), Some("Role" | "ClusterRole"));
        roles.filter(is_role).flat_map(|role| Self::of(&role)).collect()
    }

    fn of(role: &Value) -> Vec<Self> {
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let mut all = Vec::new();
        for rule in role["rules"].as_array().unwrap() {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    let group = rule["apiGroups"][0].as_str().unwrap();
                    all.push(Self {
                        right: format!("{verb} {group}/{resource}"),
                        namespace: role["metadata"]["namespace"]
                            .as_str()
                            .unwrap_or_default()
                            .to_owned(),
                        names: texts(&rule["resourceNames"]),
                    });
                }
            }
        }
        all
    }

    fn allows(&self, asked: &Asked) -> bool {
        self.right == asked.right
            && (self.namespace.is_empty() || self.namespace == asked.namespace)
            && (self.names.is_empty() || self.names.contains(&asked.name))
    }
}

/// A client whose requests are written down.
fn observed(client: &Client, asked: &Arc<Mutex<BTreeSet<Asked>>>) -> Client {
    let (kube, asked) = (client.kube().clone(), asked.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        asked.lock().unwrap().extend(Asked::read(&request));
        let kube = kube.clone();
        async move { kube.send(request).await }
    });
    Client::new(kube::Client::new(service, "default"), client.server())
}

/// What the controller asks for in the life of an app.
async fn asked() -> BTreeSet<Asked> {
    let server = TestServer::start().await;
    for document in CRD.split("\n---\n") {
        server.put(&value(document)).await;
    }
    let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "myapp-system"}});
    server.put(&system).await;
    // Somebody else is faster once, so that an app has to be read.
    let conflict = Rule::write().resource("myapps").first(1);
    server.faults().add(conflict.then(Fault::conflict()));
    let asked = Arc::<Mutex<BTreeSet<Asked>>>::default();
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new("myapp-system", "myapp", "one")),
        ..ManagerConfig::new("myapp")
    };
    let mut manager = Manager::new(&observed(&server.client(), &asked), config).unwrap();
    manager.add(skopos_example_myapp::controller());
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    server.put(&value(SAMPLE)).await;
    let kind = GroupVersionKind::new("stable.example.com", "v1", "MyApp");
    let apps = Api::namespaced(
        &server.direct(),
        &Resource::known(&kind, "myapps", true),
        "default",
    );
    eventually(async || {
        let app = apps.get("myapp-frontend").await.unwrap();
        match app["status"]["availableReplicas"] == 0 {
            true => Ok(()),
            false => Err(app["status"].to_string()),
        }
    })
    .await;
    apps.delete("myapp-frontend", &DeleteParams::default())
        .await
        .unwrap();
    eventually(async || match apps.find("myapp-frontend").await.unwrap() {
        None => Ok(()),
        Some(app) => Err(app["metadata"].to_string()),
    })
    .await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    asked.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn the_role_allows_what_the_controller_asks_for() {
    let granted = Granted::all();
    for asked in asked().await {
        assert!(granted.iter().any(|granted| granted.allows(&asked)), "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_role_allows_nothing_that_is_not_asked_for() {
    // None of it happens here: an app is given up, a server checks who may block deletion, or knows no streaming lists.
    const ELSEWHERE: [&str; 4] = [
        "create events.k8s.io/events",
        "patch events.k8s.io/events",
        "update stable.example.com/myapps/finalizers",
        "list apiextensions.k8s.io/customresourcedefinitions",
    ];
    let asked: BTreeSet<String> = asked().await.into_iter().map(|asked| asked.right).collect();
    for granted in Granted::all() {
        let is_used = asked.contains(&granted.right) || ELSEWHERE.contains(&granted.right.as_str());
        assert!(is_used, "{granted:?}");
    }
}
