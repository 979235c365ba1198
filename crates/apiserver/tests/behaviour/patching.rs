//! Patches: three languages, no lost updates, preconditions only when asked for.

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{HOME, MAPS, Server, WIDGETS, config_map, version, widget, with_meta};

const REJECTED: &str = "the server rejected our request due to an error in our request";

/// Patches a fresh config map with data `{"a": "1", "b": "2"}` and compares its data.
async fn check(kind: &str, cases: &[(Value, Value)]) {
    let server = Server::start().await;
    for (i, (patch, expected)) in cases.iter().enumerate() {
        let name = format!("m{i}");
        server
            .post(MAPS, config_map(&name, json!({"a": "1", "b": "2"})))
            .await
            .ok();
        let answer = server.patch(&format!("{MAPS}/{name}"), kind, patch.clone()).await;
        assert_eq!(answer.code, 200, "{patch}: {}", answer.text());
        assert_eq!(answer.body["data"], *expected, "{patch}");
        assert_eq!(server.get(&format!("{MAPS}/{name}")).await.ok(), answer.body);
    }
}

#[tokio::test]
async fn json_patches_are_applied_operation_by_operation() {
    let op = |op: &str, path: &str, value: Value| json!({"op": op, "path": path, "value": value});
    let from = |op: &str, from: &str, path: &str| json!({"op": op, "from": from, "path": path});
    let cases = [
        (
            json!([op("add", "/data/c", json!("3"))]),
            json!({"a": "1", "b": "2", "c": "3"}),
        ),
        (
            json!([op("replace", "/data/a", json!("9"))]),
            json!({"a": "9", "b": "2"}),
        ),
        (json!([{"op": "remove", "path": "/data/a"}]), json!({"b": "2"})),
        (
            json!([from("move", "/data/a", "/data/z")]),
            json!({"b": "2", "z": "1"}),
        ),
        (
            json!([from("copy", "/data/a", "/data/z")]),
            json!({"a": "1", "b": "2", "z": "1"}),
        ),
        (
            json!([
                op("test", "/data/a", json!("1")),
                op("add", "/data/c", json!("3"))
            ]),
            json!({"a": "1", "b": "2", "c": "3"}),
        ),
        (json!([]), json!({"a": "1", "b": "2"})),
    ];
    check("json-patch", &cases).await;
}

#[tokio::test]
async fn json_patches_that_do_not_apply_change_nothing() {
    let server = Server::start().await;
    let created = server.post(MAPS, config_map("a", json!({"k": "1"}))).await.ok();
    let path = &format!("{MAPS}/a");
    let annotate = json!([{"op": "add", "path": "/metadata/annotations", "value": {}}, {"op": "add", "path": "/metadata/annotations/x~1y", "value": "s"}]);
    let cases = [
        json!([{"op": "test", "path": "/data/k", "value": "2"}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "add", "path": "/none/none", "value": "1"}]),
    ];
    for patch in cases {
        let answer = server.patch(path, "json-patch", patch.clone()).await;
        assert_eq!(answer.code, 422, "{patch}: {}", answer.text());
    }
    let failed = json!([{"op": "test", "path": "/data/k", "value": "2"}]);
    server
        .patch(path, "json-patch", failed)
        .await
        .refused(422, "Invalid", REJECTED);
    assert_eq!(server.get(path).await.ok(), created);
    let annotated = server.patch(path, "json-patch", annotate).await.ok();
    assert_eq!(annotated["metadata"]["annotations"], json!({"x/y": "s"}));
    let many: Vec<Value> = (0..10_001)
        .map(|_| json!({"op": "test", "path": "/kind", "value": "ConfigMap"}))
        .collect();
    let answer = server.patch(path, "json-patch", many.into()).await;
    let message =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    answer.refused(413, "RequestEntityTooLarge", message);
}

#[tokio::test]
async fn merge_patches_set_and_null_removes() {
    let cases = [
        (json!({"data": {"c": "3"}}), json!({"a": "1", "b": "2", "c": "3"})),
        (json!({"data": {"a": null}}), json!({"b": "2"})),
        (json!({"data": {"none": null}}), json!({"a": "1", "b": "2"})),
        (json!({"data": null}), Value::Null),
    ];
    check("merge-patch", &cases).await;
}

