//! Namespaces, nodes, limits, autoscalers, bindings, storage classes, flow control, device claims.

use serde_json::{Value, json};

use super::{items, object_at, or};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A secret; text given as it is joins the encoded data and wins over it.
pub(super) fn secret(secret: &mut Value) {
    or(secret, "type", "Opaque");
    let text = secret.as_object_mut().and_then(|map| map.remove("stringData"));
    if let Some(Value::Object(text)) = text {
        let data = object_at(secret, "data");
        for (key, value) in text {
            data[key] = crate::base64::encode(value.as_str().unwrap_or_default().as_bytes()).into();
        }
    }
}

pub(super) fn namespace(namespace: &mut Value) {
    let name = namespace["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    // An object that is yet to be named gets the label when its name is made.
    if !name.is_empty() {
        let labels = object_at(&mut namespace["metadata"], "labels");
        labels["kubernetes.io/metadata.name"] = name.into();
    }
    or(object_at(namespace, "status"), "phase", "Active");
}

pub(super) fn node(node: &mut Value) {
    let capacity = node["status"]["capacity"].clone();
    if !capacity.is_null() {
        or(&mut node["status"], "allocatable", capacity);
    }
    if let Some(status) = node["status"].as_object_mut() {
        status.retain(|_, value| !value.is_null());
    }
    let spec = &mut node["spec"];
    if let Some(cidr) = spec.get("podCIDR").filter(|c| c.is_string()).cloned() {
        or(spec, "podCIDRs", json!([cidr]));
    }
}

pub(super) fn limit_range(range: &mut Value) {
    for limit in items(&mut range["spec"], "limits").filter(|limit| limit["type"] == "Container") {
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let Some(amounts) = limit.get(from).and_then(Value::as_object).cloned() else {
                continue;
            };
            let target = object_at(limit, to);
            for (name, amount) in amounts {
                or(target, &name, amount);
            }
        }
    }
}

pub(super) fn autoscaler(version: &str, autoscaler: &mut Value) {
    let spec = &mut autoscaler["spec"];
    or(spec, "minReplicas", 1);
    if version == "v1" {
        or(spec, "targetCPUUtilizationPercentage", 80);
        return;
    }
    if spec
        .get("metrics")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    }
    if let Some(behavior) = spec.get_mut("behavior").filter(|b| b.is_object()) {
        scaling_rules(
            object_at(behavior, "scaleUp"),
            Some(0),
            &json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15}]),
        );
        let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
        scaling_rules(object_at(behavior, "scaleDown"), None, &down);
    }
}

fn scaling_rules(rules: &mut Value, window: Option<i64>, policies: &Value) {
    or(rules, "selectPolicy", "Max");
    if let Some(window) = window {
        or(rules, "stabilizationWindowSeconds", window);
    }
    or(rules, "policies", policies.clone());
}

pub(super) fn binding(binding: &mut Value) {
    or(&mut binding["roleRef"], "apiGroup", RBAC);
    for subject in items(binding, "subjects") {
        match subject["kind"].as_str() {
            Some("User" | "Group") => or(subject, "apiGroup", RBAC),
            _ => or(subject, "apiGroup", ""),
        }
        if let Some(map) = subject.as_object_mut()
            && map.get("apiGroup").is_some_and(|group| group == "")
        {
            map.remove("apiGroup");
        }
    }
}

pub(super) fn storage_class(class: &mut Value) {
    or(class, "reclaimPolicy", "Delete");
    or(class, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(driver: &mut Value) {
    let spec = object_at(driver, "spec");
    or(spec, "attachRequired", true);
    or(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    or(spec, "volumeLifecycleModes", json!(["Persistent"]));
    for key in [
        "podInfoOnMount",
        "requiresRepublish",
        "seLinuxMount",
        "storageCapacity",
    ] {
        or(spec, key, false);
    }
}

pub(super) fn flow_control(kind: &str, object: &mut Value) {
    let spec = &mut object["spec"];
    let positive = |object: &mut Value, key: &str, value: i64| {
        if object[key].as_i64().unwrap_or(0) == 0 {
            object[key] = value.into();
        }
    };
    if kind == "FlowSchema" {
        return positive(spec, "matchingPrecedence", 1_000);
    }
    if let Some(limited) = spec.get_mut("limited").filter(|l| l.is_object()) {
        or(limited, "nominalConcurrencyShares", 30);
        or(limited, "lendablePercent", 0);
        if let Some(queuing) = limited.pointer_mut("/limitResponse/queuing") {
            positive(queuing, "handSize", 8);
            positive(queuing, "queues", 64);
            positive(queuing, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = spec.get_mut("exempt").filter(|e| e.is_object()) {
        or(exempt, "nominalConcurrencyShares", 0);
        or(exempt, "lendablePercent", 0);
    }
}

pub(super) fn device_requests(spec: &mut Value) {
    let defaults = |request: &mut Value| {
        or(request, "allocationMode", "ExactCount");
        if request["allocationMode"] == "ExactCount" {
            or(request, "count", 1);
        }
        for toleration in items(request, "tolerations") {
            or(toleration, "operator", "Equal");
        }
    };
    let Some(devices) = spec.get_mut("devices") else {
        return;
    };
    for request in items(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            defaults(exactly);
        }
        items(request, "firstAvailable").for_each(defaults);
    }
}

pub(super) fn resource_definition(definition: &mut Value) {
    let spec = &mut definition["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let names = object_at(spec, "names");
    if !kind.is_empty() {
        or(names, "singular", kind.to_lowercase());
        or(names, "listKind", format!("{kind}List"));
    }
    let conversion = object_at(spec, "conversion");
    or(conversion, "strategy", "None");
    if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service") {
        super::admission::service_port(service);
    }
    let storage = items(spec, "versions")
        .find(|v| v["storage"] == true)
        .map(|v| v["name"].clone());
    if let Some(name) = storage {
        let stored = definition["status"]["storedVersions"]
            .as_array()
            .is_some_and(|v| !v.is_empty());
        if !stored {
            object_at(definition, "status")["storedVersions"] = json!([name]);
        }
    }
}
