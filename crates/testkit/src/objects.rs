//! Objects for tests, written the way a user writes them.

use serde_json::{Value, json};
use skopos_object::{Object, yaml};

/// One object from YAML.
///
/// ```
/// let widget = skopos_testkit::object("{kind: Widget, metadata: {name: a, namespace: home}}");
/// assert_eq!(widget.key().to_string(), "home/a");
/// ```
///
/// # Panics
/// If it is no object: tests have no use for it.
#[track_caller]
pub fn object(text: &str) -> Object {
    Object::from_value(&value(text)).unwrap_or_else(|error| panic!("not an object: {error}\n{text}"))
}

/// Several objects from YAML documents.
///
/// # Panics
/// If one of them is no object.
#[track_caller]
pub fn objects(text: &str) -> Vec<Object> {
    let object = |value: &Value| {
        Object::from_value(value).unwrap_or_else(|error| panic!("not an object: {error}\n{value}"))
    };
    values(text).iter().map(object).collect()
}

/// A tree from YAML.
///
/// # Panics
/// If it is no YAML.
#[track_caller]
pub fn value(text: &str) -> Value {
    match yaml::decode(text.as_bytes()) {
        Ok(decoded) => decoded.value,
        Err(error) => panic!("not YAML: {error}\n{text}"),
    }
}

#[track_caller]
pub(crate) fn values(text: &str) -> Vec<Value> {
    match yaml::documents(text.as_bytes()) {
        Ok(documents) => documents.into_iter().map(|document| document.value).collect(),
        Err(error) => panic!("not YAML: {error}\n{text}"),
    }
}

/// A definition of a namespaced kind that takes any content, with a status.
///
/// ```
/// let crd = skopos_testkit::definition("example.com", "v1", "Widget", "widgets");
/// assert_eq!(crd["metadata"]["name"], "widgets.example.com");
/// ```
pub fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}
