//! Several versions of one resource: shapes, conversion, and what is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Server, definition, names, version, with_meta};

const GADGETS: &str = "/apis/example.com/v1/namespaces/home/gadgets";
const GADGETS_V2: &str = "/apis/example.com/v2/namespaces/home/gadgets";
pub(crate) const GADGETS_CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com";

/// One version of the gadgets, whose spec has the given properties.
fn gadget_version(name: &str, is_stored: bool, spec: Value) -> Value {
    let spec = json!({"type": "object", "default": {}, "properties": spec});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": schema}})
}

/// Gadgets in two versions with one field in common and one of their own each; the first is stored.
pub(crate) fn gadgets() -> Value {
    let text = |default: &str| json!({"type": "string", "default": default});
    let v1 = gadget_version("v1", true, json!({"shared": text("s"), "old": text("o")}));
    let v2 = gadget_version("v2", false, json!({"shared": text("s"), "new": text("n")}));
    let mut crd = definition("gadgets", "Gadget");
    crd["spec"]["versions"] = json!([v1, v2]);
    crd
}

fn gadget(name: &str, api_version: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

/// Makes the second version of the gadgets the one that is stored.
async fn switch_storage(server: &Server) -> Value {
    let switch = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    server.patch(GADGETS_CRD, "json-patch", switch).await.ok()
}

/// Waits until a real server has noticed a change of the definition.
async fn until_noticed(server: &Server, path: &str, is_noticed: impl Fn(&Value) -> bool) {
    while server.is_real() && !is_noticed(&server.get(path).await.body) {}
}

#[tokio::test]
async fn every_served_version_shows_the_same_objects_in_its_own_shape() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    let stored = server
        .post(GADGETS, gadget("a", "example.com/v1", json!({"shared": "x"})))
        .await
        .ok();
    assert_eq!(stored["spec"], json!({"shared": "x", "old": "o"}));
    let converted = server.get(&format!("{GADGETS_V2}/a")).await.ok();
    assert_eq!(converted["apiVersion"], "example.com/v2");
    assert_eq!(
        converted["spec"],
        json!({"shared": "x"}),
        "only the stored version fills in defaults"
    );
    assert_eq!(converted["metadata"], stored["metadata"]);
    let created = server
        .post(GADGETS_V2, gadget("b", "example.com/v2", json!({"new": "mine"})))
        .await
        .ok();
    assert_eq!(created["apiVersion"], "example.com/v2");
    assert_eq!(
        created["spec"],
        json!({"shared": "s"}),
        "what cannot be stored is lost"
    );
    let read = server.get(&format!("{GADGETS}/b")).await.ok();
    assert_eq!(read["spec"], json!({"shared": "s", "old": "o"}));
    let list = server.get(GADGETS_V2).await.ok();
    assert_eq!(
        (names(&list), &list["items"][0]),
        (vec!["a".into(), "b".into()], &converted)
    );
    let mut watch = server.watch(GADGETS_V2).await;
    assert_eq!(watch.next().await.object, converted);
    let wrong = server
        .post(GADGETS, gadget("c", "example.com/v2", json!({})))
        .await;
    let message = "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)";
    wrong.refused(400, "BadRequest", message);
}

#[tokio::test]
async fn an_object_keeps_what_it_was_stored_with_until_it_is_written_again() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    let before = server
        .post(GADGETS, gadget("a", "example.com/v1", json!({"old": "mine"})))
        .await
        .ok();
    switch_storage(&server).await;
    server
        .post(GADGETS_V2, gadget("b", "example.com/v2", json!({})))
        .await
        .ok();
    assert_eq!(server.get(&format!("{GADGETS}/a")).await.ok(), before);
}

