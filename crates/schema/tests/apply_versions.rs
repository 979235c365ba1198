//! Applies through versions of a kind that have schemas of their own, as kube-apiserver 1.36 answers them.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use skopos_schema::{ApplyError, Manager, Structural, Target, apply, track_update};

const V1: &str = "example.com/v1";
const V2: &str = "example.com/v2";

fn schema(fields: &[&str]) -> Structural {
    let fields: Value = fields
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "string"})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let spec = json!({"type": "object", "properties": fields});
    Structural::from_json(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

/// Writes to a kind whose v1 has the fields `a` and `c`, and whose v2 has `a` and `b`.
fn with<T>(version: &str, manager: &str, write: impl FnOnce(&Target<'_>, &Manager<'_>) -> T) -> T {
    let (first, second) = (schema(&["a", "c"]), schema(&["a", "b"]));
    let target = Target {
        kind: "Jar",
        schema: if version == V1 { &first } else { &second },
        versions: &[(V1, &first), (V2, &second)],
        convert: None,
        empty: None,
        reset: None,
    };
    let manager = Manager {
        name: manager,
        api_version: version,
        subresource: "",
        time: "2026-01-02T03:04:05Z",
    };
    write(&target, &manager)
}

fn applied(version: &str, manager: &str, live: Option<&Value>, spec: &Value) -> Result<Value, ApplyError> {
    let object = json!({"apiVersion": version, "kind": "Jar", "metadata": {"name": "a"}, "spec": spec});
    with(version, manager, |target, manager| {
        apply(target, live, &object, manager, false)
    })
}

fn through(version: &str, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = version.into();
    object
}

#[test]
fn a_field_that_the_version_of_an_owner_does_not_know_is_a_fault() {
    let live = through(V2, &applied(V1, "one", None, &json!({"a": "x"})).unwrap());
    let check = |manager: &str, message: &str| {
        let refused = applied(V2, manager, Some(&live), &json!({"a": "x", "b": "y"}));
        assert_eq!(refused, Err(ApplyError::Invalid(message.to_owned())));
    };
    check(
        "one",
        "failed to prune fields: failed to convert merged object to last applied version: .spec.b: field not declared in schema",
    );
    check(
        "two",
        "failed to convert new object: .spec.b: field not declared in schema",
    );
}

#[test]
fn an_update_with_a_field_that_the_version_of_an_owner_does_not_know_forgets_owners() {
    let live = through(V2, &applied(V1, "one", None, &json!({"a": "x"})).unwrap());
    let mut new = live.clone();
    new["spec"]["b"] = "y".into();
    with(V2, "two", |target, manager| {
        track_update(target, Some(&live), &mut new, manager);
    });
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn what_was_applied_through_another_version_can_be_given_up() {
    let live = through(V2, &applied(V1, "one", None, &json!({"a": "x"})).unwrap());
    let given_up = applied(V2, "one", Some(&live), &json!({})).unwrap();
    assert_eq!(given_up["spec"].get("a"), None);
}
