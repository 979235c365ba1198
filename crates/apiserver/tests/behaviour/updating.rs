//! Updates by PUT: preconditions, what each endpoint may change, generations, scale.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{
    CRDS, HOME, MAPS, Server, WIDGETS, config_map, definition, version, widget, widgets, with_meta,
};

#[tokio::test]
async fn a_put_must_carry_the_current_version() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a");
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let without = with_meta(
        widget("a", json!({"size": 2})),
        json!({"uid": created["metadata"]["uid"]}),
    );
    let message = "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    server.put(path, &without).await.refused(422, "Invalid", message);
    let mut current = created.clone();
    current["spec"]["size"] = json!(2);
    let updated = server.put(path, &current).await.ok();
    assert!(version(&updated) > version(&created));
    assert_eq!(updated["spec"]["size"], 2);
    let message = "Operation cannot be fulfilled on widgets.example.com \"a\": the object has been modified; please apply your changes to the latest version and try again";
    server.put(path, &current).await.refused(409, "Conflict", message);
}

#[tokio::test]
async fn some_built_in_kinds_want_a_version_too() {
    let server = Server::start().await;
    let cases = [
        (
            "/apis/policy/v1/namespaces/home/poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1}}),
        ),
        (
            "/apis/storage.k8s.io/v1/namespaces/home/csistoragecapacities",
            json!({"storageClassName": "s"}),
        ),
        ("/apis/storage.k8s.io/v1/csidrivers", json!({"spec": {}})),
        ("/apis/node.k8s.io/v1/runtimeclasses", json!({"handler": "h"})),
    ];
    for (path, content) in cases {
        let object = with_meta(content, json!({"name": "a"}));
        server.post(path, object.clone()).await.ok();
        let refused = server.put(&format!("{path}/a"), &object).await;
        assert_eq!(refused.code, 422, "{path}");
        server.delete(&format!("{path}/a")).await.ok();
    }
}

#[tokio::test]
async fn a_put_makes_some_kinds_that_are_not_there() {
    let server = Server::start().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(
        server.put(&format!("{HOME}/services/a"), &service).await.code,
        201
    );
    let template = json!({"metadata": {"name": "a"}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    assert_eq!(
        server
            .put(&format!("{HOME}/podtemplates/a"), &template)
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn of_many_puts_of_one_version_exactly_one_wins() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let put = async |size: i64| {
        let mut object = created.clone();
        object["spec"]["size"] = json!(size);
        server.put(&format!("{WIDGETS}/a"), &object).await.code
    };
    let mut codes = join_all((2..18).map(put)).await;
    codes.sort_unstable();
    assert_eq!(codes, [vec![200], vec![409; 15]].concat());
}

#[tokio::test]
async fn a_put_of_what_is_stored_changes_nothing_and_tells_nobody() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({"size": 5}))).await.ok();
    let mut watch = server
        .watch(&format!("{WIDGETS}?resourceVersion={}", version(&created)))
        .await;
    let path = &format!("{WIDGETS}/a");
    assert_eq!(server.put(path, &created).await.ok(), created);
    let mut with_unknown = created.clone();
    with_unknown["spec"]["unknown"] = json!(1);
    with_unknown["status"] = json!({"ready": true});
    assert_eq!(server.put(path, &with_unknown).await.ok(), created);
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    assert_eq!(watch.next().await.brief(), "ADDED b");
}

#[tokio::test]
async fn a_dry_run_of_a_put_stores_nothing() {
    let server = Server::with_widgets().await;
    let mut object = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let before = object.clone();
    object["spec"]["size"] = json!(9);
    let dry = server.put(&format!("{WIDGETS}/a?dryRun=All"), &object).await.ok();
    assert_eq!(
        (&dry["spec"]["size"], &dry["metadata"]["generation"]),
        (&json!(9), &json!(2))
    );
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.ok(), before);
}

