//! `skopos check` beside the embedded server: what one refuses the other does, in the same words.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use serde_json::Value;
use skopos_client::{Api, Error, Resource, WriteParams};
use skopos_object::{GroupVersionKind, yaml};
use skopos_testkit::TestServer;
use support::run;

const JARS: &str = include_str!("jars.yaml");

/// What was said of one object.
#[derive(Debug, Default, PartialEq)]
struct Said {
    problems: Vec<String>,
    warnings: Vec<String>,
}

/// What `check` says of the last object in a text.
fn check(dir: &Path, text: &str) -> Said {
    std::fs::write(dir.join("all.yaml"), text).unwrap();
    let done = run(dir, &["check", "-f", "all.yaml", "-o", "json"]);
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    let messages = |list: &str| -> Vec<String> {
        let found = report[list].as_array().unwrap().iter();
        found
            .map(|one| one["message"].as_str().unwrap().to_owned())
            .collect()
    };
    let said = Said {
        problems: messages("problems"),
        warnings: messages("warnings"),
    };
    assert_eq!(done.code, i32::from(!said.problems.is_empty()), "{text}");
    assert_eq!(report["unchecked"], 0, "{text}");
    said
}

/// What the server says to the creation of an object.
async fn create(server: &TestServer, plural: &str, object: &Value) -> Said {
    let gvk = GroupVersionKind::from_api_version(
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    )
    .unwrap();
    let direct = server.direct();
    let api = match plural {
        "customresourcedefinitions" => Api::all(&direct, &Resource::known(&gvk, plural, false)),
        _ => Api::namespaced(&direct, &Resource::known(&gvk, plural, true), "default"),
    };
    let params = WriteParams {
        dry_run: true,
        field_validation: "Strict".to_owned(),
        ..WriteParams::default()
    };
    match api.create(object, &params).await {
        Ok(answer) => Said {
            warnings: answer.warnings,
            ..Said::default()
        },
        Err(error) => Said {
            problems: reasons(&error),
            ..Said::default()
        },
    }
}

/// The faults of a refused object, without what only says which object it is.
fn reasons(error: &Error) -> Vec<String> {
    let status = error.status().unwrap();
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<String> = causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    let shown = status.message.split_once(" cannot be handled as a ");
    match shown.and_then(|(_, why)| why.split_once(": ")) {
        Some((_, why)) => vec![why.trim_start_matches("strict decoding error: ").to_owned()],
        None if causes.is_empty() => vec![status.message.clone()],
        None => causes,
    }
}

fn jar(fields: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Jar\nmetadata: {{name: a}}\n{fields}\n")
}

/// Both say the same of an object, and this is in it; nothing if it says nothing.
async fn compare(server: &TestServer, plural: &str, before: &str, text: &str, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let object = yaml::decode(text.as_bytes()).unwrap().value;
    let said = check(dir.path(), &format!("{before}{text}"));
    let answered = create(server, plural, &object).await;
    assert_eq!(said.problems, answered.problems, "{text}");
    if said.problems.is_empty() {
        assert_eq!(said.warnings, answered.warnings, "{text}");
    }
    let all = [said.problems, said.warnings].concat().join("\n");
    assert!(
        all.contains(expected) && expected.is_empty() == all.is_empty(),
        "{text}: {all}"
    );
}

