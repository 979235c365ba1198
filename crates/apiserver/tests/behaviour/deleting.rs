//! Deletes: at once or in steps, with options, one or many.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{CRDS, HOME, MAPS, Server, WIDGETS, config_map, names, version, widget, with_meta};

#[tokio::test]
async fn an_object_without_finalizers_goes_at_once() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let status = server.delete(&format!("{WIDGETS}/a")).await.ok();
    let details =
        json!({"name": "a", "group": "example.com", "kind": "widgets", "uid": created["metadata"]["uid"]});
    assert_eq!(
        (&status["kind"], &status["status"]),
        (&json!("Status"), &json!("Success"))
    );
    assert_eq!(status["details"], details);
    let again = server.delete(&format!("{WIDGETS}/a")).await;
    again.refused(404, "NotFound", "widgets.example.com \"a\" not found");
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a");
    let finalizers = json!({"finalizers": ["x.io/a", "x.io/b"]});
    let created = server
        .post(WIDGETS, with_meta(widget("a", json!({})), finalizers))
        .await
        .ok();
    let mut watch = server
        .watch(&format!("{WIDGETS}?resourceVersion={}", version(&created)))
        .await;
    let marked = server.delete(path).await.ok();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(
        server.delete(path).await.ok(),
        marked,
        "asking twice changes nothing"
    );
    let touched = server.merge(path, json!({"spec": {"size": 5}})).await.ok();
    assert_eq!(
        touched["spec"]["size"], 5,
        "an object on its way out may still change"
    );
    let one_left = server
        .merge(path, json!({"metadata": {"finalizers": ["x.io/b"]}}))
        .await
        .ok();
    assert_eq!(server.get(path).await.ok(), one_left);
    server
        .merge(path, json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    assert_eq!(server.get(path).await.code, 404);
    assert_eq!(
        watch.briefs(4).await,
        ["MODIFIED a", "MODIFIED a", "MODIFIED a", "DELETED a"]
    );
}

#[tokio::test]
async fn no_finalizer_can_be_added_to_an_object_on_its_way_out() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a");
    server
        .post(
            WIDGETS,
            with_meta(widget("a", json!({})), json!({"finalizers": ["x.io/a"]})),
        )
        .await
        .ok();
    server
        .merge(path, json!({"metadata": {"finalizers": ["x.io/a", "x.io/b"]}}))
        .await
        .ok();
    server.delete(path).await.ok();
    let answer = server
        .merge(
            path,
            json!({"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/c"]}}),
        )
        .await;
    let message = "Widget.example.com \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/c\"}";
    answer.refused(422, "Invalid", message);
}

/// The generator found it: kube-apiserver writes what it decoded by the new schema, which is not what is stored.
#[tokio::test]
async fn a_repeated_deletion_writes_only_if_the_schema_changed_meanwhile() {
    let server = Server::with_widgets().await;
    let held = with_meta(
        widget("a", json!({})),
        json!({"finalizers": ["example.com/hold"]}),
    );
    server.post(WIDGETS, held).await.ok();
    let one = format!("{WIDGETS}/a");
    let marked = server.delete(&one).await.ok();
    let again = server.delete(&one).await.ok();
    assert_eq!(version(&again), version(&marked));
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fresh";
    let patch = json!([{"op": "add", "path": field, "value": {"type": "string", "default": "new"}}]);
    let path = format!("{CRDS}/widgets.example.com");
    server.patch(&path, "json-patch", patch).await.ok();
    server
        .until(&one, |object| object["spec"]["fresh"] == "new")
        .await;
    let renewed = server.delete(&one).await.ok();
    assert_ne!(version(&renewed), version(&marked));
    assert_eq!(version(&server.delete(&one).await.ok()), version(&renewed));
}

