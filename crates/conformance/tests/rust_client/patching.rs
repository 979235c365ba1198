//! JSON patches and server-side apply.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::server::{Server, app, refusal};

pub(crate) async fn json_patch(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    apps.create(&PostParams::default(), &app("json")?).await?;
    let test = json!({"op": "test", "path": "/spec/image", "value": "nginx"});
    let replace = json!({"op": "replace", "path": "/spec/image", "value": "httpd"});
    let patch = |changes: Value| anyhow::Ok(Patch::Json::<()>(serde_json::from_value(changes)?));
    let params = PatchParams::default();
    let changed = apps
        .patch("json", &params, &patch(json!([test, replace]))?)
        .await?;
    assert_eq!(changed.data["spec"]["image"], "httpd");
    let refused = apps.patch("json", &params, &patch(json!([test]))?).await;
    assert_eq!(refusal(refused)?, (422, "Invalid".to_owned()));
    Ok(())
}

pub(crate) async fn server_side_apply(server: &Server) -> anyhow::Result<()> {
    let apps = &server.apps;
    let apply = async |manager: &str, force: bool, spec: Value| {
        let mut object = json!({"apiVersion": "myapps.example.com/v1", "kind": "Application"});
        object["metadata"]["name"] = json!("applied");
        object["spec"] = spec;
        let params = PatchParams::apply(manager);
        let params = if force { params.force() } else { params };
        apps.patch("applied", &params, &Patch::Apply(object)).await
    };
    let ours = json!({"image": "a", "strategy": "Rolling", "env": [{"name": "A", "value": "1"}]});
    apply("one", false, ours).await?;
    let theirs = |image: &str| json!({"image": image, "env": [{"name": "B", "value": "2"}]});
    let both = apply("two", false, theirs("a")).await?;
    assert_eq!(both.data["spec"]["env"][1]["name"], "B");
    let refused = apply("two", false, theirs("b")).await;
    assert_eq!(refusal(refused)?, (409, "Conflict".to_owned()));
    let forced = apply("two", true, theirs("b")).await?;
    assert_eq!(forced.data["spec"]["image"], "b");
    let left = apply("one", false, json!({"env": [{"name": "A", "value": "1"}]})).await?;
    let spec = json!({"image": "b", "replicas": 1, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
    assert_eq!(left.data["spec"], spec);
    let again = apply("one", false, json!({"env": [{"name": "A", "value": "1"}]})).await?;
    assert_eq!(again.metadata.resource_version, left.metadata.resource_version);
    Ok(())
}