#[tokio::test]
async fn an_object_marked_for_deletion_has_the_shape_of_today() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    let held = json!({"finalizers": ["x.io/y"]});
    server
        .post(GADGETS, with_meta(gadget("a", "example.com/v1", json!({})), held))
        .await
        .ok();
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added";
    let patch = json!([{"op": "add", "path": path, "value": {"type": "integer", "default": 7}}]);
    server.patch(GADGETS_CRD, "json-patch", patch).await.ok();
    until_noticed(&server, &format!("{GADGETS}/a"), |object| {
        object["spec"]["added"] == 7
    })
    .await;
    let expected = json!({"added": 7, "old": "o", "shared": "s"});
    assert_eq!(
        server.delete(&format!("{GADGETS}/a")).await.ok()["spec"],
        expected
    );
    let marked = server.get(&format!("{GADGETS}/a")).await.ok();
    assert_eq!(marked["spec"], expected);
    if !server.is_real() {
        switch_storage(&server).await;
    }
    let from = version(&marked);
    let mut watch = server.watch(&format!("{GADGETS}?resourceVersion={from}")).await;
    server
        .merge(&format!("{GADGETS}/a"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    let event = watch.next().await;
    assert_eq!(
        (event.kind.as_str(), &event.object["apiVersion"]),
        ("DELETED", &json!("example.com/v1"))
    );
}

#[tokio::test]
async fn objects_deleted_after_the_stored_version_changed_are_told_in_every_version() {
    let server = Server::with(|_| {}).await;
    server.install(gadgets()).await;
    for name in ["a", "b"] {
        server
            .post(GADGETS, gadget(name, "example.com/v1", json!({})))
            .await
            .ok();
    }
    switch_storage(&server).await;
    let from = version(&server.get(GADGETS).await.ok());
    let mut v1 = server.watch(&format!("{GADGETS}?resourceVersion={from}")).await;
    let mut v2 = server
        .watch(&format!("{GADGETS_V2}?resourceVersion={from}"))
        .await;
    server.delete(&format!("{GADGETS}/a")).await.ok();
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    server.merge(&format!("{GADGETS}/b"), label).await.ok();
    for (watch, api_version) in [(&mut v1, "example.com/v1"), (&mut v2, "example.com/v2")] {
        for brief in ["DELETED a", "MODIFIED b"] {
            let event = watch.next().await;
            assert_eq!(
                (event.brief().as_str(), &event.object["apiVersion"]),
                (brief, &json!(api_version))
            );
        }
    }
}

#[tokio::test]
async fn a_write_in_one_version_is_an_event_in_all() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    let mut v2 = server.watch(GADGETS_V2).await;
    let mut v1 = server.watch(GADGETS).await;
    server
        .post(GADGETS, gadget("a", "example.com/v1", json!({})))
        .await
        .ok();
    server
        .merge(&format!("{GADGETS_V2}/a"), json!({"spec": {"shared": "y"}}))
        .await
        .ok();
    for (watch, api_version) in [(&mut v1, "example.com/v1"), (&mut v2, "example.com/v2")] {
        for (kind, shared) in [("ADDED", "s"), ("MODIFIED", "y")] {
            let event = watch.next().await;
            assert_eq!(
                (event.kind.as_str(), &event.object["spec"]["shared"]),
                (kind, &json!(shared))
            );
            assert_eq!(event.object["apiVersion"], api_version);
        }
    }
}