#[tokio::test]
async fn check_says_of_objects_what_the_server_says() {
    let server = TestServer::start().await;
    server.apply(JARS).await;
    let before = format!("{JARS}---\n");
    let numbers = format!("spec: {{numbers: [{}]}}", vec!["1"; 600].join(","));
    for (text, expected) in [
        // Defaults come first: without them there would be no size to compare with, and no lid.
        (jar("spec: {}"), ""),
        (jar("spec: {filled: 1}"), ""),
        (jar("spec: {filled: 2}"), "spec.filled: Invalid value: holds 1"),
        (jar("spec: {size: 3}"), "spec: Forbidden: no cork is so large"),
        (jar("spec: {size: 3, lid: screw}"), ""),
        (
            jar("spec: {maker: unknown}"),
            "spec.maker: Invalid value: \"unknown\": failed rule",
        ),
        (
            jar("spec: {notes: {second: a}}"),
            "no such key: first evaluating rule",
        ),
        (jar("spec: {size: 0, filled: 9}"), "spec.filled"),
        (
            jar("spec: {size: many}"),
            "some validation rules were not checked",
        ),
        (jar(""), "spec: Required value"),
        (jar(&numbers), "no further validation rules will be run"),
        (jar("spec: {colour: red}"), "unknown field \"spec.colour\""),
        (
            jar("spec: {tags: [a, a]}"),
            "spec.tags[1]: Duplicate value: \"a\"",
        ),
        (
            jar("spec: {fruits: [{name: a}, {name: a}]}"),
            "spec.fruits[1]: Duplicate value",
        ),
        (
            jar("spec: {fruits: [{name: a, until: soon}]}"),
            "spec.fruits[0].until: Invalid value",
        ),
        (jar("spec: {count: -1}"), "spec.count: Invalid value"),
        (
            jar("spec: {inside: {kind: Pod}}"),
            "spec.inside.apiVersion: Required value",
        ),
        (
            jar("spec: {inside: {apiVersion: v1, kind: Pod, metadata: {labels: {a: b c}}}}"),
            "spec.inside.metadata.labels",
        ),
        (
            jar("spec: {inside: {apiVersion: v1, kind: Pod, metadata: {labels: {a: 1}}}}"),
            "spec.inside.metadata",
        ),
        // A status with an endpoint of its own is not the creator's.
        (jar("spec: {}\nstatus: {count: many}"), ""),
        (
            jar("spec: {}").replace("name: a", "name: A_b"),
            "metadata.name: Invalid value: \"A_b\"",
        ),
        (jar("spec: {}").replace("name: a", "name: lid"), "a lid is no jar"),
        (jar("spec: {}").replace("name: a", "generateName: a-"), ""),
        (
            jar("spec: {}").replace("name: a", "generateName: lid-"),
            "a lid is no jar",
        ),
        (
            jar("spec: {}").replace("name: a", "name: a, labels: {x: b c}"),
            "metadata.labels",
        ),
        (
            jar("spec: {}").replace("name: a", "name: a, labels: {x: 1}"),
            "json: cannot unmarshal number",
        ),
        (
            jar("spec: {}").replace("name: a", "name: a, lables: {x: y}"),
            "unknown field \"metadata.lables\"",
        ),
        (
            jar("spec: {}").replace("name: a", "name: a, resourceVersion: '7'"),
            "resourceVersion should not be set",
        ),
        (
            jar("spec: {}").replace("name: a", "name: a, generation: -1, uid: x"),
            "",
        ),
        (
            jar("spec: {}").replace("name: a", "name: a, finalizers: [mine]"),
            "prefer a domain-qualified finalizer name",
        ),
        (
            jar("any: 1").replace("v1", "v0"),
            "example.com/v0 Jar is deprecated; use example.com/v1 Jar",
        ),
    ] {
        compare(&server, "jars", &before, &text, expected).await;
    }
}

#[tokio::test]
async fn check_says_of_definitions_what_the_server_says() {
    let server = TestServer::start().await;
    for (from, to, expected) in [
        ("", "", ""),
        (
            "self >= oldSelf",
            "self >= oldself",
            "undeclared reference to 'oldself'",
        ),
        (
            "(self.size == 1 ? '1' : 'more')\"",
            "'' == ''\"",
            "messageExpression must evaluate to a string",
        ),
        (
            "maxItems: 1000",
            "maxItems: 10000",
            "estimated rule cost exceeds budget",
        ),
        ("FieldValueForbidden", "Odd", "reason: Unsupported value"),
        (
            "type: array\n                maxItems",
            "maxItems",
            "[numbers].type: Required value",
        ),
        ("rule: self >= oldSelf", "rule: self > 1", "failed rule: self > 1"),
        (
            "scope: Namespaced",
            "scope: Everywhere",
            "spec.scope: Unsupported value",
        ),
        ("scope:", "scoped: x\n  scope:", "unknown field \"spec.scoped\""),
        (
            "scope: Namespaced",
            "scope: [Namespaced]",
            "json: cannot unmarshal array",
        ),
        (
            "name: jars",
            "name: jar",
            "metadata.name: Invalid value: \"jar.example.com\"",
        ),
        ("format: date", "format: day", "unrecognized format \"day\""),
        (
            "spec:",
            "status: {acceptedNames: {plural: '-', kind: '-'}, storedVersions: []}\nspec:",
            "",
        ),
    ] {
        let text = JARS.replacen(from, to, 1);
        compare(&server, "customresourcedefinitions", "", &text, expected).await;
    }
}

#[tokio::test]
async fn check_says_of_our_kinds_what_the_server_says() {
    let server = TestServer::start().await;
    for definition in skopos_api::definitions() {
        server.put(&definition).await;
    }
    let sink = "apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {name: a}\nspec: {stdout: {}}\n";
    for (metadata, expected) in [
        ("name: a", ""),
        ("name: A_b", "metadata.name: Invalid value: \"A_b\""),
        ("name: a, labels: {x: b c}", "metadata.labels: Invalid value"),
        ("name: a, lables: {x: y}", "unknown field \"metadata.lables\""),
    ] {
        compare(&server, "sinks", "", &sink.replace("name: a", metadata), expected).await;
    }
}

#[test]
fn a_broken_rule_is_shown_with_file_line_and_object() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jars.yaml"), JARS).unwrap();
    let objects = format!("{}---\n{}", jar("spec: {}"), jar("spec: {filled: 2}"));
    std::fs::write(dir.path().join("objects.yaml"), objects).unwrap();
    run(dir.path(), &["check", "-f", "."]).fails(
        1,
        &[
            "problem  ./objects.yaml:6: Jar a: spec.filled: Invalid value: holds 1\n",
            "3 objects in 2 files: 1 problem, 0 warnings\n",
        ],
    );
}
