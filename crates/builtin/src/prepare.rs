//! What the server does to an object before it validates and stores it: the strategies of the registry.

mod job;
mod service;

use serde_json::{Map, Value, json};

use crate::codec::absent;
use crate::kind::Kind;
use crate::reset::keeps_metadata;

/// Prepares a new object: clears what only the server may set. Defaults have been applied.
///
/// Jobs get their generated selector only when `metadata.uid` is set already. Addresses and ports of services
/// are left to the server.
pub fn prepare_create(kind: &Kind, object: &mut Value) {
    // The kubelet registers a node with its status.
    if kind.subresource("status").is_some() && !kind.is("", "Node") {
        reset(kind, object, "status");
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => {
            let class = qos_class(&object["spec"]);
            object["status"] = json!({"phase": "Pending", "qosClass": class});
            if object["spec"]["schedulingGates"]
                .as_array()
                .is_some_and(|gates| !gates.is_empty())
            {
                object["status"]["conditions"] = json!([gated(object)]);
            }
        }
        ("", "Namespace") => {
            object["status"] = json!({"phase": "Active"});
            add_namespace_finalizer(object);
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") => object["status"] = json!({"phase": "Pending"}),
        ("", "Service") => service::families(object),
        ("apps", "DaemonSet") => template_generation(object, 1),
        ("batch", "Job") => job::generate_selector(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::defaults::default(kind, object),
        _ => {}
    }
}

/// Prepares an update of the main resource: the status and other parts that have an endpoint of their own
/// stay as they were.
pub fn prepare_update(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.subresource("status").is_some() {
        copy(new, old, "status");
    }
    match (kind.group, kind.kind) {
        ("", "Namespace") => copy(&mut new["spec"], &old["spec"], "finalizers"),
        ("", "Service") => service::update(new, old),
        ("", "Pod") => copy(&mut new["spec"], &old["spec"], "ephemeralContainers"),
        ("", "Secret") => or_copy(new, old, "type"),
        ("certificates.k8s.io", _) => copy(new, old, "spec"),
        ("apps", "DaemonSet") if new["spec"]["template"] != old["spec"]["template"] => {
            let generation = template_generation_of(old);
            template_generation(new, generation + 1);
        }
        ("apps", "DaemonSet") => template_generation(new, template_generation_of(old)),
        ("batch", "Job") => job::keep_template(new, old),
        _ => {}
    }
}

/// Prepares an update of the status: everything else stays as it was, metadata apart.
pub fn prepare_status_update(kind: &Kind, new: &mut Value, old: &Value) {
    let Some(fields) = old.as_object() else { return };
    for (name, value) in fields {
        if !matches!(name.as_str(), "status" | "metadata") {
            new[name] = value.clone();
        }
    }
    if let Value::Object(map) = new {
        map.retain(|name, _| matches!(name.as_str(), "status" | "metadata") || fields.contains_key(name));
    }
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => copy(&mut new["metadata"], &old["metadata"], "labels"),
        ("", "Pod") => {
            copy(&mut new["metadata"], &old["metadata"], "ownerReferences");
            if new["status"]["qosClass"].as_str().is_none_or(str::is_empty) {
                copy(&mut new["status"], &old["status"], "qosClass");
            }
        }
        _ if keeps_metadata(kind) => {
            for part in ["labels", "annotations", "ownerReferences", "finalizers"] {
                copy(&mut new["metadata"], &old["metadata"], part);
            }
        }
        _ => {}
    }
}

/// Whether objects of this kind carry `metadata.generation`.
pub fn has_generation(kind: &Kind) -> bool {
    !generated_by(kind).is_empty()
}

/// Whether an update raises the generation.
pub fn changes_generation(kind: &Kind, new: &Value, old: &Value) -> bool {
    let parts = generated_by(kind);
    if kind.is("discovery.k8s.io", "EndpointSlice") && new["metadata"]["labels"] != old["metadata"]["labels"]
    {
        return true;
    }
    if kind.is("apps", "Deployment") && new["metadata"]["annotations"] != old["metadata"]["annotations"] {
        return true;
    }
    parts.iter().any(|part| new[part] != old[part])
}

/// The members whose changes count.
fn generated_by(kind: &Kind) -> &'static [&'static str] {
    match (kind.group, kind.kind) {
        ("", "Pod" | "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job" | "CronJob")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("policy", "PodDisruptionBudget")
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("resource.k8s.io", "ResourceSlice" | "DeviceClass") => &["spec"],
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => &["webhooks"],
        ("admissionregistration.k8s.io", _) => &["spec"],
        ("", "PodTemplate") => &["template"],
        ("discovery.k8s.io", "EndpointSlice") => &["endpoints", "ports", "addressType"],
        ("scheduling.k8s.io", "PriorityClass") => &["value"],
        _ => &[],
    }
}

/// Sets a member to what Go writes for a struct that nobody filled.
fn reset(kind: &Kind, object: &mut Value, name: &str) {
    let Value::Object(map) = object else { return };
    match kind.ty.get().field(name).and_then(absent) {
        Some(value) => drop(map.insert(name.to_owned(), value)),
        None => drop(map.remove(name)),
    }
}

fn copy(new: &mut Value, old: &Value, name: &str) {
    let Value::Object(map) = new else { return };
    match old.get(name) {
        Some(value) => drop(map.insert(name.to_owned(), value.clone())),
        None => drop(map.remove(name)),
    }
}

/// Keeps the old value where the new one is empty.
fn or_copy(new: &mut Value, old: &Value, name: &str) {
    let unset = new.get(name).is_none_or(|v| v.is_null() || v == "");
    if unset {
        copy(new, old, name);
    }
}

fn add_namespace_finalizer(namespace: &mut Value) {
    let spec = namespace
        .as_object_mut()
        .map(|map| map.entry("spec").or_insert_with(|| json!({})));
    let Some(Value::Object(spec)) = spec else { return };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|f| f == "kubernetes")
    {
        finalizers.push("kubernetes".into());
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(set: &mut Value, generation: u64) {
    let Some(metadata) = set.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(map) = annotations {
        map.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    }
}

fn template_generation_of(set: &Value) -> u64 {
    let text = set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    text.and_then(|t| t.parse().ok()).unwrap_or(1)
}

/// What a pod that waits at a gate says of itself from its beginning.
fn gated(pod: &Value) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null,
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
    })
}

/// Guaranteed when every container limits and requests the same CPU and memory, best effort when none asks
/// for any, burstable otherwise.
fn qos_class(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().map(Vec::as_slice).unwrap_or_default());
    let (mut any, mut all) = (false, true);
    let none = Map::new();
    for container in containers {
        let resources = &container["resources"];
        let amounts = |key: &str| resources[key].as_object().unwrap_or(&none).clone();
        let (limits, requests) = (amounts("limits"), amounts("requests"));
        for name in ["cpu", "memory"] {
            let counts = |map: &Map<String, Value>| map.get(name).is_some_and(|amount| amount != "0");
            any |= counts(&limits) || counts(&requests);
            all &= counts(&limits)
                && requests
                    .get(name)
                    .is_none_or(|request| Some(request) == limits.get(name));
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests;
