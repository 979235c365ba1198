//! `kube`, the Rust client: the same tour over TLS and, on the embedded server, without a socket.

mod leading;
mod patching;
mod watching;
mod writing;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;
use skopos_app::App;
use skopos_conformance::Target;
use tokio_util::sync::CancellationToken;

const CRD: &str = include_str!("../../scripts/fixtures/crd.yaml");

#[tokio::test]
async fn serves_kube_over_tls() -> anyhow::Result<()> {
    let target = Target::start()?;
    let config = Kubeconfig::read_from(target.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    tour(Client::try_from(config)?, &format!("rust-{}", std::process::id())).await
}

#[tokio::test]
async fn serves_kube_without_a_socket() -> anyhow::Result<()> {
    let app = App::start(skopos_app::Config::in_memory()).await?;
    let client = Client::new(app.client_service(), "default");
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(app.run(shutdown.clone()));
    let result = tour(client, "rust").await;
    shutdown.cancel();
    running.await??;
    result
}

async fn tour(client: Client, namespace: &str) -> anyhow::Result<()> {
    let name = json!({"metadata": {"name": namespace}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &serde_json::from_value(name)?)
        .await?;
    typed(client.clone(), namespace).await?;
    let apps = define(client.clone(), namespace).await?;
    dynamic(&apps).await?;
    patching::json_patch(&apps).await?;
    patching::server_side_apply(&apps).await?;
    writing::status_and_scale(&apps).await?;
    writing::stale_update_conflicts(&apps).await?;
    writing::finalizer_holds_deletion(&apps).await?;
    watched(&apps).await?;
    watching::resumes(&apps).await?;
    watching::from_expired_version(&apps).await?;
    leading::election(Api::namespaced(client, namespace)).await?;
    namespaces.delete(namespace, &DeleteParams::default()).await?;
    Ok(())
}

async fn typed(client: Client, namespace: &str) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let map = serde_json::from_value(json!({"metadata": {"name": "one"}, "data": {"a": "1"}}))?;
    let mut made = maps.create(&PostParams::default(), &map).await?;
    let code = |error: kube::Error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };
    assert_eq!(
        maps.create(&PostParams::default(), &map)
            .await
            .map_err(code)
            .err(),
        Some(409)
    );
    made.data.get_or_insert_default().insert("b".into(), "2".into());
    let changed = maps.replace("one", &PostParams::default(), &made).await?;
    assert_ne!(changed.resource_version(), made.resource_version());
    assert_eq!(
        maps.replace("one", &PostParams::default(), &made)
            .await
            .map_err(code)
            .err(),
        Some(409)
    );
    let strategic = Patch::Strategic(json!({"data": {"a": null, "c": "3"}}));
    let patched = maps.patch("one", &PatchParams::default(), &strategic).await?;
    assert_eq!(
        patched.data.map(|data| data.into_keys().collect()),
        Some(vec!["b".to_owned(), "c".to_owned()])
    );
    maps.delete("one", &DeleteParams::default()).await?;
    assert_eq!(maps.get("one").await.map_err(code).err(), Some(404));
    assert!(maps.get_opt("one").await?.is_none());
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
fn refusal<T>(result: kube::Result<T>) -> anyhow::Result<(u16, String)> {
    match result {
        Err(kube::Error::Api(status)) => Ok((status.code, status.reason)),
        Err(other) => Err(other.into()),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

fn app(name: &str) -> anyhow::Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "myapps.example.com/v1",
        "kind": "Application",
        "metadata": {"name": name, "labels": {"tour": "rust"}},
        "spec": {"image": "nginx"},
    }))?)
}

async fn dynamic(apps: &Api<DynamicObject>) -> anyhow::Result<()> {
    let made = apps.create(&PostParams::default(), &app("web")?).await?;
    assert_eq!(made.data["spec"]["replicas"], 1);
    let merge = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let changed = apps.patch("web", &PatchParams::default(), &merge).await?;
    assert_eq!(changed.metadata.generation, Some(2));
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let changed = apps.patch_status("web", &PatchParams::default(), &status).await?;
    assert_eq!(changed.data["status"]["phase"], "Running");
    assert_eq!(changed.metadata.generation, Some(2));
    let scale = apps
        .patch_scale(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"replicas": 5}})),
        )
        .await?;
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(5));
    for name in ["a", "b", "c"] {
        apps.create(&PostParams::default(), &app(name)?).await?;
    }
    let page = apps
        .list(&ListParams::default().limit(2).labels("tour=rust"))
        .await?;
    assert_eq!(page.items.len(), 2);
    let token = page.metadata.continue_.unwrap_or_default();
    let rest = apps
        .list(
            &ListParams::default()
                .limit(2)
                .labels("tour=rust")
                .continue_token(&token),
        )
        .await?;
    assert_eq!(
        rest.items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect::<Vec<_>>(),
        ["c", "web"]
    );
    assert_eq!(apps.get_metadata("web").await?.name_any(), "web");
    apps.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    assert!(apps.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

async fn watched(apps: &Api<DynamicObject>) -> anyhow::Result<()> {
    let from = apps
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut events = apps
        .watch(&WatchParams::default().labels("tour=rust"), &from)
        .await?
        .boxed();
    apps.create(&PostParams::default(), &app("seen")?).await?;
    apps.patch(
        "seen",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"replicas": 2}})),
    )
    .await?;
    apps.delete("seen", &DeleteParams::default()).await?;
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await? {
        seen.push(match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => break,
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified"]);
    Ok(())
}
