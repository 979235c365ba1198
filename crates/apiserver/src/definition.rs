//! Custom resource definitions: from a stored CRD to served resources, and back when it is deleted.

mod controller;
mod names;
mod resources;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use controller::{Built, Definitions};
pub(crate) use resources::{built_in_resources, other_versions};

use crate::registry::Resource;
use crate::write::rfc3339;

/// Keeps a definition until all its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";

pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.is(GROUP, PLURAL)
}

/// A new definition has no accepted names and no conditions yet.
pub(crate) fn prepare_create(object: &mut Value) {
    let stored: Vec<Value> = storage_version(object).into_iter().map(Value::from).collect();
    object["status"] =
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored});
}

/// Objects may be stored in a new storage version from now on: it is remembered for good.
pub(crate) fn prepare_update(object: &mut Value) {
    let Some(version) = storage_version(object) else {
        return;
    };
    let stored = &mut object["status"]["storedVersions"];
    match stored.as_array_mut() {
        Some(versions) if versions.iter().any(|v| v == version.as_str()) => {}
        Some(versions) => versions.push(version.into()),
        None => *stored = json!([version]),
    }
}

fn storage_version(object: &Value) -> Option<String> {
    let versions = object.pointer("/spec/versions")?.as_array()?;
    let storage = versions
        .iter()
        .find(|v| v.get("storage").and_then(Value::as_bool) == Some(true))?;
    storage.get("name")?.as_str().map(str::to_owned)
}

/// Says on a definition that its deletion has been asked for.
pub(crate) fn mark_terminating(object: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(
        object,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        message,
        now,
    );
}

/// Sets a condition; the time moves only when its status does. Returns whether anything changed.
fn set_condition(
    object: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let conditions = object["status"]["conditions"]
        .as_array_mut()
        .expect("made an array above");
    let position = conditions.iter().position(|c| c["type"] == kind);
    let same_status = position.is_some_and(|i| conditions[i]["status"] == status);
    let time = match position {
        Some(i) if same_status => conditions[i]["lastTransitionTime"].clone(),
        _ => rfc3339(now).into(),
    };
    let new = json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message});
    match position {
        Some(i) if conditions[i] == new => return false,
        Some(i) => conditions[i] = new,
        None => conditions.push(new),
    }
    true
}

fn is_condition_true(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == kind && c["status"] == "True"))
}
