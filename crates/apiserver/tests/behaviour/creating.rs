//! Creates: what is kept, what is filled in, what is refused, and in which order.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{HOME, MAPS, Server, WIDGETS, config_map, definition, version, widget, with_meta};

/// Creates a widget with each spec and compares what is read back.
async fn check_stored(cases: &[(Value, Value)]) {
    let server = Server::with_widgets().await;
    for (i, (given, expected)) in cases.iter().enumerate() {
        let name = format!("w{i}");
        let created = server.post(WIDGETS, widget(&name, given.clone())).await.ok();
        let read = server.get(&format!("{WIDGETS}/{name}")).await.ok();
        assert_eq!(read["spec"], *expected, "{given}");
        assert_eq!(read, created, "the answer to a create is what is stored");
    }
}

#[tokio::test]
async fn unknown_fields_are_pruned_and_missing_ones_defaulted() {
    let defaults = json!({"nested": {"depth": 3}, "size": 1, "title": "untitled"});
    let and = |more: Value| {
        let mut spec = defaults.clone();
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec
    };
    let cases = [
        (json!({}), and(json!({}))),
        (json!({"unknown": 1, "size": 2}), and(json!({"size": 2}))),
        (json!({"nested": {"unknown": 1}}), and(json!({}))),
        (
            json!({"parts": [{"name": "a", "x": 1}]}),
            and(json!({"parts": [{"name": "a", "weight": 10}]})),
        ),
        (
            json!({"free": {"a": {"b": [null, 1.5]}}}),
            and(json!({"free": {"a": {"b": [null, 1.5]}}})),
        ),
        (json!({"port": "http"}), and(json!({"port": "http"}))),
        (json!({"port": 80}), and(json!({"port": 80}))),
        (json!({"size": 3.0}), and(json!({"size": 3}))),
    ];
    check_stored(&cases).await;
}

#[tokio::test]
async fn nulls_are_kept_where_nullable_defaulted_where_possible_and_dropped_elsewhere() {
    let cases = [
        (
            json!({"title": null}),
            json!({"nested": {"depth": 3}, "size": 1, "title": "untitled"}),
        ),
        (
            json!({"note": null}),
            json!({"nested": {"depth": 3}, "note": null, "size": 1, "title": "untitled"}),
        ),
        (
            json!({"color": null}),
            json!({"nested": {"depth": 3}, "size": 1, "title": "untitled"}),
        ),
        (
            json!({"nested": {"depth": null}}),
            json!({"nested": {"depth": 3}, "size": 1, "title": "untitled"}),
        ),
        (
            json!({"nested": null}),
            json!({"nested": {"depth": 3}, "size": 1, "title": "untitled"}),
        ),
    ];
    check_stored(&cases).await;
}

#[tokio::test]
async fn what_the_schema_does_not_allow_is_refused_with_every_reason() {
    let server = Server::with_widgets().await;
    let cases = [
        (
            json!({"size": 101}),
            r#"spec.size: Invalid value: 101: spec.size in body should be less than or equal to 100"#,
        ),
        (
            json!({"size": "x"}),
            r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ),
        (
            json!({"color": "pink"}),
            r#"spec.color: Unsupported value: "pink": supported values: "red", "green", "blue""#,
        ),
        (json!({"parts": [{}]}), r#"spec.parts[0].name: Required value"#),
        (
            json!({"tags": ["a", "a"]}),
            r#"spec.tags[1]: Duplicate value: "a""#,
        ),
        (
            json!({"parts": [{"name": "a"}, {"name": "a"}]}),
            r#"spec.parts[1]: Duplicate value: {"name":"a"}"#,
        ),
    ];
    for (spec, why) in cases {
        let answer = server.post(WIDGETS, widget("a", spec)).await;
        answer.refused(
            422,
            "Invalid",
            &format!("Widget.example.com \"a\" is invalid: {why}"),
        );
    }
    let both = server
        .post(WIDGETS, widget("a", json!({"size": -1, "color": "pink"})))
        .await;
    let causes = both.body["details"]["causes"].as_array().unwrap();
    let fields: BTreeSet<&str> = causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, BTreeSet::from(["spec.color", "spec.size"]));
    assert_eq!(server.names(WIDGETS).await, [""; 0]);
}

