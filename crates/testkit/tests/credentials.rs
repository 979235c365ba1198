//! How a client shows who it is and whom it trusts, over every kind of connection it makes.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use futures_util::future::join_all;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use skopos_apiserver::Config;
use skopos_client::{Api, Client, ConnectError, Error, ListParams, Resource, Sources, WatchParams, connect};
use skopos_object::GroupVersionKind;
use skopos_testkit::TestServer;
use skopos_testkit::parts::{Authority, Issued};

/// More than have a connection of their own, so that some share one.
const N_WATCHES: usize = 18;

/// A server, and the kubeconfig of its administrator in parts.
struct Scene {
    _server: TestServer,
    dir: tempfile::TempDir,
    cluster: Value,
    user: Value,
}

impl Scene {
    async fn start() -> Self {
        let mut server = TestServer::start().await;
        Self::of(&server.serve().await, server)
    }

    /// A server that lets in whom this authority vouches for, and whom it vouches for.
    async fn with_client() -> (Self, Issued) {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let path = dir.path().join("clients.pem");
        std::fs::write(&path, authority.pem()).unwrap();
        let config = Config {
            client_ca_file: Some(path),
            ..Config::default()
        };
        let mut server = TestServer::start_with(config).await;
        (Self::of(&server.serve().await, server), authority.issue(&[]))
    }

    fn of(kubeconfig: &str, server: TestServer) -> Self {
        let config = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let config = serde_json::to_value(config).unwrap();
        Self {
            _server: server,
            dir: tempfile::tempdir().unwrap(),
            cluster: config["clusters"][0]["cluster"].clone(),
            user: config["users"][0]["user"].clone(),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A client for which cluster and user are as given.
    async fn client(&self, cluster: &Value, user: &Value) -> Client {
        self.connect(cluster, user).await.unwrap()
    }

    async fn connect(&self, cluster: &Value, user: &Value) -> Result<Client, ConnectError> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        let path = self.path().join("kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        let explicit = Some(path);
        let sources = Sources {
            explicit,
            ..Sources::default()
        };
        connect(&sources).await
    }

    /// A user whose credentials a program prints, after it did what a shell script says.
    fn exec(&self, status: &Value, script: &str) -> Value {
        let api_version = "client.authentication.k8s.io/v1";
        let credential = json!({"apiVersion": api_version, "kind": "ExecCredential", "status": status});
        let (program, answer) = (self.path().join("plug-in"), self.path().join("credential"));
        std::fs::write(&answer, credential.to_string()).unwrap();
        let script = format!("#!/bin/sh\n{script}\ncat '{}'\n", answer.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        json!({"exec": {"apiVersion": api_version, "interactiveMode": "Never", "command": program}})
    }

    fn token(&self) -> &str {
        self.user["token"].as_str().unwrap()
    }
}

/// Lists and watches, over all kinds of connections.
async fn use_it(client: &Client) -> Result<(), Error> {
    let kind = GroupVersionKind::new("", "v1", "ConfigMap");
    let maps = Api::all(client, &Resource::known(&kind, "configmaps", true));
    let mut list = maps.list(&ListParams::default());
    while list.next().await?.is_some() {}
    let params = WatchParams {
        resource_version: list.meta().resource_version.clone(),
        ..WatchParams::default()
    };
    let watches = join_all((0..N_WATCHES).map(|_| maps.watch(&params))).await;
    watches.into_iter().try_for_each(|watch| watch.map(drop))
}

fn code(error: &Error) -> Option<u16> {
    error.status().map(|status| status.code)
}

#[tokio::test]
async fn a_client_certificate_is_enough() {
    let (scene, client) = Scene::with_client().await;
    let nobody = scene.client(&scene.cluster, &json!({})).await;
    assert_eq!(code(&use_it(&nobody).await.unwrap_err()), Some(401));
    let (certificate, key) = (scene.path().join("client.pem"), scene.path().join("client.key"));
    std::fs::write(&certificate, client.cert).unwrap();
    std::fs::write(&key, client.key).unwrap();
    let user = json!({"client-certificate": certificate, "client-key": key});
    let client = scene.client(&scene.cluster, &user).await;
    use_it(&client).await.unwrap();
}

#[tokio::test]
async fn an_exec_plug_in_may_give_a_certificate() {
    let (scene, client) = Scene::with_client().await;
    let status = json!({"clientCertificateData": client.cert, "clientKeyData": client.key});
    let user = scene.exec(&status, "");
    let client = scene.client(&scene.cluster, &user).await;
    use_it(&client).await.unwrap();
}

#[tokio::test]
async fn a_token_is_enough_and_a_wrong_one_is_refused() {
    let scene = Scene::start().await;
    let client = scene
        .client(&scene.cluster, &json!({"token": scene.token()}))
        .await;
    use_it(&client).await.unwrap();
    let client = scene.client(&scene.cluster, &json!({"token": "wrong"})).await;
    let refused = use_it(&client).await.unwrap_err();
    assert_eq!(code(&refused), Some(401), "{refused:?}");
}

#[tokio::test]
async fn an_exec_plug_in_gives_the_token_and_is_not_asked_for_every_request() {
    let scene = Scene::start().await;
    let asked = scene.path().join("asked");
    let status = json!({"token": scene.token(), "expirationTimestamp": "2999-01-01T00:00:00Z"});
    let user = scene.exec(&status, &format!("echo once >> '{}'", asked.display()));
    let client = scene.client(&scene.cluster, &user).await;
    use_it(&client).await.unwrap();
    let n_asked = std::fs::read_to_string(&asked).unwrap().lines().count();
    // Once for a certificate, once for a token.
    assert_eq!(n_asked, 2);
}

#[tokio::test]
async fn an_exec_plug_in_that_fails_is_an_error_that_says_so() {
    let scene = Scene::start().await;
    let user = scene.exec(&json!({}), "echo no such account >&2\nexit 3");
    let error = scene.connect(&scene.cluster, &user).await.err().unwrap();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let text = format!("{error}: {}", source.unwrap_or_default());
    assert!(text.starts_with("credentials for https://"), "{text}");
    assert!(text.contains("exit status: 3"), "{text}");
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_not_trusted_unless_told_to() {
    let scene = Scene::start().await;
    let mut cluster = scene.cluster.clone();
    cluster
        .as_object_mut()
        .unwrap()
        .remove("certificate-authority-data");
    let client = scene.client(&cluster, &scene.user).await;
    let refused = use_it(&client).await.unwrap_err();
    assert_eq!(code(&refused), None, "{refused:?}");
    cluster["insecure-skip-tls-verify"] = json!(true);
    let client = scene.client(&cluster, &scene.user).await;
    use_it(&client).await.unwrap();
}

#[tokio::test]
async fn a_server_name_other_than_the_address_is_looked_for_in_the_certificate() {
    let scene = Scene::start().await;
    let mut cluster = scene.cluster.clone();
    cluster["tls-server-name"] = json!("kubernetes.default.svc");
    let client = scene.client(&cluster, &scene.user).await;
    use_it(&client).await.unwrap();
    cluster["tls-server-name"] = json!("another.example.com");
    let client = scene.client(&cluster, &scene.user).await;
    let refused = use_it(&client).await.unwrap_err();
    assert_eq!(code(&refused), None, "{refused:?}");
}
