//! Services, endpoints, ingress classes and network policies.

use serde_json::{Value, json};

use super::{items, or};

pub(super) fn service(service: &mut Value) {
    let spec = &mut service["spec"];
    or(spec, "sessionAffinity", "None");
    session_affinity(spec);
    or(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        or(port, "protocol", "TCP");
        if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let external_ips = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && external_ips) {
        or(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        or(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        or(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(Value::Array(ingress)) = service.pointer_mut("/status/loadBalancer/ingress") {
            for entry in ingress.iter_mut().filter(|entry| entry["ip"].is_string()) {
                or(entry, "ipMode", "VIP");
            }
        }
    }
    drop_nulls(&mut service["spec"]);
}

fn session_affinity(spec: &mut Value) {
    let Value::Object(map) = spec else { return };
    if map
        .get("sessionAffinity")
        .is_some_and(|affinity| affinity == "None")
    {
        map.remove("sessionAffinityConfig");
    } else if map
        .get("sessionAffinity")
        .is_some_and(|affinity| affinity == "ClientIP")
    {
        let timeout = map
            .get("sessionAffinityConfig")
            .and_then(|c| c.pointer("/clientIP/timeoutSeconds"));
        if timeout.is_none_or(Value::is_null) {
            map.insert(
                "sessionAffinityConfig".into(),
                json!({"clientIP": {"timeoutSeconds": 10_800}}),
            );
        }
    }
}

fn drop_nulls(object: &mut Value) {
    if let Value::Object(map) = object {
        map.retain(|_, value| !value.is_null());
    }
}

pub(super) fn endpoints(endpoints: &mut Value) {
    for subset in items(endpoints, "subsets") {
        for port in items(subset, "ports") {
            or(port, "protocol", "TCP");
        }
    }
}

pub(super) fn endpoint_slice(slice: &mut Value) {
    for port in items(slice, "ports") {
        or(port, "name", "");
        or(port, "protocol", "TCP");
    }
}

pub(super) fn ingress_class(class: &mut Value) {
    if let Some(parameters) = class.pointer_mut("/spec/parameters") {
        or(parameters, "scope", "Cluster");
    }
}

pub(super) fn network_policy(policy: &mut Value) {
    let spec = &mut policy["spec"];
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            for port in items(rule, "ports") {
                or(port, "protocol", "TCP");
            }
        }
    }
    let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    drop_nulls(spec);
    or(
        spec,
        "policyTypes",
        if egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        },
    );
}
