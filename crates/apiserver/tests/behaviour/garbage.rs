//! Garbage collection: owners, dependents, and the three ways to delete.

use serde_json::{Value, json};

use crate::harness::{CRDS, HOME, MAPS, Server, WIDGETS, config_map, definition, widget, widgets, with_meta};

/// A reference to an owner, with what is special about it.
fn reference(owner: &Value, more: Value) -> Value {
    let metadata = &owner["metadata"];
    let mut reference = json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
    });
    reference
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    reference
}

/// Creates a config map owned by all of `owners`.
async fn dependent(server: &Server, name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners.iter().map(|owner| reference(owner, json!({}))).collect();
    create(server, name, json!({"ownerReferences": references})).await
}

async fn create(server: &Server, name: &str, metadata: Value) -> Value {
    server
        .post(MAPS, with_meta(config_map(name, json!({})), metadata))
        .await
        .ok()
}

fn map(name: &str) -> String {
    format!("{MAPS}/{name}")
}

/// Waits until the collector has seen everything written before.
///
/// It works in rounds: garbage made now is collected in this round or the next, and garbage made after that
/// in one that begins when all of this one is done.
async fn settle(server: &Server) {
    for name in ["settle-1", "settle-2"] {
        let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
        create(server, name, json!({"ownerReferences": [absent]})).await;
        server.until_gone(&map(name)).await;
    }
}

#[tokio::test]
async fn dependents_follow_their_owner_in_the_background() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    dependent(&server, "a", &[&owner]).await;
    dependent(&server, "b", &[&owner]).await;
    let status = server
        .delete_with(&map("owner"), json!({"propagationPolicy": "Background"}))
        .await
        .ok();
    assert_eq!(status["status"], "Success", "the owner does not wait");
    server.until_gone(&map("a")).await;
    server.until_gone(&map("b")).await;
}

#[tokio::test]
async fn background_is_what_happens_when_nothing_is_said() {
    let server = Server::with_widgets().await;
    let owner = server.post(WIDGETS, widget("owner", json!({}))).await.ok();
    let a = dependent(&server, "a", &[&owner]).await;
    assert_eq!(
        a["metadata"]["ownerReferences"][0]["uid"],
        owner["metadata"]["uid"]
    );
    server.delete(&format!("{WIDGETS}/owner")).await.ok();
    server.until_gone(&map("a")).await;
}

#[tokio::test]
async fn chains_fall_link_by_link() {
    let server = Server::start().await;
    for policy in ["Background", "Foreground"] {
        let a = create(&server, "a", json!({})).await;
        let b = create(
            &server,
            "b",
            json!({"ownerReferences": [reference(&a, json!({"blockOwnerDeletion": true}))]}),
        )
        .await;
        let c = create(
            &server,
            "c",
            json!({"ownerReferences": [reference(&b, json!({"blockOwnerDeletion": true}))]}),
        )
        .await;
        dependent(&server, "d", &[&c]).await;
        server
            .delete_with(&map("a"), json!({"propagationPolicy": policy}))
            .await
            .ok();
        for name in ["a", "b", "c", "d"] {
            server.until_gone(&map(name)).await;
        }
    }
}

