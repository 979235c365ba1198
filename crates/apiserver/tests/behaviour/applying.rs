//! Server-side apply: who owns which field, what is taken, given up and refused.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, MAPS, Server, version, with_meta};

const GADGETS: &str = "/apis/example.com/v1/namespaces/home/gadgets";

async fn with_gadgets() -> Server {
    let server = Server::start().await;
    let definition = skopos_object::yaml::decode(include_bytes!("gadgets.yaml")).unwrap();
    server.install(definition.value).await;
    server
}

fn gadget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

fn scale(replicas: u64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}})
}

impl Server {
    /// Applies as a manager; `query` is `<manager>[&<more>]`.
    async fn apply(&self, path: &str, query: &str, object: Value) -> Answer {
        self.apply_text(path, query, &object.to_string()).await
    }

    async fn apply_text(&self, path: &str, query: &str, text: &str) -> Answer {
        let path = format!("{path}?fieldManager={query}");
        self.send(
            Method::PATCH,
            &path,
            &[("content-type", "application/apply-patch+yaml")],
            text,
        )
        .await
    }
}

/// `<manager> <operation>[ <subresource>] <fields>` of every entry.
#[track_caller]
fn owners(answer: &Answer) -> Vec<String> {
    assert!((200..300).contains(&answer.code), "{}", answer.text());
    let object: Value = serde_json::from_slice(&answer.bytes).unwrap();
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let brief = |entry: &Value| {
        let subresource = match text(&entry["subresource"]).as_str() {
            "" => String::new(),
            name => format!(" {name}"),
        };
        let (manager, operation) = (text(&entry["manager"]), text(&entry["operation"]));
        format!("{manager} {operation}{subresource} {}", entry["fieldsV1"])
    };
    entries.into_iter().flatten().map(brief).collect()
}

/// The fields of all causes.
fn causes(answer: &Answer) -> Vec<String> {
    let causes = answer.body["details"]["causes"].as_array().unwrap();
    let brief = |cause: &Value| {
        let text = |name: &str| cause[name].as_str().unwrap().to_owned();
        format!("{} {} {}", text("reason"), text("field"), text("message"))
    };
    causes.iter().map(brief).collect()
}

#[tokio::test]
async fn applying_creates_an_object_and_applying_again_changes_nothing() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let config = gadget("a", json!({"color": "red", "ports": [{"port": 1}]}));
    let created = server.apply(&path, "one", config.clone()).await;
    assert_eq!(created.code, 201);
    assert_eq!(created.body["spec"]["replicas"], 1, "defaults are filled in");
    assert_eq!(
        created.body["spec"]["ports"],
        json!([{"port": 1, "protocol": "TCP"}])
    );
    assert_eq!(
        owners(&created),
        [
            r#"one Apply {"f:spec":{"f:color":{},"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#
        ],
        "defaults belong to nobody"
    );
    let again = server.apply(&path, "one", config).await;
    assert_eq!(again.code, 200);
    assert_eq!(again.bytes, created.bytes);
    assert_eq!(server.get(&path).await.bytes, created.bytes);
}

#[tokio::test]
async fn a_field_of_another_manager_is_a_conflict_unless_forced() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let config = |color: &str, list: &str| gadget("a", json!({"color": color, "list": [list]}));
    server.apply(&path, "one", config("red", "1")).await.ok();
    let one = gadget("a", json!({"color": "blue"}));
    let conflict = server.apply(&path, "two", one.clone()).await;
    conflict.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.color",
    );
    assert_eq!(
        causes(&conflict),
        ["FieldManagerConflict .spec.color conflict with \"one\""]
    );
    server.apply(&path, "two", config("blue", "2")).await.refused(
        409,
        "Conflict",
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.color\n- .spec.list",
    );
    assert_eq!(server.get(&path).await.body["spec"]["color"], "red");
    let forced = server.apply(&path, "two&force=true", one).await;
    assert_eq!(forced.body["spec"]["color"], "blue");
    assert_eq!(
        owners(&forced),
        [
            r#"one Apply {"f:spec":{"f:list":{}}}"#,
            r#"two Apply {"f:spec":{"f:color":{}}}"#
        ]
    );
}