#[tokio::test]
async fn strategic_merge_patches_merge_lists_by_key() {
    let server = Server::start().await;
    let containers = json!([{"name": "a", "image": "i:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "j"}]);
    let pod = json!({"metadata": {"name": "p", "labels": {"l": "1"}}, "spec": {"containers": containers}});
    let created = server.post(&format!("{HOME}/pods"), pod).await.ok();
    let patch = json!({
        "metadata": {"labels": {"m": "2"}},
        "spec": {"containers": [{"name": "b", "image": "k"}], "activeDeadlineSeconds": 5},
    });
    let patched = server
        .patch(&format!("{HOME}/pods/p"), "strategic-merge-patch", patch)
        .await
        .ok();
    assert_eq!(patched["metadata"]["labels"], json!({"l": "1", "m": "2"}));
    let images: Vec<&Value> = patched["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["image"])
        .collect();
    let names: Vec<&Value> = patched["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(
        (images, names),
        (vec![&json!("i:1"), &json!("k")], vec![&json!("a"), &json!("b")])
    );
    assert_eq!(
        patched["spec"]["containers"][0]["env"],
        created["spec"]["containers"][0]["env"]
    );
    let replace = json!({"metadata": {"labels": {"$patch": "replace", "n": "3"}}});
    let replaced = server
        .patch(&format!("{HOME}/pods/p"), "strategic-merge-patch", replace)
        .await
        .ok();
    assert_eq!(replaced["metadata"]["labels"], json!({"n": "3"}));
}

#[tokio::test]
async fn strategic_merge_patches_are_not_for_custom_resources() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let answer = server
        .patch(
            &format!("{WIDGETS}/a"),
            "strategic-merge-patch",
            json!({"spec": {"size": 2}}),
        )
        .await;
    let types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {types}");
    answer.refused(415, "UnsupportedMediaType", &message);
}

#[tokio::test]
async fn patches_without_a_version_never_conflict_and_none_is_lost() {
    let server = Server::with_widgets().await;
    server.post(MAPS, config_map("m", json!({}))).await.ok();
    server.post(WIDGETS, widget("w", json!({"free": {}}))).await.ok();
    let patch = async |i: usize| {
        let (key, value) = (format!("k{i}"), format!("v{i}"));
        let (map_path, widget_path) = (format!("{MAPS}/m"), format!("{WIDGETS}/w"));
        let map = server.patch(&map_path, "strategic-merge-patch", json!({"data": {&key: value}}));
        let merged = server.merge(&widget_path, json!({"spec": {"free": {&key: value}}}));
        let path = format!("/spec/free/j{i}");
        let added = json!([{"op": "add", "path": path, "value": value}]);
        let added = server.patch(&widget_path, "json-patch", added);
        let (map, merged, added) = tokio::join!(map, merged, added);
        [map.code, merged.code, added.code]
    };
    let codes = join_all((0..16).map(patch)).await;
    assert_eq!(codes.concat(), [200; 48]);
    assert_eq!(
        server.get(&format!("{MAPS}/m")).await.ok()["data"]
            .as_object()
            .unwrap()
            .len(),
        16
    );
    let widget = server.get(&format!("{WIDGETS}/w")).await.ok();
    assert_eq!(widget["spec"]["free"].as_object().unwrap().len(), 32);
    assert_eq!(widget["metadata"]["generation"], 33);
}

#[tokio::test]
async fn a_version_in_a_patch_is_a_precondition() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let path = &format!("{WIDGETS}/a");
    let current = created["metadata"]["resourceVersion"].clone();
    let patch = json!({"metadata": {"resourceVersion": current}, "spec": {"size": 2}});
    server.merge(path, patch.clone()).await.ok();
    let message = "Operation cannot be fulfilled on widgets.example.com \"a\": the object has been modified; please apply your changes to the latest version and try again";
    server.merge(path, patch).await.refused(409, "Conflict", message);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_keeps_the_version_and_tells_nobody() {
    let server = Server::with_widgets().await;
    let created = server.post(WIDGETS, widget("a", json!({"size": 2}))).await.ok();
    let path = &format!("{WIDGETS}/a");
    let mut watch = server
        .watch(&format!("{WIDGETS}?resourceVersion={}", version(&created)))
        .await;
    for patch in [
        json!({}),
        json!({"spec": {"size": 2}}),
        json!({"spec": {"unknown": 1}}),
        json!({"metadata": {"labels": null}}),
    ] {
        assert_eq!(server.merge(path, patch.clone()).await.ok(), created, "{patch}");
    }
    let dry = server
        .merge(&format!("{path}?dryRun=All"), json!({"spec": {"size": 3}}))
        .await
        .ok();
    assert_eq!(
        (&dry["spec"]["size"], version(&dry)),
        (&json!(3), version(&created))
    );
    let last = server.merge(path, json!({"spec": {"size": 4}})).await.ok();
    assert_eq!(watch.next().await.object, last);
}

#[tokio::test]
async fn patches_are_pruned_defaulted_and_validated_like_updates() {
    let server = Server::with_widgets().await;
    server.post(WIDGETS, widget("a", json!({}))).await.ok();
    let path = &format!("{WIDGETS}/a");
    let answer = server
        .merge(path, json!({"spec": {"unknown": 1, "size": null}}))
        .await;
    assert_eq!(answer.warnings(), ["unknown field \"spec.unknown\""]);
    assert_eq!(
        answer.ok()["spec"]["size"],
        1,
        "a removed field gets its default again"
    );
    let message = "Widget.example.com \"a\" is invalid: spec.size: Invalid value: 200: spec.size in body should be less than or equal to 100";
    server
        .merge(path, json!({"spec": {"size": 200}}))
        .await
        .refused(422, "Invalid", message);
    let strict = server
        .merge(
            &format!("{path}?fieldValidation=Strict"),
            json!({"spec": {"unknown": 1}}),
        )
        .await;
    assert_eq!(strict.code, 422, "{}", strict.text());
    let message = strict.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("strict decoding error: unknown field \"spec.unknown\""),
        "{message}"
    );
    let twice = r#"{"spec":{"size":1,"size":2}}"#;
    let headers = [("content-type", "application/merge-patch+json")];
    let strict = server
        .send(
            Method::PATCH,
            &format!("{path}?fieldValidation=Strict"),
            &headers,
            twice,
        )
        .await;
    let message = strict.body["message"].as_str().unwrap();
    assert_eq!(strict.code, 422);
    assert!(
        message.ends_with("strict decoding error: duplicate field \"spec.size\""),
        "{message}"
    );
    let warned = server.send(Method::PATCH, path, &headers, twice).await;
    assert_eq!(warned.warnings(), ["duplicate field \"spec.size\""]);
}

#[tokio::test]
async fn an_absent_object_cannot_be_patched() {
    let server = Server::with_widgets().await;
    let answer = server
        .merge(&format!("{WIDGETS}/none"), json!({"spec": {}}))
        .await;
    answer.refused(404, "NotFound", "widgets.example.com \"none\" not found");
    let answer = server
        .patch(&format!("{MAPS}/none"), "strategic-merge-patch", json!({}))
        .await;
    answer.refused(404, "NotFound", "configmaps \"none\" not found");
}

#[tokio::test]
async fn identity_cannot_be_patched() {
    let server = Server::with_widgets().await;
    let created = server
        .post(
            WIDGETS,
            with_meta(widget("a", json!({})), json!({"labels": {"x": "y"}})),
        )
        .await
        .ok();
    let path = &format!("{WIDGETS}/a");
    assert_eq!(
        server.merge(path, json!({"metadata": {"name": "b"}})).await.code,
        400
    );
    assert_eq!(
        server.merge(path, json!({"metadata": {"uid": "b"}})).await.code,
        422
    );
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    let moved = server.merge(path, json!({"metadata": {"namespace": "b"}})).await;
    moved.refused(400, "BadRequest", message);
    assert_eq!(server.get(path).await.ok(), created);
}