#[tokio::test]
async fn a_foreground_deletion_waits_for_dependents_that_block() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    let blocking = reference(&owner, json!({"blockOwnerDeletion": true}));
    create(
        &server,
        "blocks",
        json!({"ownerReferences": [blocking], "finalizers": ["x.io/y"]}),
    )
    .await;
    create(
        &server,
        "free",
        json!({"ownerReferences": [reference(&owner, json!({}))], "finalizers": ["x.io/y"]}),
    )
    .await;
    let marked = server
        .delete_with(&map("owner"), json!({"propagationPolicy": "Foreground"}))
        .await
        .ok();
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    server
        .until(&map("blocks"), |object| {
            object["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    server
        .until(&map("free"), |object| {
            object["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    settle(&server).await;
    server.get(&map("owner")).await.ok();
    server
        .merge(&map("blocks"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    server.until_gone(&map("owner")).await;
    server.get(&map("free")).await.ok();
}

#[tokio::test]
async fn a_waiting_owner_goes_when_its_dependent_no_longer_blocks() {
    let server = Server::start().await;
    for (name, change) in [("released", json!(null)), ("unblocked", json!(false))] {
        let owner = create(&server, "owner", json!({})).await;
        let blocking = reference(&owner, json!({"blockOwnerDeletion": true}));
        create(
            &server,
            name,
            json!({"ownerReferences": [blocking], "finalizers": ["x.io/y"]}),
        )
        .await;
        server
            .delete_with(&map("owner"), json!({"propagationPolicy": "Foreground"}))
            .await
            .ok();
        server
            .until(&map(name), |object| {
                object["metadata"]["deletionTimestamp"].is_string()
            })
            .await;
        settle(&server).await;
        server.get(&map("owner")).await.ok();
        let references = match change {
            Value::Null => Value::Null,
            block => json!([reference(&owner, json!({"blockOwnerDeletion": block}))]),
        };
        server
            .merge(&map(name), json!({"metadata": {"ownerReferences": references}}))
            .await
            .ok();
        server.until_gone(&map("owner")).await;
        server.get(&map(name)).await.ok();
    }
}

#[tokio::test]
async fn an_owner_in_the_foreground_without_dependents_goes_at_once() {
    let server = Server::start().await;
    create(&server, "owner", json!({})).await;
    server
        .delete_with(&map("owner"), json!({"propagationPolicy": "Foreground"}))
        .await
        .ok();
    server.until_gone(&map("owner")).await;
}

#[tokio::test]
async fn orphans_lose_their_owner_and_stay() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    let other = create(&server, "other", json!({})).await;
    dependent(&server, "a", &[&owner]).await;
    dependent(&server, "b", &[&owner, &other]).await;
    let marked = server
        .delete_with(&map("owner"), json!({"propagationPolicy": "Orphan"}))
        .await
        .ok();
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    server.until_gone(&map("owner")).await;
    settle(&server).await;
    assert_eq!(
        server.get(&map("a")).await.ok()["metadata"].get("ownerReferences"),
        None
    );
    let left = server.get(&map("b")).await.ok()["metadata"]["ownerReferences"].clone();
    assert_eq!(left, json!([reference(&other, json!({}))]));
    let owner = create(&server, "owner", json!({})).await;
    dependent(&server, "c", &[&owner]).await;
    server
        .delete_with(&map("owner"), json!({"orphanDependents": true}))
        .await
        .ok();
    server.until_gone(&map("owner")).await;
    server.get(&map("c")).await.ok();
}

#[tokio::test]
async fn an_object_with_another_owner_loses_only_the_reference() {
    let server = Server::start().await;
    let first = create(&server, "first", json!({})).await;
    let second = create(&server, "second", json!({})).await;
    dependent(&server, "a", &[&first, &second]).await;
    server.delete(&map("first")).await.ok();
    let one_left =
        |object: &Value| object["metadata"]["ownerReferences"] == json!([reference(&second, json!({}))]);
    server.until(&map("a"), one_left).await;
    server.delete(&map("second")).await.ok();
    server.until_gone(&map("a")).await;
}

#[tokio::test]
async fn a_foreground_deletion_releases_what_others_own_too() {
    let server = Server::start().await;
    let first = create(&server, "first", json!({})).await;
    let second = create(&server, "second", json!({})).await;
    let references = json!([
        reference(&first, json!({"blockOwnerDeletion": true})),
        reference(&second, json!({}))
    ]);
    create(&server, "a", json!({"ownerReferences": references})).await;
    server
        .delete_with(&map("first"), json!({"propagationPolicy": "Foreground"}))
        .await
        .ok();
    server.until_gone(&map("first")).await;
    let kept = server.get(&map("a")).await.ok();
    assert_eq!(
        kept["metadata"]["ownerReferences"],
        json!([reference(&second, json!({}))])
    );
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let server = Server::start().await;
    let ghost = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ghost", "uid": "1-2-3"}});
    dependent(&server, "a", &[&ghost]).await;
    server.until_gone(&map("a")).await;
}

#[tokio::test]
async fn an_owner_of_the_right_name_and_the_wrong_uid_is_absent() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    dependent(
        &server,
        "a",
        &[&with_meta(owner.clone(), json!({"uid": "another"}))],
    )
    .await;
    server.until_gone(&map("a")).await;
    server.get(&map("owner")).await.ok();
}

#[tokio::test]
async fn an_owner_must_be_in_the_same_namespace_or_in_none() {
    let server = Server::start().await;
    let namespace = server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "home-b"}}))
        .await
        .ok();
    let elsewhere = "/api/v1/namespaces/home-b/configmaps";
    let far = server.post(elsewhere, config_map("far", json!({}))).await.ok();
    dependent(&server, "lost", &[&far]).await;
    dependent(&server, "kept", &[&namespace]).await;
    server.until_gone(&map("lost")).await;
    settle(&server).await;
    server.get(&map("kept")).await.ok();
    server.delete("/api/v1/namespaces/home-b").await.ok();
    server.until_gone(&map("kept")).await;
}

#[tokio::test]
async fn an_event_tells_of_an_owner_in_another_namespace() {
    let server = Server::start().await;
    let namespace = json!({"metadata": {"name": "home-c"}});
    server.post("/api/v1/namespaces", namespace).await.ok();
    let elsewhere = "/api/v1/namespaces/home-c/configmaps";
    let far = server.post(elsewhere, config_map("far", json!({}))).await.ok();
    let lost = dependent(&server, "lost", &[&far]).await;
    server.until_gone(&map("lost")).await;
    let events = format!("{HOME}/events?fieldSelector=reason%3DOwnerRefInvalidNamespace");
    let event = server.watch(&events).await.next().await.object;
    let uid = far["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: home, name: far, uid: {uid}] does not exist in namespace \"home\""
    );
    assert_eq!(event["message"], message.as_str());
    assert_eq!(event["involvedObject"]["uid"], lost["metadata"]["uid"]);
    let all = server.get(&events).await.ok();
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    server.delete("/api/v1/namespaces/home-c").await.ok();
}

#[tokio::test]
async fn a_cluster_scoped_object_cannot_be_owned_from_inside_a_namespace() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    let role = json!({"metadata": {"name": "home-role", "ownerReferences": [reference(&owner, json!({}))]}, "rules": []});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    server.post(roles, role).await.ok();
    settle(&server).await;
    server.delete(&map("owner")).await.ok();
    settle(&server).await;
    server.get(&format!("{roles}/home-role")).await.ok();
    server.delete(&format!("{roles}/home-role")).await.ok();
}

