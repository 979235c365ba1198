//! The compact object.

use bytes::Bytes;
use serde_json::json;
use skopos_object::{Change, LabelSelector, ManagedFields, Object, ObjectError, Op, OwnerReference};

fn sample() -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "42", "generation": 3,
            "labels": {"app": "web", "example.com/tier": "front"},
            "finalizers": ["example.com/a", "example.com/b"],
            "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {}}}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Shop", "name": "s", "uid": "u-2", "controller": true}],
        },
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
    })
}

#[test]
fn reads_the_header() {
    let object = Object::from_value(&sample()).unwrap();
    assert_eq!(
        object.group_version_kind().to_string(),
        "apps/v1, Kind=Deployment"
    );
    assert_eq!(object.key().to_string(), "shop/web");
    assert_eq!(object.uid(), "u-1");
    assert_eq!(object.resource_version().as_str(), "42");
    assert_eq!(object.generation(), 3);
    assert!(!object.is_deleting());
    assert_eq!(object.label("example.com/tier").as_deref(), Some("front"));
    assert_eq!(object.label("none"), None);
    assert_eq!(
        object.finalizers().collect::<Vec<_>>(),
        ["example.com/a", "example.com/b"]
    );
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Shop".into(),
        name: "s".into(),
        uid: "u-2".into(),
        controller: true,
        block_owner_deletion: false,
    };
    assert_eq!(object.owners().collect::<Vec<_>>(), [owner]);
}

#[test]
fn reads_fields_by_path() {
    let object = Object::from_value(&sample()).unwrap();
    let image = ["spec", "template", "spec", "containers", "0", "image"];
    assert_eq!(object.get(&image), Some(json!("i:1")));
    assert_eq!(object.raw(&["spec", "replicas"]), Some(&b"2"[..]));
    assert_eq!(object.get(&["spec", "none"]), None);
    assert_eq!(object.to_value(), sample());
}

#[test]
fn is_selected_by_labels() {
    let object = Object::from_value(&sample()).unwrap();
    for (selector, expect) in [
        ("", true),
        ("app=web", true),
        ("app!=web", false),
        ("!app", false),
        ("!x", true),
    ] {
        assert_eq!(
            object.is_selected_by(&LabelSelector::parse(selector).unwrap()),
            expect,
            "{selector}"
        );
    }
}

#[test]
fn drops_managed_fields_wherever_they_stand() {
    for (text, expect) in [
        (
            r#"{"metadata":{"managedFields":[1],"name":"a"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"name":"a" , "managedFields":[{"a":"]}"}]}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"a":1,"managedFields":[], "b":2}}"#,
            r#"{"metadata":{"a":1,"b":2}}"#,
        ),
        (r#"{"metadata":{"managedFields":null}}"#, r#"{"metadata":{}}"#),
        (
            r#"{"metadata":{"managedFields":[{"a":[1,[2]],"b":"]"},{"c":[]}],"name":"a"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"managedFields":[{"k:{\"a\":\"]\"}":{}},{"v:\"}":{}}],"name":"a"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"managedFields":[{"{":{},"]}":{}}],"name":"a"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"managedFields":{"a":[1]},"name":"a"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (r#"{"metadata":{}}"#, r#"{"metadata":{}}"#),
        (r#"{"managedFields":1}"#, r#"{"managedFields":1}"#),
    ] {
        let object = Object::parse_owned(text.as_bytes(), ManagedFields::Drop).unwrap();
        assert_eq!(object.bytes(), expect);
        let kept = Object::parse_owned(text.as_bytes(), ManagedFields::Keep).unwrap();
        assert_eq!(kept.bytes(), text);
    }
}

#[test]
fn does_without_what_is_not_there() {
    let object = Object::parse(Bytes::from_static(b"{}")).unwrap();
    assert_eq!((object.kind(), object.name(), object.uid()), ("", "", ""));
    assert_eq!(
        object.labels().count() + object.finalizers().count() + object.owners().count(),
        0
    );
    let odd = br#"{"metadata":{"name":null,"labels":[],"finalizers":{"a":1},"generation":"x","deletionTimestamp":null}}"#;
    let object = Object::parse(Bytes::from_static(odd)).unwrap();
    assert_eq!(object.labels().count() + object.finalizers().count(), 0);
    assert!(!object.is_deleting());
}

#[test]
fn refuses_what_is_no_object() {
    let parse = |text: &'static str| Object::parse(Bytes::from_static(text.as_bytes())).unwrap_err();
    assert!(matches!(parse("{\"a\":"), ObjectError::NotJson(_)));
    assert!(matches!(parse("{} x"), ObjectError::NotJson(_)));
    assert_eq!(parse("[]"), ObjectError::NotAnObject);
    assert_eq!(
        parse(r#"{"metadata":{"name":"a\"b"}}"#),
        ObjectError::Field("metadata.name")
    );
    assert_eq!(parse(r#"{"kind":7}"#), ObjectError::Field("kind"));
    let error = Object::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err();
    assert!(matches!(error, ObjectError::NotJson(_)));
}

#[test]
fn costs_little_beyond_its_text() {
    assert!(size_of::<Object>() <= 136, "{}", size_of::<Object>());
}

#[test]
fn a_change_knows_its_object_and_what_differs() {
    let old = Object::from_value(&sample()).unwrap();
    let mut value = sample();
    value["spec"]["replicas"] = json!(3);
    let new = Object::from_value(&value).unwrap();
    let change = Change::updated(old.clone(), new);
    assert_eq!(change.key().unwrap().to_string(), "shop/web");
    let paths: Vec<String> = change.diff().into_iter().map(|change| change.path).collect();
    assert_eq!(paths, ["spec.replicas"]);

    let gone = Change::missing(old.clone());
    assert_eq!(
        (gone.op, gone.is_final, gone.object()),
        (Op::Deleted, false, Some(&old))
    );
    assert_eq!(gone.diff()[0].new, None);
}
