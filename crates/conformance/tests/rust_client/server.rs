//! The servers of the checks, each with a namespace of its own and the kind that the checks work with.

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;
use skopos_app::App;
use skopos_conformance::Target;
use tokio_util::sync::CancellationToken;

const CRD: &str = include_str!("../../scripts/fixtures/crd.yaml");

/// What a check works with.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) apps: Api<DynamicObject>,
}

/// Plays a check on the target over TLS.
pub(crate) async fn over_tls(
    name: &str,
    check: impl AsyncFnOnce(Server) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let target = Target::start()?;
    let config = Kubeconfig::read_from(target.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    play(Client::try_from(config)?, name, check).await
}

/// Plays a check on an embedded server in this process.
pub(crate) async fn without_a_socket(
    name: &str,
    check: impl AsyncFnOnce(Server) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let app = App::start(skopos_app::Config::in_memory()).await?;
    let client = Client::new(app.client_service(), "default");
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(app.run(shutdown.clone()));
    let result = play(client, name, check).await;
    shutdown.cancel();
    running.await??;
    result
}

async fn play(
    client: Client,
    name: &str,
    check: impl AsyncFnOnce(Server) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let namespace = format!("{}-{}", name.replace('_', "-"), std::process::id());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
    namespaces.create(&PostParams::default(), &object).await?;
    let apps = define(client.clone(), &namespace).await?;
    let server = Server {
        client,
        namespace: namespace.clone(),
        apps,
    };
    check(server).await?;
    namespaces.delete(&namespace, &DeleteParams::default()).await?;
    Ok(())
}

/// Installs the kind and waits until the server knows it.
async fn define(client: Client, namespace: &str) -> anyhow::Result<Api<DynamicObject>> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd: CustomResourceDefinition = serde_saphyr::from_str(CRD)?;
    match crds.create(&PostParams::default(), &crd).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other?),
    }
    let only = WatchParams::default().fields(&format!("metadata.name={}", crd.name_any()));
    let mut events = crds.watch(&only, "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        let (WatchEvent::Added(crd) | WatchEvent::Modified(crd)) = event else {
            continue;
        };
        let conditions = crd
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        if conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
        {
            break;
        }
    }
    let kind = GroupVersionKind::gvk("myapps.example.com", "v1", "Application");
    let (found, _) = kube::discovery::pinned_kind(&client, &kind).await?;
    assert_eq!(found.plural, "applications");
    Ok(Api::namespaced_with(
        client,
        namespace,
        &ApiResource::from_gvk(&kind),
    ))
}

/// The code and the reason of a refusal.
pub(crate) fn refusal<T>(result: kube::Result<T>) -> anyhow::Result<(u16, String)> {
    match result {
        Err(kube::Error::Api(status)) => Ok((status.code, status.reason)),
        Err(other) => Err(other.into()),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

pub(crate) fn app(name: &str) -> anyhow::Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "myapps.example.com/v1",
        "kind": "Application",
        "metadata": {"name": name, "labels": {"tour": "rust"}},
        "spec": {"image": "nginx"},
    }))?)
}