#[tokio::test]
async fn a_foreign_uid_is_a_conflict() {
    let server = Server::start().await;
    let created = server.post(MAPS, config_map("a", json!({}))).await.ok();
    let foreign = with_meta(created, json!({"uid": "11111111-2222-3333-4444-555555555555"}));
    let answer = server.put(&format!("{MAPS}/a"), &foreign).await;
    assert_eq!(
        (answer.code, answer.body["reason"].as_str()),
        (409, Some("Conflict")),
        "{}",
        answer.text()
    );
    let message = answer.body["message"].as_str().unwrap();
    assert!(
        message.contains("Precondition failed: UID in precondition: 11111111-2222-3333-4444-555555555555"),
        "{message}"
    );
}

#[tokio::test]
async fn a_put_to_an_absent_name_creates_only_what_may_be_created_so() {
    let server = Server::with_widgets().await;
    let coordination = "/apis/coordination.k8s.io/v1/namespaces/home";
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/home";
    let subject = json!({"kind": "Pod", "namespace": "home", "name": "p"});
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "new"});
    let cases = [
        (WIDGETS.to_owned(), widget("new", json!({})), 404),
        (MAPS.to_owned(), config_map("new", json!({})), 404),
        (
            format!("{HOME}/secrets"),
            json!({"metadata": {"name": "new"}}),
            404,
        ),
        (
            format!("{coordination}/leases"),
            json!({"metadata": {"name": "new"}, "spec": {}}),
            201,
        ),
        (
            format!("{HOME}/events"),
            json!({"metadata": {"name": "new"}, "involvedObject": subject}),
            201,
        ),
        (
            format!("{rbac}/roles"),
            json!({"metadata": {"name": "new"}, "rules": []}),
            201,
        ),
        (
            format!("{rbac}/rolebindings"),
            json!({"metadata": {"name": "new"}, "roleRef": role_ref}),
            201,
        ),
    ];
    for (collection, object, code) in cases {
        let answer = server.put(&format!("{collection}/new"), &object).await;
        assert_eq!(answer.code, code, "{collection}: {}", answer.text());
    }
}