#[tokio::test]
async fn field_validation_decides_about_unknown_and_duplicate_fields() {
    let server = Server::with_widgets().await;
    let body = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","odd":1},"spec":{"size":1,"size":2,"extra":{"a":1}}}"#;
    let send = async |name: &str, query: &str| {
        let body = body.replace("NAME", name);
        server
            .send(
                Method::POST,
                &format!("{WIDGETS}{query}"),
                &[("content-type", "application/json")],
                &body,
            )
            .await
    };
    let complaints = [
        "duplicate field \"spec.size\"",
        "unknown field \"metadata.odd\"",
        "unknown field \"spec.extra\"",
    ];
    let strict = send("strict", "?fieldValidation=Strict").await;
    let why = complaints.join(", ");
    let message =
        format!("Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: {why}");
    strict.refused(400, "BadRequest", &message);
    for (name, query) in [("warn", "?fieldValidation=Warn"), ("unsaid", "")] {
        let answer = send(name, query).await;
        assert_eq!(answer.warnings(), complaints, "{name}");
        assert_eq!(answer.ok()["spec"]["size"], 2, "the last duplicate counts");
    }
    let ignored = send("ignore", "?fieldValidation=Ignore").await;
    assert_eq!((ignored.code, ignored.warnings()), (201, vec![]));
    let wrong = send("wrong", "?fieldValidation=Maybe").await;
    assert_eq!(
        (wrong.code, wrong.body["reason"].as_str()),
        (422, Some("Invalid"))
    );
    assert_eq!(server.names(WIDGETS).await, ["ignore", "unsaid", "warn"]);
}

#[tokio::test]
async fn strictness_holds_for_built_in_kinds_too() {
    let server = Server::start().await;
    let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "extra": 1});
    let strict = server
        .post(&format!("{MAPS}?fieldValidation=Strict"), odd.clone())
        .await;
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"extra\"";
    strict.refused(400, "BadRequest", message);
    assert_eq!(
        server.post(MAPS, odd).await.warnings(),
        ["unknown field \"extra\""]
    );
}

#[tokio::test]
async fn a_dry_run_does_everything_but_store() {
    let server = Server::with_widgets().await;
    let mut watch = server.watch(WIDGETS).await;
    let dry = server
        .post(&format!("{WIDGETS}?dryRun=All"), widget("a", json!({})))
        .await;
    assert_eq!((dry.code, &dry.body["spec"]["size"]), (201, &json!(1)));
    assert!(dry.body["metadata"]["uid"].is_string());
    assert_eq!(server.get(&format!("{WIDGETS}/a")).await.code, 404);
    let invalid = server
        .post(
            &format!("{WIDGETS}?dryRun=All"),
            widget("a", json!({"size": 101})),
        )
        .await;
    assert_eq!(invalid.code, 422);
    server.post(WIDGETS, widget("b", json!({}))).await.ok();
    assert_eq!(watch.next().await.brief(), "ADDED b");
    let taken = server
        .post(&format!("{WIDGETS}?dryRun=All"), widget("b", json!({})))
        .await;
    taken.refused(409, "AlreadyExists", "widgets.example.com \"b\" already exists");
    let wrong = server
        .post(&format!("{WIDGETS}?dryRun=Some"), widget("c", json!({})))
        .await;
    assert_eq!(wrong.code, 422);
}

#[tokio::test]
async fn generated_names_are_the_prefix_and_five_characters() {
    let server = Server::with_widgets().await;
    let long = "a".repeat(80);
    for (prefix, kept) in [("thing-", 6), (long.as_str(), 58)] {
        let object =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"generateName": prefix}});
        let created = server.post(WIDGETS, object).await.ok();
        let name = created["metadata"]["name"].as_str().unwrap();
        let (start, random) = name.split_at(kept);
        assert!(prefix.starts_with(start), "{name}");
        assert_eq!(random.len(), 5, "{name}");
        assert!(
            random
                .bytes()
                .all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)),
            "{name}"
        );
        assert_eq!(created["metadata"]["generateName"], prefix);
    }
}

#[tokio::test]
async fn what_the_server_owns_cannot_be_set_on_creation() {
    let server = Server::with_widgets().await;
    let wish = json!({
        "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7, "selfLink": "/x",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
    });
    let created = server
        .post(WIDGETS, with_meta(widget("a", json!({})), wish))
        .await
        .ok();
    let metadata = created["metadata"].as_object().unwrap();
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(metadata["generation"], 1);
    for absent in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        assert!(!metadata.contains_key(absent), "{absent}");
    }
}

