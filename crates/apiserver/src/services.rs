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

/// Gives the ports of a service that is reached through nodes a free port each.
pub(crate) fn assign_node_ports(store: &Store, service: &mut Value) {
    if service["spec"]["type"] != "NodePort" && service["spec"]["type"] != "LoadBalancer" {
        return;
    }
    let Some(ports) = service["spec"]["ports"].as_array_mut() else {
        return;
    };
    let mut taken: HashSet<u64> = stored_ports(store);
    taken.extend(ports.iter().filter_map(|port| port["nodePort"].as_u64()));
    for port in ports
        .iter_mut()
        .filter(|port| port.is_object() && port["nodePort"].as_u64().is_none_or(|p| p == 0))
    {
        let Some(free) = NODE_PORTS
            .map(u64::from)
            .find(|candidate| !taken.contains(candidate))
        else {
            return;
        };
        taken.insert(free);
        port["nodePort"] = free.into();
    }
}

fn stored_ports(store: &Store) -> HashSet<u64> {
    let page = store
        .list("core/services", &Range::default())
        .map(|page| page.items)
        .unwrap_or_default();
    let ports_of = |value: &[u8]| -> Vec<Value> {
        raw_path(value, &["spec", "ports"])
            .and_then(|raw| serde_json::from_slice(raw).ok())
            .unwrap_or_default()
    };
    page.iter()
        .flat_map(|entry| ports_of(&entry.value))
        .filter_map(|port| port["nodePort"].as_u64())
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