#[tokio::test]
async fn a_deprecated_version_says_so_and_an_unserved_one_is_not_there() {
    let server = Server::start().await;
    let mut crd = gadgets();
    crd["spec"]["versions"][0]["deprecated"] = json!(true);
    let mut v3 = gadget_version("v3alpha1", false, json!({}));
    v3["deprecated"] = json!(true);
    v3["deprecationWarning"] = json!("do not");
    let mut v4 = gadget_version("v4", false, json!({}));
    v4["served"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().extend([v3, v4]);
    server.install(crd).await;
    let warning = "example.com/v1 Gadget is deprecated; use example.com/v2 Gadget";
    assert_eq!(server.get(GADGETS).await.warnings(), [warning]);
    assert_eq!(server.get(GADGETS_V2).await.warnings(), [""; 0]);
    assert_eq!(
        server.get(&GADGETS.replace("v1", "v3alpha1")).await.warnings(),
        ["do not"]
    );
    let unserved = server.get(&GADGETS.replace("/v1/", "/v4/")).await;
    assert_eq!(
        (unserved.code, unserved.text().as_str()),
        (404, "404 page not found\n")
    );
}

#[tokio::test]
async fn a_changed_schema_shows_in_objects_stored_before() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    let before = server
        .post(GADGETS, gadget("a", "example.com/v1", json!({})))
        .await
        .ok();
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let patch = json!([
        {"op": "add", "path": format!("{properties}/added"), "value": {"type": "integer", "default": 7}},
        {"op": "remove", "path": format!("{properties}/old")},
    ]);
    let crd = server.patch(GADGETS_CRD, "json-patch", patch).await.ok();
    assert_eq!(crd["metadata"]["generation"], 2);
    until_noticed(&server, &format!("{GADGETS}/a"), |object| {
        object["spec"]["added"] == 7
    })
    .await;
    let after = server.get(&format!("{GADGETS}/a")).await.ok();
    assert_eq!(after["spec"], json!({"added": 7, "shared": "s"}));
    assert_eq!(version(&after), version(&before), "reading writes nothing");
    assert_eq!(server.get(GADGETS).await.ok()["items"], json!([after]));
    let stored = server
        .merge(&format!("{GADGETS}/a"), json!({"spec": {"shared": "t"}}))
        .await
        .ok();
    assert_eq!(stored["spec"], json!({"added": 7, "shared": "t"}));
}

#[tokio::test]
async fn a_new_storage_version_is_remembered_beside_the_old() {
    let server = Server::start().await;
    server.install(gadgets()).await;
    server
        .post(GADGETS, gadget("a", "example.com/v1", json!({"shared": "1"})))
        .await
        .ok();
    let crd = switch_storage(&server).await;
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
    let drop = json!([{"op": "remove", "path": "/spec/versions/0"}]);
    assert_eq!(
        server.patch(GADGETS_CRD, "json-patch", drop).await.code,
        422,
        "objects may still be stored so"
    );
    server
        .post(GADGETS, gadget("b", "example.com/v1", json!({"shared": "2"})))
        .await
        .ok();
    for path in [GADGETS, GADGETS_V2] {
        let list = server.get(path).await.ok();
        let shared: Vec<&Value> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| &i["spec"]["shared"])
            .collect();
        assert_eq!(shared, ["1", "2"], "{path}");
    }
    let mut migrated = server.get(GADGETS_CRD).await.ok();
    migrated["status"]["storedVersions"] = json!(["v2"]);
    migrated["spec"]["names"]["shortNames"] = json!(["gg"]);
    let updated = server.put(&format!("{GADGETS_CRD}/status"), &migrated).await.ok();
    assert_eq!(updated["status"]["storedVersions"], json!(["v2"]));
    assert_eq!(
        updated["spec"]["names"].get("shortNames"),
        None,
        "the status endpoint leaves the spec alone"
    );
}

#[tokio::test]
async fn a_watch_keeps_its_version_when_the_stored_one_changes() {
    let server = Server::with(|_| {}).await;
    server.install(gadgets()).await;
    let mut watch = server.watch(GADGETS).await;
    let mut metadata = server
        .watch_as(
            GADGETS,
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        )
        .await;
    switch_storage(&server).await;
    let created = server
        .post(GADGETS_V2, gadget("a", "example.com/v2", json!({"shared": "1"})))
        .await
        .ok();
    let event = watch.next().await;
    assert_eq!(event.object, server.get(&format!("{GADGETS}/a")).await.ok());
    assert_eq!(event.object["apiVersion"], "example.com/v1");
    assert_eq!(metadata.next().await.object["metadata"], created["metadata"]);
}

