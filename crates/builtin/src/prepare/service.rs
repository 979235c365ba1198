//! Services: address families, addresses that an update must not lose, and what goes with a change of type.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Sets the families of the one address that the server will give, if it gives one.
pub(super) fn families(service: &mut Value) {
    let spec = &mut service["spec"];
    if spec["type"] == "ExternalName" {
        // kube-apiserver keeps it and never shows it.
        remove(spec, &["internalTrafficPolicy"]);
        return;
    }
    let headless = spec["clusterIP"] == "None";
    if let Some(address) = spec.get("clusterIP").filter(|a| a.is_string()).cloned()
        && spec.get("clusterIPs").is_none_or(Value::is_null)
    {
        spec["clusterIPs"] = json!([address]);
    }
    // A headless service without a selector may list endpoints of any family.
    let any_family = headless && spec.get("selector").is_none_or(Value::is_null);
    let policy = spec
        .get("ipFamilyPolicy")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if policy.is_empty() {
        spec["ipFamilyPolicy"] = if any_family {
            "RequireDualStack"
        } else {
            "SingleStack"
        }
        .into();
    }
    if spec
        .get("ipFamilies")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec["ipFamilies"] = if any_family {
            json!(["IPv4", "IPv6"])
        } else {
            json!(["IPv4"])
        };
    }
}

/// Fills in what was given before and the update leaves out, then drops what the new type has no use for.
pub(super) fn update(new: &mut Value, old: &Value) {
    keep_allocated(&mut new["spec"], &old["spec"]);
    families(new);
    drop_unused(&mut new["spec"], &old["spec"]);
    if new["spec"]["type"] != "LoadBalancer"
        && let Some(Value::Object(status)) = new.get_mut("status")
    {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

/// Fills in addresses and ports that were given before and that the update leaves out.
fn keep_allocated(new: &mut Value, old: &Value) {
    if has_address(new) && has_address(old) {
        for member in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            super::or_copy(new, old, member);
        }
    }
    if gets_node_ports(new) && gets_node_ports(old) {
        keep_node_ports(new, old);
    }
    if is_checked(new) && is_checked(old) {
        super::or_copy(new, old, "healthCheckNodePort");
    }
}

/// A port keeps its number on the nodes by its name, unless another port took it.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let (before, taken) = (ports(old).to_vec(), node_ports(new));
    let list = new.get_mut("ports").and_then(Value::as_array_mut);
    for port in list.into_iter().flatten() {
        let known = before.iter().rfind(|other| other["name"] == port["name"]);
        if number(port) == 0
            && let Some(kept) = known.map(number).filter(|n| *n != 0 && !taken.contains(n))
        {
            port["nodePort"] = kept.into();
        }
    }
}

/// Drops what was of use for the former type only, unless the update changes it: then it is a mistake to tell of.
fn drop_unused(new: &mut Value, old: &Value) {
    if has_address(old) && !has_address(new) {
        if same(new, old, &["clusterIP", "clusterIPs"]) {
            remove(new, &["clusterIP", "clusterIPs"]);
        }
        drop_same(new, old, "ipFamilies");
        drop_same(new, old, "ipFamilyPolicy");
    }
    if on_nodes(old) && !on_nodes(new) && node_ports(new).is_subset(&node_ports(old)) {
        let list = new.get_mut("ports").and_then(Value::as_array_mut);
        list.into_iter()
            .flatten()
            .for_each(|port| remove(port, &["nodePort"]));
    }
    let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    if is_checked(old) && !is_checked(new) {
        drop_same(new, old, "healthCheckNodePort");
    }
    if balanced(old) && !balanced(new) {
        drop_same(new, old, "allocateLoadBalancerNodePorts");
        drop_same(new, old, "loadBalancerClass");
    }
    if is_exposed(old) && !is_exposed(new) {
        drop_same(new, old, "externalTrafficPolicy");
    }
}

fn has_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn on_nodes(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

/// Whether the server gives it ports of nodes: a balancer may do without.
fn gets_node_ports(spec: &Value) -> bool {
    on_nodes(spec) && (spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false)
}

/// Whether a balancer asks each node for its endpoints.
fn is_checked(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Whether it can be reached from outside the cluster.
fn is_exposed(spec: &Value) -> bool {
    let external = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    on_nodes(spec) || (spec["type"] == "ClusterIP" && external)
}

fn ports(spec: &Value) -> &[Value] {
    spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or(0)
}

fn node_ports(spec: &Value) -> BTreeSet<i64> {
    ports(spec).iter().map(number).filter(|n| *n != 0).collect()
}

fn same(new: &Value, old: &Value, names: &[&str]) -> bool {
    names.iter().all(|name| new.get(*name) == old.get(*name))
}

fn drop_same(new: &mut Value, old: &Value, name: &str) {
    if same(new, old, &[name]) {
        remove(new, &[name]);
    }
}

fn remove(object: &mut Value, names: &[&str]) {
    if let Value::Object(map) = object {
        map.retain(|name, _| !names.contains(&name.as_str()));
    }
}