#[tokio::test]
async fn some_kinds_may_be_overwritten_without_a_version() {
    let server = Server::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/home/leases";
    server.post(MAPS, config_map("a", json!({"k": "1"}))).await.ok();
    let updated = server
        .put(&format!("{MAPS}/a"), &config_map("a", json!({"k": "2"})))
        .await
        .ok();
    assert_eq!(updated["data"], json!({"k": "2"}));
    server
        .post(leases, json!({"metadata": {"name": "a"}, "spec": {}}))
        .await
        .ok();
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    assert_eq!(server.put(&format!("{leases}/a"), &lease).await.code, 422);
    server.install(widgets()).await;
    assert_eq!(
        server
            .put(&format!("{CRDS}/widgets.example.com"), &widgets())
            .await
            .code,
        422
    );
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_wish() {
    let server = Server::with_widgets().await;
    server.install(definition("opens", "Open")).await;
    let opens = "/apis/example.com/v1/namespaces/home/opens";
    server
        .post(
            WIDGETS,
            with_meta(widget("a", json!({})), json!({"finalizers": ["x.io/y"]})),
        )
        .await
        .ok();
    server
        .post(
            opens,
            json!({"apiVersion": "example.com/v1", "kind": "Open", "metadata": {"name": "a"}}),
        )
        .await
        .ok();
    let cases = [
        (
            format!("{WIDGETS}/a"),
            json!({"metadata": {"labels": {"a": "b"}}}),
            1,
        ),
        (
            format!("{WIDGETS}/a"),
            json!({"metadata": {"annotations": {"a": "b"}}}),
            1,
        ),
        (format!("{WIDGETS}/a"), json!({"spec": {"size": 2}}), 2),
        (format!("{WIDGETS}/a"), json!({"status": {"ready": true}}), 2),
        (
            format!("{WIDGETS}/a/status"),
            json!({"status": {"ready": true}}),
            2,
        ),
        (format!("{WIDGETS}/a/scale"), json!({"spec": {"replicas": 3}}), 3),
        (
            format!("{WIDGETS}/a"),
            json!({"metadata": {"generation": 77}, "spec": {"size": 3}}),
            4,
        ),
        (format!("{opens}/a"), json!({"status": {"x": 1}}), 2),
        (format!("{opens}/a"), json!({"anything": 1}), 3),
        (
            format!("{opens}/a"),
            json!({"metadata": {"labels": {"a": "b"}}}),
            3,
        ),
    ];
    server
        .merge(&format!("{WIDGETS}/a"), json!({"spec": {"replicas": 1}}))
        .await
        .ok();
    server
        .merge(&format!("{WIDGETS}/a"), json!({"spec": {"replicas": 1}}))
        .await
        .ok();
    let base = server.get(&format!("{WIDGETS}/a")).await.ok()["metadata"]["generation"]
        .as_i64()
        .unwrap()
        - 1;
    for (path, patch, expected) in cases {
        let answer = server.merge(&path, patch.clone()).await;
        assert_eq!(answer.code, 200, "{path} {patch} {}", answer.text());
        let is_widget = path.starts_with(WIDGETS);
        let object = server
            .get(if is_widget {
                &path[..WIDGETS.len() + 2]
            } else {
                &path
            })
            .await
            .ok();
        let expected = if is_widget { base + expected } else { expected };
        assert_eq!(object["metadata"]["generation"], expected, "{path} {patch}");
    }
    let marked = server.delete(&format!("{WIDGETS}/a")).await.ok();
    assert_eq!(
        marked["metadata"]["generation"],
        base + 5,
        "asking to go is a wish too"
    );
}

#[tokio::test]
async fn the_status_endpoint_takes_the_status_and_nothing_else() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({"size": 2}))).await.ok();
    let change = |metadata: Value| {
        let mut object = with_meta(created.clone(), metadata);
        object["spec"] = json!({"size": 50});
        object["status"] = json!({"ready": true, "odd": 1});
        object
    };
    let metadata = json!({"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["x.io/y"]});
    let updated = server
        .put(&format!("{WIDGETS}/a/status"), &change(metadata))
        .await
        .ok();
    assert_eq!(updated["status"], json!({"ready": true}));
    assert_eq!(updated["spec"], created["spec"]);
    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(updated["metadata"].get(field), None, "{field}");
    }
    assert_eq!(updated["metadata"]["generation"], 1);
    let mut wrong = updated.clone();
    wrong["status"] = json!({"ready": "yes"});
    let message = "Widget.example.com \"a\" is invalid: status.ready: Invalid value: \"string\": ready in body must be of type boolean: \"string\"";
    server
        .put(&format!("{WIDGETS}/a/status"), &wrong)
        .await
        .refused(422, "Invalid", message);
    let mut cleared = updated.clone();
    cleared["status"] = json!({"ready": false});
    let kept = server.put(&format!("{WIDGETS}/a"), &cleared).await.ok();
    assert_eq!(
        kept["status"],
        json!({"ready": true}),
        "the main endpoint leaves the status alone"
    );
    assert_eq!(server.get(&format!("{WIDGETS}/a/status")).await.ok(), kept);
    assert_eq!(server.delete(&format!("{WIDGETS}/a/status")).await.code, 405);
}

