//! Small objects to send, and short ways to look at what comes back.

use serde_json::{Value, json};

pub(crate) fn names(list: &Value) -> Vec<String> {
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// The resource version of an object or list.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == kind && c["status"] == status))
}

/// `type=status reason` of every condition.
pub(crate) fn conditions(object: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let brief = |c: &Value| {
        format!(
            "{}={} {}",
            text(&c["type"]),
            text(&c["status"]),
            text(&c["reason"])
        )
    };
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(brief)
        .collect()
}

/// The definition most tests work with.
pub(crate) fn widgets() -> Value {
    skopos_object::yaml::decode(include_bytes!("widgets.yaml"))
        .unwrap()
        .value
}

/// A small definition with one open version.
pub(crate) fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// The same object with some metadata set.
pub(crate) fn with_meta(mut object: Value, metadata: Value) -> Value {
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    object
}