#[tokio::test]
async fn an_owner_of_an_unknown_kind_keeps_its_dependents() {
    let server = Server::start().await;
    let owner =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "owner", "uid": "1"}});
    dependent(&server, "a", &[&owner]).await;
    settle(&server).await;
    server.get(&map("a")).await.ok();
}

#[tokio::test]
async fn custom_resources_own_and_are_owned_across_kinds_and_versions() {
    let server = Server::with_widgets().await;
    let mut crd = definition("things", "Thing");
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    server.install(crd).await;
    let things = "/apis/example.com/v1/namespaces/home/things";
    let object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let thing = server.post(things, object).await.ok();
    let mut in_v2 = thing.clone();
    in_v2["apiVersion"] = json!("example.com/v2");
    let owned = with_meta(
        widget("w", json!({})),
        json!({"ownerReferences": [reference(&in_v2, json!({}))]}),
    );
    let owned = server.post(WIDGETS, owned).await.ok();
    dependent(&server, "m", &[&owned]).await;
    settle(&server).await;
    server.get(&map("m")).await.ok();
    server.delete(&format!("{things}/t")).await.ok();
    server.until_gone(&format!("{WIDGETS}/w")).await;
    server.until_gone(&map("m")).await;
}

#[tokio::test]
async fn what_the_objects_of_a_definition_own_goes_with_the_definition() {
    let server = Server::with(|_| {}).await;
    server.install(widgets()).await;
    for i in 0..10 {
        let owner = server
            .post(WIDGETS, widget(&format!("w{i}"), json!({})))
            .await
            .ok();
        dependent(&server, &format!("m{i}"), &[&owner]).await;
    }
    server.delete(&format!("{CRDS}/widgets.example.com")).await.ok();
    for i in 0..10 {
        server.until_gone(&map(&format!("m{i}"))).await;
    }
}

