//! Subresources, conflicts and finalizers.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::server::{Server, app, refusal};

pub(crate) async fn status_and_scale(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    let params = PostParams::default();
    let mut made = apps.create(&params, &app("sub")?).await?;
    made.data["status"] = json!({"phase": "Running"});
    made.data["spec"]["image"] = json!("other");
    let mut changed = apps.replace_status("sub", &params, &made).await?;
    assert_eq!(changed.data["status"]["phase"], "Running");
    assert_eq!(changed.data["spec"]["image"], "nginx", "written through status");
    changed.data["status"]["phase"] = json!("Lost");
    let changed = apps.replace("sub", &params, &changed).await?;
    assert_eq!(changed.data["status"]["phase"], "Running", "written past status");
    let mut scale = apps.get_scale("sub").await?;
    scale.spec.get_or_insert_default().replicas = Some(5);
    apps.replace_scale("sub", &params, &scale).await?;
    assert_eq!(apps.get("sub").await?.data["spec"]["replicas"], 5);
    Ok(())
}

pub(crate) async fn stale_update_conflicts(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    let params = PostParams::default();
    let mut ours = apps.create(&params, &app("stale")?).await?;
    let mut theirs = ours.clone();
    theirs.data["spec"]["image"] = json!("theirs");
    apps.replace("stale", &params, &theirs).await?;
    ours.data["spec"]["replicas"] = json!(2);
    let refused = apps.replace("stale", &params, &ours).await;
    assert_eq!(refusal(refused)?, (409, "Conflict".to_owned()));
    let mut fresh = apps.get("stale").await?;
    fresh.data["spec"]["replicas"] = json!(2);
    let fresh = apps.replace("stale", &params, &fresh).await?;
    assert_eq!(fresh.data["spec"], json!({"image": "theirs", "replicas": 2}));
    Ok(())
}

pub(crate) async fn finalizer_holds_deletion(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    let mut held = app("held")?;
    held.metadata.finalizers = Some(vec!["myapps.example.com/cleanup".to_owned()]);
    apps.create(&PostParams::default(), &held).await?;
    let marked = apps.delete("held", &DeleteParams::default()).await?;
    let marked = marked.left();
    assert!(marked.is_some_and(|object| object.metadata.deletion_timestamp.is_some()));
    let finalizers = |names: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    let late = finalizers(json!(["myapps.example.com/cleanup", "myapps.example.com/late"]));
    let refused = apps.patch("held", &PatchParams::default(), &late).await;
    assert_eq!(refusal(refused)?, (422, "Invalid".to_owned()));
    let none = finalizers(serde_json::Value::Null);
    apps.patch("held", &PatchParams::default(), &none).await?;
    assert!(apps.get_opt("held").await?.is_none());
    Ok(())
}
