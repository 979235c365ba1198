//! A cluster to run in, with namespaces of this test alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::{Api, Call, Client, InCluster, Patch, Pod, Resource, Sources, WriteParams, connect};
use skopos_object::{GroupVersionKind, yaml};

use crate::support::{Running, run, skopos};

/// What is not so within this time never will be.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is in the names of the namespaces of rules.
const OPS: &str = "-ops-";

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) kubeconfig: PathBuf,
    /// Whether the server checks rights.
    pub(crate) is_real: bool,
    pub(crate) client: Client,
    /// The namespace of rules.
    pub(crate) ops: String,
    /// The namespace that Skopos runs in.
    pub(crate) system: String,
    /// Ours, unless there is a real one.
    _server: Option<Running>,
}

impl World {
    /// The cluster that `SKOPOS_TARGET` names, or one of our own, with our kinds, widgets and two namespaces.
    pub(crate) async fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target = std::env::var_os("SKOPOS_TARGET").map(PathBuf::from);
        let server = target.is_none().then(|| start_server(dir.path()));
        let kubeconfig = target.clone().unwrap_or_else(|| dir.path().join("kubeconfig"));
        let sources = Sources {
            explicit: Some(kubeconfig.clone()),
            ..Sources::default()
        };
        let run_id = std::process::id();
        let world = Self {
            is_real: target.is_some(),
            client: connect(&sources).await.unwrap(),
            ops: format!("{name}{OPS}{run_id}"),
            system: format!("{name}-system-{run_id}"),
            _server: server,
            kubeconfig,
            dir,
        };
        let definition = skopos_testkit::definition("cluster.example.com", "v1", "Widget", "widgets");
        std::fs::write(world.dir.path().join("widgets.yaml"), definition.to_string()).unwrap();
        world.skopos(&["apply", "-f", "widgets.yaml"]);
        world.clean_up().await;
        for namespace in [&world.ops, &world.system] {
            world
                .put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                .await;
        }
        world
    }

    /// Runs a command as the administrator.
    pub(crate) fn skopos(&self, args: &[&str]) -> String {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let args = [args, &["--kubeconfig", kubeconfig]].concat();
        run(self.dir.path(), &args).ok()
    }

    /// Applies a file as the administrator. Definitions are served a moment after they are there.
    pub(crate) async fn apply(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let args = ["apply", "-f", name, "--kubeconfig", kubeconfig];
        self.until("the file is applied", async || {
            let done = run(self.dir.path(), &args);
            (done.code == 0).then_some(()).ok_or_else(|| json!(done.err))
        })
        .await;
    }

    pub(crate) fn api(&self, api_version: &str, kind: &str, plural: &str, namespace: &str) -> Api {
        let kind = GroupVersionKind::from_api_version(api_version, kind).unwrap();
        let resource = Resource::known(&kind, plural, !namespace.is_empty());
        Api::namespaced(&self.client, &resource, namespace)
    }

    /// Makes an object of a few known kinds what it should be.
    pub(crate) async fn put(&self, object: &Value) {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let plural = format!("{}s", text("/kind").to_lowercase());
        let api = self.api(
            text("/apiVersion"),
            text("/kind"),
            &plural,
            text("/metadata/namespace"),
        );
        let patch = Patch::Apply {
            object,
            manager: "test",
            force: true,
        };
        api.patch(text("/metadata/name"), patch, &WriteParams::default())
            .await
            .unwrap_or_else(|error| panic!("{error}: {object}"));
    }

    pub(crate) async fn widget(&self, name: &str, size: u64) {
        self.put(&json!({"apiVersion": "cluster.example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": self.ops}, "spec": {"size": size}}))
            .await;
    }

    /// An object of ours, once it is as it should be.
    pub(crate) async fn ours(&self, kind: &str, name: &str, check: impl Fn(&Value) -> bool) -> Value {
        let plural = format!("{}s", kind.to_lowercase());
        let api = self.api("skopos.dev/v1alpha1", kind, &plural, &self.ops);
        self.until(&format!("{kind} {name}"), async || {
            let object = api.get(name).await.unwrap();
            match check(&object) {
                true => Ok(object),
                false => Err(object),
            }
        })
        .await
    }

    /// Waits until something is there.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Result<T, Value>) -> T {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            match look().await {
                Ok(found) => return found,
                Err(last) if tokio::time::Instant::now() > end => panic!("{what} never: {last:#}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// The file that the sink `out` writes, once it has so many different events: their subjects and sizes.
    pub(crate) async fn delivered(&self, n: usize) -> Vec<String> {
        let path = self.dir.path().join("out.jsonl");
        self.until(&format!("{n} deliveries"), async || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut seen = std::collections::BTreeSet::new();
            let new = lines.filter(|line| seen.insert(line["id"].to_string()));
            let short: Vec<String> = new
                .map(|line| {
                    format!(
                        "{} {}",
                        line["subject"].as_str().unwrap(),
                        line["data"]["after"]["spec"]["size"]
                    )
                })
                .collect();
            match short.len() >= n {
                true => Ok(short),
                false => Err(json!(short)),
            }
        })
        .await
    }

    /// How many requests the server has refused for lack of rights so far.
    pub(crate) async fn n_refused(&self) -> f64 {
        let request = hyper::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.client.kube().request_text(request).await.unwrap();
        let refusals = text.lines().filter(|line| {
            let attempt = line.starts_with("authorization_attempts_total{") && !line.contains("\"allowed\"");
            let impersonated = line.starts_with("apiserver_impersonation_attempts_total{");
            attempt || impersonated && line.contains("decision=\"denied\"")
        });
        refusals
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    /// A kubeconfig with a token of a service account and nothing else; that of the administrator where there are no
    /// rights to check.
    pub(crate) async fn kubeconfig_of(&self, namespace: &str, name: &str) -> PathBuf {
        if !self.is_real {
            return self.kubeconfig.clone();
        }
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let call = Call::new(hyper::Method::POST, path).body("application/json", request.to_string());
        let answer = self.client.call(&call).await.unwrap().value;
        let token = answer["status"]["token"].as_str().unwrap();
        let mut config = yaml::decode(&std::fs::read(&self.kubeconfig).unwrap())
            .unwrap()
            .value;
        config["users"][0]["user"] = json!({"token": token});
        self.check_in_cluster(&config, token, namespace).await;
        let path = self.dir.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// The same account, as a pod finds it.
    async fn check_in_cluster(&self, config: &Value, token: &str, namespace: &str) {
        let dir = self.dir.path().join("serviceaccount");
        std::fs::create_dir_all(&dir).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        std::fs::copy(
            cluster["certificate-authority"].as_str().unwrap(),
            dir.join("ca.crt"),
        )
        .unwrap();
        std::fs::write(dir.join("token"), token).unwrap();
        std::fs::write(dir.join("namespace"), namespace).unwrap();
        let server: hyper::Uri = cluster["server"].as_str().unwrap().parse().unwrap();
        let sources = Sources {
            in_cluster: InCluster::Yes(Pod {
                host: server.host().unwrap().to_owned(),
                port: server.port().unwrap().to_string(),
                dir,
            }),
            ..Sources::default()
        };
        let client = connect(&sources).await.unwrap();
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let call = Call::new(
            hyper::Method::POST,
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        )
        .body("application/json", review.to_string());
        let answer = client.call(&call).await.unwrap().value;
        let user = answer["status"]["userInfo"]["username"].as_str().unwrap();
        assert!(
            user.starts_with(&format!("system:serviceaccount:{namespace}:")),
            "{user}"
        );
        assert_eq!(client.default_namespace(), namespace);
    }

    /// `skopos run` with what the arguments add.
    pub(crate) fn start(&self, kubeconfig: &Path, args: &[&str]) -> Running {
        let mut command = skopos(self.dir.path());
        command
            .args(["run", "--no-install", "--allow-file", "--kubeconfig"])
            .arg(kubeconfig)
            .args(args);
        Running::start(&mut command)
    }

    /// Nothing of a test is left to those after it, even if it failed: the next one sees to that.
    pub(crate) async fn clean_up(&self) {
        for (kind, plural) in [("Rule", "rules"), ("Sink", "sinks"), ("Record", "records")] {
            let api = self.api("skopos.dev/v1alpha1", kind, plural, "");
            let mut list = api.list(&Default::default());
            // Not served yet means that there are none.
            while let Ok(Some(object)) = list.next().await {
                if object.namespace().contains(OPS) {
                    let own = self.api("skopos.dev/v1alpha1", kind, plural, object.namespace());
                    own.delete(object.name(), &Default::default()).await.unwrap();
                }
            }
        }
    }
}

fn start_server(dir: &Path) -> Running {
    let mut command = skopos(dir);
    command.args(["apiserver", "--secure-port", "0", "--data-dir", "server"]);
    command.args(["--kubeconfig", "kubeconfig"]);
    let running = Running::start(&mut command);
    running.lines.find("ready");
    running
}

/// A condition of an object.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}

/// Whether all these conditions hold.
pub(crate) fn all_hold(object: &Value, kinds: &[&str]) -> bool {
    kinds
        .iter()
        .all(|kind| condition(object, kind)["status"] == "True")
}
