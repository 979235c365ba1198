//! Objects that kube-apiserver 1.36 refused or accepted, with its words.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use skopos_builtin::{Kind, decode, default, kind, name_errors, prepare_create, prepare_update, validate};
use skopos_object::{FieldError, FieldPath, GroupKind, Status};

fn kind_of(object: &Value) -> &'static Kind {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    kind(group, version, object["kind"].as_str().unwrap()).unwrap()
}

fn prepared(kind: &Kind, object: &Value, old: Option<&Value>) -> Value {
    let mut object = object.clone();
    decode(kind, &mut object).unwrap();
    default(kind, &mut object);
    match old {
        None => prepare_create(kind, &mut object),
        Some(old) => prepare_update(kind, &mut object, old),
    }
    object
}

fn message(kind: &Kind, new: &Value, old: Option<&Value>) -> Value {
    let name = new["metadata"]["name"].as_str().unwrap();
    let path = FieldPath::root().child("metadata").child("name");
    let mut errors: Vec<FieldError> = name_errors(kind, name)
        .into_iter()
        .map(|e| FieldError::invalid(&path, name, e))
        .collect();
    errors.extend(validate(kind, new, old));
    if errors.is_empty() {
        return Value::Null;
    }
    let group_kind = GroupKind {
        group: kind.group.into(),
        kind: kind.kind.into(),
    };
    Status::invalid(&group_kind, name, errors).message.into()
}

#[test]
fn refuses_with_the_servers_words() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/validation.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let kind = kind_of(&case["new"]);
        let old = case.get("old").map(|old| prepared(kind, old, None));
        let new = prepared(kind, &case["new"], old.as_ref());
        let ours = message(kind, &new, old.as_ref());
        if ours != case["message"] {
            wrong.push(format!("ours   {ours}\nserver {}", case["message"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn accepts_all_that_the_server_accepted() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/defaults.json")).unwrap();
    for case in &cases {
        let kind = kind_of(&case["in"]);
        let object = prepared(kind, &case["in"], None);
        assert_eq!(message(kind, &object, None), Value::Null);
        assert_eq!(
            validate(kind, &object, Some(&object)),
            Vec::new(),
            "an update that changes nothing"
        );
    }
}

#[test]
fn refuses_config_and_secrets_of_more_than_a_mebibyte() {
    let big = "x".repeat(1024 * 1024 + 1);
    let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "v"}, "data": {"a": big}});
    let kind = kind_of(&map);
    assert_eq!(
        message(kind, &prepared(kind, &map, None), None),
        "ConfigMap \"v\" is invalid: []: Too long: may not be more than 1048576 bytes"
    );
    let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "v"}, "stringData": {"a": big}});
    let kind = kind_of(&secret);
    assert_eq!(
        message(kind, &prepared(kind, &secret, None), None),
        "Secret \"v\" is invalid: data: Too long: may not be more than 1048576 bytes"
    );
}
