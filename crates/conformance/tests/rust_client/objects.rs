//! Objects of built-in kinds and of one of ours.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::server::{Server, app};

pub(crate) async fn typed(server: &Server) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), &server.namespace);
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

pub(crate) async fn generations(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
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
    assert_eq!(apps.get_metadata("web").await?.name_any(), "web");
    Ok(())
}

pub(crate) async fn pages(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    for name in ["a", "b", "c", "web"] {
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
    Ok(())
}

pub(crate) async fn collection(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    for name in ["a", "b"] {
        apps.create(&PostParams::default(), &app(name)?).await?;
    }
    apps.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    assert!(apps.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}