#[tokio::test]
async fn a_dependent_that_is_held_goes_when_it_is_released() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    let metadata = json!({"ownerReferences": [reference(&owner, json!({}))], "finalizers": ["x.io/y"]});
    create(&server, "a", metadata).await;
    server.delete(&map("owner")).await.ok();
    server
        .until(&map("a"), |object| {
            object["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    server
        .merge(&map("a"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    server.until_gone(&map("a")).await;
}

#[tokio::test]
async fn an_adopted_object_follows_its_new_owner() {
    let server = Server::start().await;
    let owner = create(&server, "owner", json!({})).await;
    create(&server, "a", json!({})).await;
    server
        .merge(
            &map("a"),
            json!({"metadata": {"ownerReferences": [reference(&owner, json!({}))]}}),
        )
        .await
        .ok();
    server.delete(&map("owner")).await.ok();
    server.until_gone(&map("a")).await;
    let owner = create(&server, "owner", json!({})).await;
    dependent(&server, "b", &[&owner]).await;
    server
        .merge(&map("b"), json!({"metadata": {"ownerReferences": null}}))
        .await
        .ok();
    server.delete(&map("owner")).await.ok();
    settle(&server).await;
    server.get(&map("b")).await.ok();
}

#[tokio::test]
async fn objects_that_own_each_other_go_together() {
    let server = Server::start().await;
    let a = create(&server, "a", json!({})).await;
    let b = create(
        &server,
        "b",
        json!({"ownerReferences": [reference(&a, json!({"blockOwnerDeletion": true}))]}),
    )
    .await;
    let back = reference(&b, json!({"blockOwnerDeletion": true}));
    server
        .merge(&map("a"), json!({"metadata": {"ownerReferences": [back]}}))
        .await
        .ok();
    server
        .delete_with(&map("a"), json!({"propagationPolicy": "Foreground"}))
        .await
        .ok();
    server.until_gone(&map("a")).await;
    server.until_gone(&map("b")).await;
}

#[tokio::test]
async fn pods_of_a_deployment_go_with_it_through_the_replica_set() {
    let server = Server::with(|_| {}).await;
    let apps = "/apis/apps/v1/namespaces/home";
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
    let deployment = server
        .post(
            &format!("{apps}/deployments"),
            json!({"metadata": {"name": "a"}, "spec": spec}),
        )
        .await
        .ok();
    let metadata =
        json!({"name": "a-1", "ownerReferences": [reference(&deployment, json!({"controller": true}))]});
    let set = server
        .post(
            &format!("{apps}/replicasets"),
            json!({"metadata": metadata, "spec": spec}),
        )
        .await
        .ok();
    let metadata = json!({"name": "a-1-x", "labels": {"app": "a"}, "ownerReferences": [reference(&set, json!({"controller": true}))]});
    server
        .post(
            &format!("{HOME}/pods"),
            json!({"metadata": metadata, "spec": template["spec"]}),
        )
        .await
        .ok();
    server.delete(&format!("{apps}/deployments/a")).await.ok();
    server.until_gone(&format!("{HOME}/pods/a-1-x")).await;
    server.until_gone(&format!("{apps}/replicasets/a-1")).await;
}