#[tokio::test]
async fn a_deletion_cannot_be_taken_back() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a");
    server
        .post(
            WIDGETS,
            with_meta(widget("a", json!({})), json!({"finalizers": ["x.io/a"]})),
        )
        .await
        .ok();
    let marked = server.delete(path).await.ok();
    let mut alive = marked.clone();
    alive["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    alive["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionGracePeriodSeconds");
    assert_eq!(server.put(path, &alive).await.ok(), marked);
    let taken = server.post(WIDGETS, widget("a", json!({}))).await;
    assert_eq!(
        (taken.code, taken.body["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );
    assert!(
        taken.body["message"]
            .as_str()
            .unwrap()
            .starts_with("object is being deleted: "),
        "{}",
        taken.text()
    );
}

#[tokio::test]
async fn preconditions_guard_a_delete() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a");
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let (uid, current) = (created["metadata"]["uid"].as_str().unwrap(), version(&created));
    let wrong_uid = "11111111-2222-3333-4444-555555555555";
    let answer = server
        .delete_with(path, json!({"preconditions": {"uid": wrong_uid}}))
        .await;
    let message = format!(
        "Operation cannot be fulfilled on Widget.example.com \"a\": the UID in the precondition ({wrong_uid}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    answer.refused(409, "Conflict", &message);
    let answer = server
        .delete_with(path, json!({"preconditions": {"resourceVersion": "1"}}))
        .await;
    let message = format!(
        "Operation cannot be fulfilled on Widget.example.com \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({current}). The object might have been modified"
    );
    answer.refused(409, "Conflict", &message);
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": current.to_string()}});
    server.delete_with(path, right).await.ok();
}

#[tokio::test]
async fn options_that_contradict_each_other_or_make_no_sense_are_refused() {
    let server = Server::start().await;
    server.post(MAPS, config_map("a", json!({}))).await.ok();
    let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let cases = [
        (json!({"propagationPolicy": "Sometimes"}), format!("propagationPolicy: Unsupported value: \"Sometimes\": {supported}")),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set".into(),
        ),
        (json!({"dryRun": ["Some"]}), "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"".into()),
    ];
    for (options, why) in cases {
        let answer = server.delete_with(&format!("{MAPS}/a"), options).await;
        answer.refused(
            422,
            "Invalid",
            &format!("DeleteOptions.meta.k8s.io \"\" is invalid: {why}"),
        );
    }
    let in_query = server
        .delete(&format!("{MAPS}/a?propagationPolicy=Sometimes"))
        .await;
    assert_eq!(in_query.code, 422);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let server = Server::start().await;
    let created = server.post(MAPS, config_map("a", json!({}))).await.ok();
    server.delete(&format!("{MAPS}/a?dryRun=All")).await.ok();
    server
        .delete_with(&format!("{MAPS}/a"), json!({"dryRun": ["All"]}))
        .await
        .ok();
    assert_eq!(server.get(&format!("{MAPS}/a")).await.ok(), created);
    let some = format!("{MAPS}?labelSelector=none%3Dof-them");
    server.delete(&format!("{some}&dryRun=All")).await.ok();
    assert_eq!(server.get(&format!("{MAPS}/a")).await.ok(), created);
}

#[tokio::test]
async fn options_may_be_yaml() {
    let server = Server::start().await;
    server.post(MAPS, config_map("a", json!({}))).await.ok();
    let headers = [("content-type", "application/yaml")];
    let yaml = "apiVersion: v1\nkind: DeleteOptions\npreconditions:\n  uid: other\n";
    assert_eq!(
        server
            .send(Method::DELETE, &format!("{MAPS}/a"), &headers, yaml)
            .await
            .code,
        409
    );
    let yaml = "propagationPolicy: Background\n";
    server
        .send(Method::DELETE, &format!("{MAPS}/a"), &headers, yaml)
        .await
        .ok();
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector_and_the_deleted_are_listed() {
    let server = Server::with_widgets().await;
    for (name, color, team) in [
        ("a", "red", "x"),
        ("b", "red", "y"),
        ("c", "blue", "x"),
        ("d", "green", "z"),
    ] {
        let object = with_meta(
            widget(name, json!({"color": color})),
            json!({"labels": {"team": team}}),
        );
        server.post(WIDGETS, object).await.ok();
    }
    server
        .merge(
            &format!("{WIDGETS}/c"),
            json!({"metadata": {"finalizers": ["x.io/y"]}}),
        )
        .await
        .ok();
    let deleted = server
        .delete(&format!("{WIDGETS}?labelSelector=team%3Dx"))
        .await
        .ok();
    assert_eq!(
        (&deleted["kind"], names(&deleted)),
        (&json!("WidgetList"), vec!["a".into(), "c".into()])
    );
    assert_eq!(
        server.names(WIDGETS).await,
        ["b", "c", "d"],
        "a finalizer holds its object"
    );
    server
        .delete(&format!("{WIDGETS}?fieldSelector=spec.color%3Dgreen"))
        .await
        .ok();
    assert_eq!(server.names(WIDGETS).await, ["b", "c"]);
    server.delete(WIDGETS).await.ok();
    server
        .merge(&format!("{WIDGETS}/c"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    assert_eq!(server.names(WIDGETS).await, [""; 0]);
}

#[tokio::test]
async fn deleting_some_kinds_answers_with_the_object() {
    let server = Server::start().await;
    let cases = [
        ("configmaps", json!({"metadata": {"name": "a"}}), "Status"),
        ("secrets", json!({"metadata": {"name": "a"}}), "Status"),
        (
            "serviceaccounts",
            json!({"metadata": {"name": "a"}}),
            "ServiceAccount",
        ),
        (
            "pods",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            "Pod",
        ),
        (
            "services",
            json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
            "Service",
        ),
        (
            "replicationcontrollers",
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": {"a": "b"}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            "Status",
        ),
    ];
    for (plural, object, kind) in cases {
        server.post(&format!("{HOME}/{plural}"), object).await.ok();
        let path = format!("{HOME}/{plural}/a?propagationPolicy=Background");
        let deleted = server.delete(&path).await.ok();
        assert_eq!(deleted["kind"], kind, "{plural}");
    }
}

#[tokio::test]
async fn a_pod_on_a_node_has_time_to_finish() {
    let server = Server::start().await;
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let created = server
        .post(
            &format!("{HOME}/pods"),
            json!({"metadata": {"name": "a"}, "spec": spec}),
        )
        .await
        .ok();
    let path = &format!("{HOME}/pods/a");
    let marked = server.delete(path).await.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        created["metadata"]["uid"],
        server.get(path).await.ok()["metadata"]["uid"]
    );
    server.delete(&format!("{path}?gracePeriodSeconds=0")).await.ok();
    assert_eq!(server.get(path).await.code, 404);
}

#[tokio::test]
async fn an_immutable_config_map_can_only_be_deleted() {
    let server = Server::start().await;
    let mut object = config_map("a", json!({"k": "1"}));
    object["immutable"] = json!(true);
    server.post(MAPS, object).await.ok();
    let answer = server
        .merge(&format!("{MAPS}/a"), json!({"data": {"k": "2"}}))
        .await;
    let message = "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    answer.refused(422, "Invalid", message);
    let status: Value = server.delete(&format!("{MAPS}/a")).await.ok();
    assert_eq!(status["status"], "Success");
}

/// Creates a pod on a node, where it is given time to end.
async fn pod_on_a_node(server: &Server, spec: Value) -> String {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {
        "automountServiceAccountToken": false, "nodeName": "node", "containers": [{"name": "c", "image": "i"}],
    }});
    let fields = spec.as_object().unwrap().clone();
    pod["spec"].as_object_mut().unwrap().extend(fields);
    server.post(&format!("{HOME}/pods"), pod).await.ok();
    format!("{HOME}/pods/p")
}

fn deletion_time(object: &Value) -> jiff::Timestamp {
    let time = object["metadata"]["deletionTimestamp"].as_str();
    time.unwrap().parse().unwrap()
}

#[tokio::test]
async fn less_time_for_a_pod_counts_from_its_first_deletion() {
    let server = Server::start().await;
    let pod = pod_on_a_node(&server, json!({})).await;
    let first = server
        .delete(&format!("{pod}?gracePeriodSeconds=3000"))
        .await
        .ok();
    let unchanged = server.delete(&pod).await.ok();
    assert_eq!(unchanged, first, "no options ask for nothing new");
    let sooner = server
        .delete(&format!("{pod}?gracePeriodSeconds=1000"))
        .await
        .ok();
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 1000);
    assert_eq!(
        deletion_time(&first)
            .duration_since(deletion_time(&sooner))
            .as_secs(),
        2000
    );
    server.delete(&format!("{pod}?gracePeriodSeconds=0")).await.ok();
    assert_eq!(server.get(&pod).await.code, 404);
}
