//! Definitions: from a CRD to served resources, through its changes, to its end.

use serde_json::json;

use crate::harness::{
    CRDS, Server, WIDGETS, conditions, definition, has_condition, widget, widgets, with_meta,
};
use crate::versions::{GADGETS_CRD, gadgets};

#[tokio::test]
async fn a_definition_is_completed_accepted_and_established() {
    let server = Server::start().await;
    server.post(CRDS, gadgets()).await.ok();
    let crd = server
        .until(GADGETS_CRD, |crd| has_condition(crd, "Established", "True"))
        .await;
    let accepted =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
    assert_eq!(crd["spec"]["names"], accepted);
    assert_eq!(crd["status"]["acceptedNames"], accepted);
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        conditions(&crd),
        [
            "NamesAccepted=True NoConflicts",
            "Established=True InitialNamesAccepted"
        ]
    );
    assert_eq!(crd["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_definition_is_served_as_soon_as_its_creation_is_answered() {
    let server = Server::with(|_| {}).await;
    for i in 0..5 {
        let plural = format!("things{i}");
        server
            .post(CRDS, definition(&plural, &format!("Thing{i}")))
            .await
            .ok();
        let path = format!("/apis/example.com/v1/namespaces/home/{plural}");
        assert_eq!(server.get(&path).await.ok()["items"], json!([]));
        let object =
            json!({"apiVersion": "example.com/v1", "kind": format!("Thing{i}"), "metadata": {"name": "a"}});
        server.post(&path, object).await.ok();
        let resources = server.get("/apis/example.com/v1").await.ok();
        assert_eq!(resources["resources"].as_array().unwrap().len(), i + 1);
    }
}

#[tokio::test]
async fn a_taken_name_waits_for_its_holder_to_go() {
    let server = Server::start().await;
    server.install(definition("things", "Thing")).await;
    let mut second = definition("others", "Thing");
    second["spec"]["names"]["listKind"] = json!("OtherList");
    server.post(CRDS, second).await.ok();
    let path = &format!("{CRDS}/others.example.com");
    let crd = server
        .until(path, |crd| has_condition(crd, "Established", "False"))
        .await;
    assert_eq!(
        conditions(&crd),
        [
            "NamesAccepted=False KindConflict",
            "Established=False NotAccepted"
        ]
    );
    assert_eq!(
        crd["status"]["conditions"][0]["message"],
        "\"Thing\" is already in use"
    );
    assert_eq!(server.get("/apis/example.com/v1/others").await.code, 404);
    server.delete(&format!("{CRDS}/things.example.com")).await.ok();
    let crd = server
        .until(path, |crd| has_condition(crd, "Established", "True"))
        .await;
    assert!(has_condition(&crd, "NamesAccepted", "True"));
    server.wait_until_served(&crd).await;
    assert_eq!(server.get("/apis/example.com/v1/others").await.code, 200);
}

/// Definitions are gone a moment before their paths are.
async fn until_not_served(server: &Server, path: &str) {
    while server.get(path).await.code != 404 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_first() {
    let server = Server::with_widgets().await;
    let crd = &format!("{CRDS}/widgets.example.com");
    for (name, metadata) in [
        ("a", json!({})),
        ("held", json!({"finalizers": ["x.io/y"]})),
        ("z", json!({})),
    ] {
        server
            .post(WIDGETS, with_meta(widget(name, json!({})), metadata))
            .await
            .ok();
    }
    let marked = server.delete(crd).await.ok();
    assert_eq!(marked["kind"], "CustomResourceDefinition");
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert!(has_condition(&marked, "Terminating", "True"));
    server.until_gone(&format!("{WIDGETS}/a")).await;
    server.until_gone(&format!("{WIDGETS}/z")).await;
    assert_eq!(server.names(WIDGETS).await, ["held"]);
    let refused = server.post(WIDGETS, widget("b", json!({}))).await;
    let message = "create not allowed while custom resource definition is terminating";
    refused.refused(
        403,
        "Forbidden",
        &format!("widgets.example.com \"b\" is forbidden: {message}"),
    );
    server
        .until(crd, |crd| {
            conditions(crd).contains(&"Terminating=True InstanceDeletionInProgress".into())
        })
        .await;
    server
        .merge(
            &format!("{WIDGETS}/held"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .ok();
    server.until_gone(crd).await;
    until_not_served(&server, WIDGETS).await;
}

#[tokio::test]
async fn deleting_a_definition_ends_the_watches_of_its_objects() {
    let server = Server::with_widgets().await;
    let crd = &format!("{CRDS}/widgets.example.com");
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let mut watch = server.watch(WIDGETS).await;
    assert_eq!(watch.next().await.brief(), "ADDED a");
    server.delete(crd).await.ok();
    assert_eq!(watch.next().await.brief(), "DELETED a");
    assert_eq!(watch.try_next().await, None);
    until_not_served(&server, WIDGETS).await;
}

#[tokio::test]
async fn a_definition_made_anew_begins_empty() {
    let server = Server::with_widgets().await;
    let crd = &format!("{CRDS}/widgets.example.com");
    let first = server.get(crd).await.ok();
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    server.delete(crd).await.ok();
    server.until_gone(crd).await;
    until_not_served(&server, WIDGETS).await;
    let second = server.install(widgets()).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(server.names(WIDGETS).await, [""; 0]);
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
}

#[tokio::test]
async fn objects_go_with_their_definition_even_when_no_version_is_served() {
    let server = Server::with_widgets().await;
    let crd = &format!("{CRDS}/widgets.example.com");
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let hide = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
    server.patch(crd, "json-patch", hide).await.ok();
    until_not_served(&server, WIDGETS).await;
    server.delete(crd).await.ok();
    server.until_gone(crd).await;
    server.install(widgets()).await;
    assert_eq!(server.names(WIDGETS).await, [""; 0]);
}

#[tokio::test]
async fn hidden_objects_are_back_when_a_version_is_served_again() {
    let server = Server::with_widgets().await;
    let crd = &format!("{CRDS}/widgets.example.com");
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    for served in [false, true] {
        let patch = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": served}]);
        server.patch(crd, "json-patch", patch).await.ok();
        while server.is_real() && (server.get(WIDGETS).await.code == 200) != served {}
    }
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.ok(), created);
}

#[tokio::test]
async fn cluster_scoped_resources_have_no_namespace() {
    let server = Server::start().await;
    let mut crd = definition("worlds", "World");
    crd["spec"]["scope"] = json!("Cluster");
    server.install(crd).await;
    let worlds = "/apis/example.com/v1/worlds";
    let world = json!({"apiVersion": "example.com/v1", "kind": "World", "metadata": {"name": "a"}});
    let created = server.post(worlds, world.clone()).await.ok();
    assert_eq!(created["metadata"].get("namespace"), None);
    assert_eq!(server.get(&format!("{worlds}/a")).await.ok(), created);
    assert_eq!(
        server
            .get("/apis/example.com/v1/namespaces/home/worlds")
            .await
            .code,
        404
    );
    let placed = with_meta(world, json!({"name": "b", "namespace": "home"}));
    assert_eq!(
        server.post(worlds, placed).await.ok()["metadata"].get("namespace"),
        None
    );
    let selected = server
        .get(&format!("{worlds}?fieldSelector=metadata.namespace%3Dhome"))
        .await;
    selected.refused(400, "BadRequest", "field label not supported: metadata.namespace");
}

#[tokio::test]
async fn only_changes_of_the_spec_raise_the_generation_of_a_definition() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    let labelled = server
        .merge(GADGETS_CRD, json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let named = server
        .merge(GADGETS_CRD, json!({"spec": {"names": {"categories": ["all"]}}}))
        .await
        .ok();
    assert_eq!(named["metadata"]["generation"], 2);
    let crd = server
        .until(GADGETS_CRD, |crd| {
            crd["status"]["acceptedNames"]["categories"] == json!(["all"])
        })
        .await;
    assert_eq!(crd["metadata"]["generation"], 2);
    let moved = server
        .merge(GADGETS_CRD, json!({"spec": {"scope": "Cluster"}}))
        .await;
    let message = "CustomResourceDefinition.apiextensions.k8s.io \"gadgets.example.com\" is invalid: spec.scope: Invalid value: \"Cluster\": field is immutable";
    moved.refused(422, "Invalid", message);
}