#[tokio::test]
async fn scale_reads_and_writes_replicas_through_its_paths() {
    let server = Server::with_widgets().await;
    let path = &format!("{WIDGETS}/a/scale");
    server
        .post(WIDGETS, widget("a", json!({"replicas": 2})))
        .await
        .ok();
    let status = json!({"status": {"replicas": 1, "selector": "app=a"}});
    server.merge(&format!("{WIDGETS}/a/status"), status).await.ok();
    let scale = server.get(path).await.ok();
    assert_eq!(
        (&scale["apiVersion"], &scale["kind"]),
        (&json!("autoscaling/v1"), &json!("Scale"))
    );
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "app=a"}));
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = json!(5);
    let scaled = server.put(path, &wanted).await.ok();
    assert_eq!(scaled["spec"], json!({"replicas": 5}));
    let object = server.get(&format!("{WIDGETS}/a")).await.ok();
    assert_eq!(
        (&object["spec"]["replicas"], version(&object)),
        (&json!(5), version(&scaled))
    );
    assert_eq!(
        server.put(path, &wanted).await.code,
        409,
        "its version is a precondition"
    );
    assert_eq!(
        server.merge(path, json!({"spec": {"replicas": 7}})).await.ok()["spec"]["replicas"],
        7
    );
    let negative = server.merge(path, json!({"spec": {"replicas": -1}})).await;
    assert_eq!(
        (negative.code, negative.body["reason"].as_str()),
        (422, Some("Invalid")),
        "{}",
        negative.text()
    );
}

#[tokio::test]
async fn scale_of_a_deployment_selects_as_the_deployment_does() {
    let server = Server::start().await;
    let deployments = "/apis/apps/v1/namespaces/home/deployments";
    let template = json!({
        "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template});
    server
        .post(deployments, json!({"metadata": {"name": "a"}, "spec": spec}))
        .await
        .ok();
    let path = &format!("{deployments}/a/scale");
    let scale = server.get(path).await.ok();
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({}), &json!({"replicas": 0, "selector": "app=a"}))
    );
    let scaled = server.merge(path, json!({"spec": {"replicas": 3}})).await.ok();
    assert_eq!(scaled["spec"], json!({"replicas": 3}));
    assert_eq!(
        server.get(&format!("{deployments}/a")).await.ok()["spec"]["replicas"],
        3
    );
}

/// client-go sends scales as protobuf (see the Go client's tour); their type may be left out in JSON too.
#[tokio::test]
async fn a_scale_is_a_built_in_kind_whatever_it_scales() {
    let server = Server::with_widgets().await;
    server
        .post(WIDGETS, widget("a", json!({"replicas": 1})))
        .await
        .ok();
    let path = &format!("{WIDGETS}/a/scale");
    let untyped = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2}});
    assert_eq!(server.put(path, &untyped).await.ok()["spec"]["replicas"], 2);
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(server.put(path, &other).await.code, 400);
}

#[tokio::test]
async fn identity_cannot_be_changed() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let renamed = with_meta(created.clone(), json!({"name": "b"}));
    let message = "the name of the object (b) does not match the name on the URL (a)";
    server
        .put(&format!("{WIDGETS}/a"), &renamed)
        .await
        .refused(400, "BadRequest", message);
    let redated = with_meta(
        created.clone(),
        json!({"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}),
    );
    assert_eq!(
        server.put(&format!("{WIDGETS}/a"), &redated).await.ok(),
        created,
        "what the server owns it keeps"
    );
    assert_eq!(
        server
            .put(
                &format!("{WIDGETS}/none"),
                &with_meta(created, json!({"name": "none"}))
            )
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn an_invalid_field_that_was_stored_may_stay_while_others_change() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({"size": 90}))).await.ok();
    let path = &format!("{CRDS}/widgets.example.com");
    let tighten = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum", "value": 10}]);
    server.patch(path, "json-patch", tighten).await.ok();
    if server.is_real() {
        while server
            .post(&format!("{WIDGETS}?dryRun=All"), widget("b", json!({"size": 90})))
            .await
            .code
            == 201
        {}
    }
    let changed = server
        .merge(&format!("{WIDGETS}/a"), json!({"spec": {"color": "red"}}))
        .await
        .ok();
    assert_eq!(changed["spec"]["size"], 90);
    assert_eq!(
        server
            .merge(&format!("{WIDGETS}/a"), json!({"spec": {"size": 91}}))
            .await
            .code,
        422
    );
}
