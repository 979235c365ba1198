//! A server that is stopped and started again on its data directory.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{CRDS, HOME, MAPS, Server, WIDGETS, config_map, version, widget, widgets, with_meta};

async fn start_on(dir: &Path) -> Server {
    let dir = dir.to_owned();
    Server::bare(move |config| config.store.dir = Some(dir)).await
}

/// A server on a directory, with a home and widgets.
async fn first_start_on(dir: &Path) -> Server {
    let server = start_on(dir).await;
    server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "home"}}))
        .await
        .ok();
    server.install(widgets()).await;
    server
}

#[tokio::test]
async fn everything_is_still_there_and_versions_go_on_upward() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_start_on(dir.path()).await;
    server
        .post(WIDGETS, widget("a", json!({"size": 5, "note": null})))
        .await
        .ok();
    server.post(MAPS, config_map("m", json!({"k": "v"}))).await.ok();
    let paths = [
        WIDGETS,
        MAPS,
        CRDS,
        "/api/v1/namespaces",
        "/api/v1/services",
        "/api/v1/serviceaccounts",
    ];
    let mut before = Vec::new();
    for path in paths {
        before.push(server.get(path).await.ok()["items"].clone());
    }
    let last = version(&server.get(WIDGETS).await.ok());
    server.stop().await;
    let server = start_on(dir.path()).await;
    for (path, items) in paths.into_iter().zip(before) {
        assert_eq!(server.get(path).await.ok()["items"], items, "{path}");
    }
    let next = version(&server.post(MAPS, config_map("n", json!({}))).await.ok());
    assert!(next > last, "{next} after {last}");
    assert_eq!(
        server.post(WIDGETS, widget("b", json!({"size": 101}))).await.code,
        422,
        "schemas are back too"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_watch_from_before_the_restart_resumes_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_start_on(dir.path()).await;
    let a = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    server
        .merge(&format!("{WIDGETS}/a"), json!({"spec": {"size": 2}}))
        .await
        .ok();
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    server.delete(&format!("{WIDGETS}/b")).await.ok();
    server.stop().await;
    let server = start_on(dir.path()).await;
    let mut watch = server
        .watch(&format!("{WIDGETS}?resourceVersion={}", version(&a)))
        .await;
    server.post(WIDGETS, widget("c", json!({}))).await.ok();
    assert_eq!(
        watch.briefs(4).await,
        ["MODIFIED a", "ADDED b", "DELETED b", "ADDED c"]
    );
    server.stop().await;
}

#[tokio::test]
async fn a_list_from_before_the_restart_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_start_on(dir.path()).await;
    for name in ["a", "b", "c"] {
        server.post(WIDGETS, widget(name, json!({}))).await.ok();
    }
    let first = server.get(&format!("{WIDGETS}?limit=1")).await.ok();
    server.delete(&format!("{WIDGETS}/c")).await.ok();
    server.stop().await;
    let server = start_on(dir.path()).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    assert_eq!(
        server.names(&format!("{WIDGETS}?continue={token}")).await,
        ["b", "c"]
    );
    server.stop().await;
}

#[tokio::test]
async fn owners_are_known_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_start_on(dir.path()).await;
    let owner = server.post(WIDGETS, widget("owner", json!({}))).await.ok();
    let reference = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    });
    for name in ["a", "b"] {
        let object = with_meta(
            config_map(name, json!({})),
            json!({"ownerReferences": [reference], "finalizers": ["x.io/y"]}),
        );
        server.post(MAPS, object).await.ok();
    }
    server.stop().await;
    let server = start_on(dir.path()).await;
    server
        .delete_with(
            &format!("{WIDGETS}/owner"),
            json!({"propagationPolicy": "Foreground"}),
        )
        .await
        .ok();
    let is_marked = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    server.until(&format!("{MAPS}/a"), is_marked).await;
    server.until(&format!("{MAPS}/b"), is_marked).await;
    server
        .merge(&format!("{MAPS}/a"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    server.stop().await;
    let server = start_on(dir.path()).await;
    server.get(&format!("{WIDGETS}/owner")).await.ok();
    server
        .merge(&format!("{MAPS}/b"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    server.until_gone(&format!("{WIDGETS}/owner")).await;
    server.stop().await;
}

#[tokio::test]
async fn deletions_under_way_are_finished() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_start_on(dir.path()).await;
    server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    let held = json!({"finalizers": ["x.io/y"]});
    let in_b = "/api/v1/namespaces/home-b/configmaps";
    server
        .post(in_b, with_meta(config_map("held", json!({})), held.clone()))
        .await
        .ok();
    server
        .post(WIDGETS, with_meta(widget("held", json!({})), held))
        .await
        .ok();
    server.delete("/api/v1/namespaces/home-b").await.ok();
    server.delete(&format!("{CRDS}/widgets.example.com")).await.ok();
    server.stop().await;
    let server = start_on(dir.path()).await;
    assert_eq!(server.post(in_b, config_map("new", json!({}))).await.code, 403);
    assert_eq!(server.post(WIDGETS, widget("new", json!({}))).await.code, 403);
    for path in [format!("{in_b}/held"), format!("{WIDGETS}/held")] {
        server
            .merge(&path, json!({"metadata": {"finalizers": null}}))
            .await
            .ok();
    }
    server.until_gone("/api/v1/namespaces/home-b").await;
    server.until_gone(&format!("{CRDS}/widgets.example.com")).await;
    server.get(HOME).await.ok();
    server.stop().await;
}

#[tokio::test]
async fn stopping_ends_watches_and_loses_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut n_written = 0;
    for round in 0..5 {
        let server = if round == 0 {
            first_start_on(dir.path()).await
        } else {
            start_on(dir.path()).await
        };
        assert_eq!(server.names(WIDGETS).await.len(), n_written);
        for i in 0..5 {
            server
                .post(WIDGETS, widget(&format!("w{round}-{i}"), json!({})))
                .await
                .ok();
            n_written += 1;
        }
        server.stop().await;
    }
}