#[tokio::test]
async fn updates_own_what_they_change_and_conflict_with_appliers() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    server
        .apply(&path, "one", gadget("a", json!({"color": "red"})))
        .await
        .ok();
    let merged = server
        .merge(
            &format!("{path}?fieldManager=hand"),
            json!({"spec": {"color": "blue"}}),
        )
        .await;
    assert_eq!(owners(&merged), [r#"hand Update {"f:spec":{"f:color":{}}}"#]);
    let conflict = server
        .apply(&path, "one", gadget("a", json!({"color": "red"})))
        .await;
    conflict.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"hand\" using example.com/v1: .spec.color",
    );
    let same = server
        .apply(&path, "one", gadget("a", json!({"color": "blue"})))
        .await;
    assert_eq!(
        owners(&same),
        [
            r#"one Apply {"f:spec":{"f:color":{}}}"#,
            r#"hand Update {"f:spec":{"f:color":{}}}"#
        ],
        "who wants what is there shares it"
    );
}

#[tokio::test]
async fn what_is_given_up_goes_when_nobody_else_owns_it() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let spec = json!({"color": "red", "tags": ["x", "y"], "labels": {"k": "v"}});
    server.apply(&path, "one", gadget("a", spec)).await.ok();
    server
        .apply(&path, "two", gadget("a", json!({"color": "red", "tags": ["y"]})))
        .await
        .ok();
    let left = server
        .apply(&path, "one", gadget("a", json!({"tags": ["x"]})))
        .await
        .ok();
    assert_eq!(
        left["spec"],
        json!({"color": "red", "replicas": 1, "tags": ["x", "y"]})
    );
    let left = server.apply(&path, "two", gadget("a", json!({}))).await.ok();
    assert_eq!(left["spec"], json!({"replicas": 1, "tags": ["x"]}));
}

#[tokio::test]
async fn managers_of_disjoint_fields_may_come_in_any_order() {
    let server = with_gadgets().await;
    let configs = [
        ("one", json!({"color": "red"})),
        ("two", json!({"labels": {"k": "v"}, "tags": ["t"]})),
    ];
    let mut specs = Vec::new();
    for (name, order) in [("a", [0, 1]), ("b", [1, 0])] {
        let path = format!("{GADGETS}/{name}");
        for i in order {
            let (manager, spec) = &configs[i];
            server
                .apply(&path, manager, gadget(name, spec.clone()))
                .await
                .ok();
        }
        specs.push(server.get(&path).await.ok()["spec"].clone());
    }
    assert_eq!(specs[0], specs[1]);
}

#[tokio::test]
async fn items_of_map_lists_are_known_by_their_keys_and_defaults_of_keys_count() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let ports = |ports: Value| gadget("a", json!({"ports": ports}));
    let first = json!([{"port": 1, "name": "a"}, {"port": 1, "protocol": "UDP", "name": "b"}]);
    server.apply(&path, "one", ports(first)).await.ok();
    let conflict = server
        .apply(
            &path,
            "two",
            ports(json!([{"port": 1, "protocol": "TCP", "name": "c"}])),
        )
        .await;
    let field = r#".spec.ports[port=1,protocol="TCP"].name"#;
    conflict.refused(
        409,
        "Conflict",
        &format!("Apply failed with 1 conflict: conflict with \"one\": {field}"),
    );
    server.apply(&path, "two", ports(json!([{"port": 2}]))).await.ok();
    let left = server
        .apply(
            &path,
            "one",
            ports(json!([{"port": 1, "protocol": "UDP", "name": "b"}])),
        )
        .await;
    assert_eq!(
        left.body["spec"]["ports"],
        json!([{"port": 1, "protocol": "UDP", "name": "b"}, {"port": 2, "protocol": "TCP"}])
    );
}

#[tokio::test]
async fn configurations_must_fit_the_schema() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let failed =
        |why: &str| format!("failed to create typed patch object (/a; example.com/v1, Kind=Gadget): {why}");
    let cases = [
        (
            json!({"unknown": 1}),
            ".spec.unknown: field not declared in schema",
        ),
        (
            json!({"color": 1}),
            ".spec.color: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"tags": ["q", "q"]}),
            ".spec.tags: duplicate entries for key [=\"q\"]",
        ),
    ];
    for (spec, why) in cases {
        let answer = server.apply(&path, "one", gadget("a", spec)).await;
        answer.refused(500, "", &failed(why));
    }
    assert_eq!(server.get(&path).await.code, 404, "nothing was created");
}