#[tokio::test]
async fn a_watch_of_a_version_ends_when_it_is_served_no_more() {
    let server = Server::with(|_| {}).await;
    server.install(gadgets()).await;
    let mut watch = server.watch(GADGETS_V2).await;
    let stop = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    server.patch(GADGETS_CRD, "json-patch", stop).await.ok();
    assert_eq!(server.get(GADGETS_V2).await.code, 404);
    server
        .post(GADGETS, gadget("a", "example.com/v1", json!({})))
        .await
        .ok();
    assert_eq!(watch.try_next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn objects_written_while_the_schema_changes_get_its_defaults() {
    let server = Arc::new(Server::with(|_| {}).await);
    server.install(gadgets()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let write = async |server: Arc<Server>, stop: Arc<AtomicBool>, writer: usize| {
        let mut n = 0;
        while !stop.load(Ordering::Relaxed) {
            let name = format!("g{writer}-{}", n % 20);
            let answer = server
                .post(GADGETS, gadget(&name, "example.com/v1", json!({})))
                .await;
            if answer.code == 409 {
                let label = json!({"metadata": {"labels": {"n": n.to_string()}}});
                server.merge(&format!("{GADGETS}/{name}"), label).await.ok();
            }
            n += 1;
        }
    };
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(write(Arc::clone(&server), Arc::clone(&stop), writer)))
        .collect();
    let mut expected = vec!["old".to_owned(), "shared".to_owned()];
    for i in 0..30 {
        let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a{i}");
        let patch = json!([{"op": "add", "path": path, "value": {"type": "integer", "default": 7}}]);
        server.patch(GADGETS_CRD, "json-patch", patch).await.ok();
        expected.push(format!("a{i}"));
        for item in server.get(GADGETS).await.ok()["items"].as_array().unwrap() {
            let found = item["spec"].as_object().unwrap();
            let missing: Vec<&String> = expected
                .iter()
                .filter(|field| !found.contains_key(*field))
                .collect();
            assert!(missing.is_empty(), "{missing:?} of {}", item["metadata"]["name"]);
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
}

/// An entry of a version that the request did not speak was dropped with the next write.
#[tokio::test]
async fn owners_of_fields_of_another_version_of_a_built_in_kind_stay() {
    let server = Server::start().await;
    let scalers =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/home/horizontalpodautoscalers/a");
    let applied = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "labels": {"mine": "x"}},
        "spec": {"maxReplicas": 3, "minReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    });
    let path = format!("{}?fieldManager=one", scalers("v2"));
    let content = [("content-type", "application/apply-patch+yaml")];
    let applied = applied.to_string();
    server.send(Method::PATCH, &path, &content, &applied).await.ok();
    let change = json!({"metadata": {"labels": {"other": "y"}}, "spec": {"minReplicas": 1}});
    let changed = server.merge(&scalers("v1"), change).await;
    let changed: Value = serde_json::from_slice(&changed.bytes).unwrap();
    let entries = changed["metadata"]["managedFields"].as_array().unwrap();
    let kept = entries.iter().find(|entry| entry["manager"] == "one").unwrap();
    assert_eq!(kept["apiVersion"], "autoscaling/v2");
    assert_eq!(
        kept["fieldsV1"]["f:metadata"],
        json!({"f:labels": {"f:mine": {}}})
    );
    assert_eq!(
        kept["fieldsV1"]["f:spec"].get("f:minReplicas"),
        None,
        "somebody else wrote it"
    );
    assert_eq!(kept["fieldsV1"]["f:spec"]["f:maxReplicas"], json!({}));
}

#[tokio::test]
async fn what_was_applied_through_one_version_is_given_up_through_another() {
    let server = Server::start().await;
    let apply = async |version: &str, more: Value| {
        let path = format!(
            "/apis/autoscaling/{version}/namespaces/home/horizontalpodautoscalers/a?fieldManager=one"
        );
        let mut object = json!({
            "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
        });
        object["spec"]
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let content = [("content-type", "application/apply-patch+yaml")];
        server
            .send(Method::PATCH, &path, &content, &object.to_string())
            .await
            .ok()
    };
    let first = apply("v1", json!({"minReplicas": 2})).await;
    assert_eq!(first["spec"]["minReplicas"], 2);
    let second = apply("v2", json!({})).await;
    assert_eq!(second["spec"]["minReplicas"], 1, "the default");
}
