//! Cluster addresses for services: clients expect one, though nothing routes to it here.

use std::collections::HashSet;

use serde_json::{Value, json};
use skopos_object::{FieldError, FieldPath, raw_path};
use skopos_store::{Range, Store};

use crate::write::ObjectExt as _;

/// The range addresses come from, a /16; the first is the API server's own.
const NETWORK: [u8; 2] = [10, 96];

/// The ports of nodes that services may take.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Gives a service that is reached through nodes the free ports of nodes that it needs.
pub(crate) fn assign_node_ports(store: &Store, service: &mut Value) {
    let spec = &mut service["spec"];
    let balanced = spec["type"] == "LoadBalancer";
    if spec["type"] != "NodePort" && !balanced {
        return;
    }
    let mut taken: HashSet<u64> = stored_ports(store);
    taken.extend(ports_of(spec));
    if !balanced || spec["allocateLoadBalancerNodePorts"] != false {
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            assign_port(&mut taken, port, "nodePort");
        }
    }
    // Balancers that keep the addresses of clients ask each node whether it has an endpoint.
    if balanced && spec["externalTrafficPolicy"] == "Local" {
        assign_port(&mut taken, spec, "healthCheckNodePort");
    }
}

fn assign_port(taken: &mut HashSet<u64>, object: &mut Value, field: &str) {
    if !object.is_object() || object[field].as_u64().is_some_and(|port| port != 0) {
        return;
    }
    let free = NODE_PORTS.map(u64::from).find(|port| !taken.contains(port));
    if let Some(free) = free {
        taken.insert(free);
        object[field] = free.into();
    }
}

/// The ports of nodes that a service has.
fn ports_of(spec: &Value) -> Vec<u64> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| &port["nodePort"]);
    let numbers = ports.chain([&spec["healthCheckNodePort"]]);
    numbers.filter_map(Value::as_u64).collect()
}

fn stored_ports(store: &Store) -> HashSet<u64> {
    let page = store
        .list("core/services", &Range::default())
        .map(|page| page.items)
        .unwrap_or_default();
    let spec_of = |value: &[u8]| -> Value {
        raw_path(value, &["spec"])
            .and_then(|raw| serde_json::from_slice(raw).ok())
            .unwrap_or_default()
    };
    page.iter()
        .flat_map(|entry| ports_of(&spec_of(&entry.value)))
        .collect()
}

/// Gives a service that needs one a free address of the cluster network.
///
/// # Errors
/// Another service has the address that this one asks for.
pub(crate) fn assign_addresses(store: &Store, service: &mut Value) -> Result<(), FieldError> {
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" || !spec.is_object() {
        return Ok(());
    }
    let key = format!("{}/{}", service.namespace(), service.name());
    let address = match spec["clusterIP"].as_str().unwrap_or("") {
        "" => free_address(&stored_addresses(store, &key)),
        "None" => "None".to_owned(),
        wanted if stored_addresses(store, &key).contains(wanted) => {
            let path = FieldPath::root().child("spec").child("clusterIPs");
            let detail = format!("failed to allocate IP {wanted}: provided IP is already allocated");
            return Err(FieldError::invalid(&path, json!([wanted]), detail));
        }
        wanted => wanted.to_owned(),
    };
    let spec = &mut service["spec"];
    spec["clusterIP"] = address.clone().into();
    if !spec["clusterIPs"].is_array() {
        spec["clusterIPs"] = json!([address]);
    }
    Ok(())
}

/// The addresses of all services but the one under `except`.
fn stored_addresses(store: &Store, except: &str) -> HashSet<String> {
    let page = store.list("core/services", &Range::default());
    page.map(|page| page.items)
        .unwrap_or_default()
        .iter()
        .filter(|entry| &*entry.key != except)
        .filter_map(|entry| serde_json::from_slice(raw_path(&entry.value, &["spec", "clusterIP"])?).ok())
        .collect()
}

fn free_address(taken: &HashSet<String>) -> String {
    let [a, b] = NETWORK;
    (2u16..=u16::MAX)
        .map(|host| format!("{a}.{b}.{}.{}", host >> 8, host & 0xff))
        .find(|address| !taken.contains(address))
        .unwrap_or_else(|| "None".to_owned())
}