#[tokio::test]
async fn a_version_on_creation_is_refused() {
    let server = Server::with_widgets().await;
    let object = with_meta(widget("a", json!({})), json!({"resourceVersion": "1"}));
    let answer = server.post(WIDGETS, object).await;
    answer.refused(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
}

#[tokio::test]
async fn the_status_is_dropped_only_where_it_has_an_endpoint_of_its_own() {
    let server = Server::with_widgets().await;
    server.install(definition("opens", "Open")).await;
    let mut object = widget("a", json!({}));
    object["status"] = json!({"ready": true});
    assert_eq!(server.post(WIDGETS, object).await.ok().get("status"), None);
    let open = json!({"apiVersion": "example.com/v1", "kind": "Open", "metadata": {"name": "a"}, "status": {"x": 1}});
    let opens = "/apis/example.com/v1/namespaces/home/opens";
    assert_eq!(server.post(opens, open).await.ok()["status"], json!({"x": 1}));
}

#[tokio::test]
async fn places_that_do_not_fit_are_refused() {
    let server = Server::with_widgets().await;
    let object = widget("a", json!({}));
    let nowhere = WIDGETS.replace("home", "nowhere");
    server
        .post(&nowhere, object.clone())
        .await
        .refused(404, "NotFound", "namespaces \"nowhere\" not found");
    let elsewhere = with_meta(object.clone(), json!({"namespace": "other"}));
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    server
        .post(WIDGETS, elsewhere)
        .await
        .refused(400, "BadRequest", message);
    server.post(WIDGETS, object.clone()).await.ok();
    let again = server.post(WIDGETS, object).await;
    again.refused(409, "AlreadyExists", "widgets.example.com \"a\" already exists");
}

#[tokio::test]
async fn metadata_that_breaks_the_rules_is_refused() {
    let server = Server::start().await;
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let owner = |controller: bool, name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": controller});
    let cases = [
        (json!({"name": "A_b"}), format!("metadata.name: Invalid value: \"A_b\": {subdomain}")),
        (json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}), "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty".into()),
        (json!({"labels": {"a": "-"}}), "metadata.labels: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".into()),
        (json!({"annotations": {"a": "x".repeat(256 * 1024)}}), "metadata.annotations: Too long: may not be more than 262144 bytes".into()),
        (json!({"finalizers": ["orphan", "foregroundDeletion"]}), "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set".into()),
    ];
    for (metadata, why) in cases {
        let name = metadata
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("a")
            .to_owned();
        let answer = server
            .post(MAPS, with_meta(config_map("a", json!({})), metadata))
            .await;
        answer.refused(422, "Invalid", &format!("ConfigMap \"{name}\" is invalid: {why}"));
    }
    let two = json!({"ownerReferences": [owner(true, "p"), owner(true, "q")]});
    let answer = server
        .post(MAPS, with_meta(config_map("a", json!({})), two))
        .await;
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.ends_with("Only one reference can have Controller set to true. Found \"true\" in references for Pod/p and Pod/q"), "{message}");
}

#[tokio::test]
async fn a_finalizer_without_a_domain_brings_a_warning() {
    let server = Server::with_widgets().await;
    let answer = server
        .post(
            WIDGETS,
            with_meta(widget("a", json!({})), json!({"finalizers": ["plain"]})),
        )
        .await;
    let text = "metadata.finalizers: \"plain\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
    assert_eq!(answer.warnings(), [text]);
}

#[tokio::test]
async fn bodies_may_be_yaml() {
    let server = Server::with_widgets().await;
    let yaml = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 7\n";
    let answer = server
        .send(
            Method::POST,
            WIDGETS,
            &[("content-type", "application/yaml")],
            yaml,
        )
        .await;
    assert_eq!(answer.ok()["spec"]["size"], 7);
    let answer = server
        .send(Method::POST, WIDGETS, &[("content-type", "text/csv")], yaml)
        .await;
    assert_eq!(
        (answer.code, answer.body["reason"].as_str()),
        (415, Some("UnsupportedMediaType"))
    );
}

#[tokio::test]
async fn every_create_gets_a_higher_version() {
    let server = Server::start().await;
    let mut last = version(&server.get(HOME).await.ok());
    for name in ["a", "b", "c"] {
        let created = version(&server.post(MAPS, config_map(name, json!({}))).await.ok());
        assert!(created > last, "{created} after {last}");
        last = created;
    }
}