#[tokio::test]
async fn requests_that_are_no_configuration_are_refused() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let config = gadget("a", json!({"color": "red"}));
    server.apply(&path, "one", config.clone()).await.ok();
    let before = server.get(&path).await.bytes;
    let content = [("content-type", "application/apply-patch+yaml")];
    server.send(Method::PATCH, &path, &content, &config.to_string()).await.refused(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
    );
    server.merge(&format!("{path}?force=true"), json!({})).await.refused(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
    );
    let managed = with_meta(config.clone(), json!({"managedFields": []}));
    server.apply(&path, "one", managed).await.refused(
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    );
    let mut other = config.clone();
    other["kind"] = "Other".into();
    server.apply(&path, "one", other).await.refused(
        400,
        "BadRequest",
        "invalid object type: example.com/v1, Kind=Other",
    );
    let stale = with_meta(config.clone(), json!({"resourceVersion": "1"}));
    server.apply(&path, "one", stale).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on gadgets.example.com \"a\": the object has been modified; please apply your changes to the latest version and try again",
    );
    server.apply(&path, "one", gadget("b", json!({}))).await.refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
    for text in ["[]", "a: b: c", "\t"] {
        assert_eq!(server.apply_text(&path, "one", text).await.code, 400, "{text}");
    }
    assert_eq!(server.get(&path).await.bytes, before);
}

#[tokio::test]
async fn keys_given_twice_are_warned_of_or_refused() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let text =
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec:\n  color: red\n  color: blue\n";
    let strict = server.apply_text(&path, "one&fieldValidation=Strict", text).await;
    strict.refused(
        400,
        "BadRequest",
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"color\" already set in map",
    );
    let warned = server.apply_text(&path, "one", text).await;
    assert_eq!(warned.warnings(), ["line 6: key \"color\" already set in map"]);
    assert_eq!(warned.body["spec"]["color"], "blue");
}

#[tokio::test]
async fn an_absent_object_takes_no_uid_and_no_dry_run_leaves_a_trace() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let config = gadget("a", json!({"color": "red"}));
    let with_uid = with_meta(config.clone(), json!({"uid": "u"}));
    server.apply(&path, "one", with_uid).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on gadgets.example.com \"a\": uid mismatch: the provided object specified uid u, and no existing object was found",
    );
    let dry = server.apply(&path, "one&dryRun=All", config.clone()).await;
    assert_eq!((dry.code, server.get(&path).await.code), (201, 404));
    let with_version = with_meta(config, json!({"resourceVersion": "1"}));
    assert_eq!(
        server.apply(&path, "one", with_version).await.code,
        201,
        "a version means nothing yet"
    );
    let before = server.get(&path).await.bytes;
    let dry = server
        .apply(&path, "one&dryRun=All", gadget("a", json!({"color": "blue"})))
        .await;
    assert_eq!(dry.ok()["spec"]["color"], "blue");
    assert_eq!(server.get(&path).await.bytes, before);
}

#[tokio::test]
async fn the_status_has_owners_of_its_own() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let status = |phase: &str| {
        let mut config = gadget("a", json!({"color": "black"}));
        config["status"] = json!({"phase": phase});
        config
    };
    let main = server.apply(&path, "one", status("lost")).await;
    assert_eq!(owners(&main), [r#"one Apply {"f:spec":{"f:color":{}}}"#]);
    let applied = server.apply(&format!("{path}/status"), "one", status("up")).await;
    assert_eq!(
        owners(&applied),
        [
            r#"one Apply {"f:spec":{"f:color":{}}}"#,
            r#"one Apply status {"f:status":{"f:phase":{}}}"#
        ]
    );
    server
        .apply(&format!("{path}/status"), "two", status("down"))
        .await
        .refused(
            409,
            "Conflict",
            "Apply failed with 1 conflict: conflict with \"one\" with subresource \"status\": .status.phase",
        );
    let absent = server
        .apply(&format!("{GADGETS}/b/status"), "one", gadget("b", json!({})))
        .await;
    absent.refused(404, "NotFound", "gadgets.example.com \"b\" not found");
}

#[tokio::test]
async fn replicas_change_hands_through_the_scale() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    server
        .apply(&path, "one", gadget("a", json!({"color": "red", "replicas": 2})))
        .await
        .ok();
    let conflict = server.apply(&format!("{path}/scale"), "two", scale(3)).await;
    conflict.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas",
    );
    let patch = json!({"spec": {"replicas": 3}});
    server
        .merge(&format!("{path}/scale?fieldManager=scaler"), patch)
        .await
        .ok();
    assert_eq!(
        owners(&server.get(&path).await),
        [
            r#"one Apply {"f:spec":{"f:color":{}}}"#,
            r#"scaler Update scale {"f:spec":{"f:replicas":{}}}"#
        ]
    );
    server.apply(&format!("{path}/scale"), "two", scale(3)).await.ok();
    assert_eq!(server.get(&path).await.ok()["spec"]["replicas"], 3);
}

