//! Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skopos_object::FieldPath;

use super::check::{Check, address, has, list, text};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn service(check: &mut Check, service: &Value) {
    let path = FieldPath::root().child("spec");
    let spec = &service["spec"];
    let kind = text(&spec["type"]);
    let headless = spec["clusterIP"] == "None";
    if list(&spec["ports"]).is_empty() && !headless && kind != "ExternalName" {
        check.required(&path.child("ports"), "");
    }
    addresses(check, &path, spec, kind);
    ports(check, &path.child("ports"), spec, kind);
    check.labels(&path.child("selector"), &spec["selector"]);
    check.one_of(&path, spec, "sessionAffinity", &["ClientIP", "None"]);
    for (at, ip) in list(&spec["externalIPs"]).iter().enumerate() {
        if let Some(detail) = address(text(ip)) {
            check.invalid(&path.child("externalIPs").index(at), text(ip), detail);
        }
    }
    check.one_of(&path, spec, "type", TYPES);
    check.one_of(&path, spec, "externalTrafficPolicy", &["Cluster", "Local"]);
    check.one_of(&path, spec, "internalTrafficPolicy", &["Cluster", "Local"]);
}

fn addresses(check: &mut Check, path: &FieldPath, spec: &Value, kind: &str) {
    let first = text(&spec["clusterIP"]);
    match kind {
        "ExternalName" => {
            if !first.is_empty() {
                check.forbidden(
                    &path.child("clusterIPs"),
                    "may not be set for ExternalName services",
                );
            }
            if check.present(path, spec, "externalName") {
                check.dns_subdomain(&path.child("externalName"), text(&spec["externalName"]));
            }
        }
        "NodePort" | "LoadBalancer" if first == "None" => {
            let detail = format!("may not be set to 'None' for {kind} services");
            check.invalid(&path.child("clusterIPs").index(0), "None", detail);
        }
        _ => {
            if !first.is_empty()
                && first != "None"
                && let Some(detail) = address(first)
            {
                check.invalid(&path.child("clusterIPs").index(0), first, detail);
            }
        }
    }
}

fn ports(check: &mut Check, path: &FieldPath, spec: &Value, kind: &str) {
    let ports = list(&spec["ports"]);
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let name = text(&port["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                check.required(&path.child("name"), "");
            }
        } else {
            check.dns_label(&path.child("name"), name);
            if !names.insert(name) {
                check.duplicate(&path.child("name"), name);
            }
        }
        check.port_number(&path.child("port"), &port["port"]);
        check.one_of(&path, port, "protocol", &["SCTP", "TCP", "UDP"]);
        check.port(&path.child("targetPort"), &port["targetPort"]);
        let node_port = port["nodePort"].as_i64().unwrap_or(0);
        if kind == "ClusterIP" && node_port != 0 {
            check.forbidden(
                &path.child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            );
        }
    }
    for (at, port) in ports.iter().enumerate() {
        let protocol = text(&port["protocol"]);
        if !numbers.insert((port["port"].as_i64(), protocol)) && has(port, "port") {
            // The server shows a port of its own making: only protocol and number.
            let shown = json!({"Name": "", "Protocol": protocol, "AppProtocol": null, "Port": port["port"],
                "TargetPort": 0, "NodePort": 0});
            check.duplicate(&path.index(at), shown);
        }
    }
}