#[tokio::test]
async fn ownership_can_be_reset_and_starts_anew_with_the_next_apply() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    server
        .apply(&path, "one", gadget("a", json!({"color": "red"})))
        .await
        .ok();
    let reset = json!({"metadata": {"managedFields": [{}]}});
    assert_eq!(owners(&server.merge(&path, reset).await), Vec::<String>::new());
    let again = server
        .apply(&path, "two", gadget("a", json!({"color": "red"})))
        .await;
    assert_eq!(
        owners(&again),
        [
            r#"two Apply {"f:spec":{"f:color":{}}}"#,
            r#"before-first-apply Update {"f:spec":{".":{},"f:color":{},"f:replicas":{}}}"#
        ]
    );
}

#[tokio::test]
async fn writes_without_effect_leave_version_and_times_alone() {
    let server = Server::start().await;
    let path = format!("{MAPS}/a");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let created = server
        .post(&format!("{MAPS}?fieldManager=one"), map.clone())
        .await;
    assert_eq!(owners(&created), [r#"one Update {"f:data":{".":{},"f:k":{}}}"#]);
    let put = server.put(&format!("{path}?fieldManager=two"), &map).await;
    assert_eq!(put.bytes, created.bytes);
    let merged = server
        .merge(&format!("{path}?fieldManager=two"), json!({"data": {"k": "v"}}))
        .await;
    assert_eq!(merged.bytes, created.bytes);
}

#[tokio::test]
async fn kubectl_takes_over_what_it_applied_from_the_client() {
    let server = with_gadgets().await;
    let path = format!("{GADGETS}/a");
    let config = gadget("a", json!({"color": "red"}));
    let last =
        json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": config.to_string()}});
    let first = with_meta(config, last);
    server
        .post(
            &format!("{GADGETS}?fieldManager=kubectl-client-side-apply"),
            first,
        )
        .await
        .ok();
    let other = gadget("a", json!({"color": "blue"}));
    assert_eq!(server.apply(&path, "other", other.clone()).await.code, 409);
    let taken = server.apply(&path, "kubectl", other).await.ok();
    assert_eq!(taken["spec"]["color"], "blue");
}

#[tokio::test]
async fn entries_of_a_version_that_is_gone_stop_apply_until_they_are_cleared() {
    let server = Server::start().await;
    let mut definition = crate::harness::definition("gadgets", "Gadget");
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(second);
    server.install(definition.clone()).await;
    let path = format!("{GADGETS}/a");
    let mut newer = gadget("a", json!({"x": 1}));
    newer["apiVersion"] = "example.com/v2".into();
    server.post(&GADGETS.replace("/v1/", "/v2/"), newer).await.ok();
    let crd = format!("{}/gadgets.example.com", crate::harness::CRDS);
    server
        .patch(
            &crd,
            "json-patch",
            json!([{"op": "remove", "path": "/spec/versions/1"}]),
        )
        .await
        .ok();
    while server.get(&path.replace("/v1/", "/v2/")).await.code == 200 {
        tokio::task::yield_now().await;
    }
    let config = gadget("a", json!({"y": 1}));
    let gone = "request to convert CR to an invalid group/version: example.com/v2";
    server
        .apply(&path, "one", config.clone())
        .await
        .refused(500, "", gone);
    let merged = server.merge(&path, json!({"spec": {"z": 1}})).await;
    assert_eq!(owners(&merged), Vec::<String>::new());
    assert_eq!(server.apply(&path, "one", config).await.code, 200);
}

#[tokio::test]
async fn apply_of_built_in_kinds_follows_their_list_types() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/home/deployments/a";
    let config = |containers: Value| {
        let labels = json!({"app": "a"});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        })
    };
    let created = server
        .apply(path, "one", config(json!([{"name": "c", "image": "i"}])))
        .await;
    assert_eq!(created.code, 201);
    let second = server
        .apply(path, "two", config(json!([{"name": "d", "image": "j"}])))
        .await
        .ok();
    assert_eq!(
        second["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let conflict = server
        .apply(path, "two", config(json!([{"name": "c", "image": "k"}])))
        .await;
    let field = r#".spec.template.spec.containers[name="c"].image"#;
    conflict.refused(
        409,
        "Conflict",
        &format!("Apply failed with 1 conflict: conflict with \"one\": {field}"),
    );
    let left = server
        .apply(path, "two", config(json!([{"name": "c", "image": "i"}])))
        .await
        .ok();
    assert_eq!(
        left["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(version(&left) > version(&second));
}
