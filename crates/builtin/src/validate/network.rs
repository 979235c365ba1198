//! Endpoints, ingresses, ingress classes, network policies.

use std::collections::BTreeSet;

use serde_json::Value;
use skopos_object::FieldPath;

use super::check::{Check, address, cidr, has, list, text};

pub(super) fn endpoints(check: &mut Check, endpoints: &Value) {
    for (at, subset) in list(&endpoints["subsets"]).iter().enumerate() {
        let path = FieldPath::root().child("subsets").index(at);
        let kinds = ["addresses", "notReadyAddresses"];
        if kinds.iter().all(|kind| list(&subset[*kind]).is_empty()) {
            check.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for kind in kinds {
            for (at, entry) in list(&subset[kind]).iter().enumerate() {
                let (path, ip) = (path.child(kind).index(at).child("ip"), text(&entry["ip"]));
                if let Some(detail) = address(ip) {
                    check.invalid(&path, ip, detail);
                    check.invalid(&path, ip, "must be a valid IP address");
                }
            }
        }
        for (at, port) in list(&subset["ports"]).iter().enumerate() {
            check.port_number(&path.child("ports").index(at).child("port"), &port["port"]);
        }
    }
}

pub(super) fn endpoint_slice(check: &mut Check, slice: &Value) {
    let root = FieldPath::root();
    let kind = text(&slice["addressType"]);
    if kind.is_empty() {
        return check.required(&root.child("addressType"), "");
    }
    if !["FQDN", "IPv4", "IPv6"].contains(&kind) {
        return check.unsupported(&root.child("addressType"), kind, &["FQDN", "IPv4", "IPv6"]);
    }
    for (at, endpoint) in list(&slice["endpoints"]).iter().enumerate() {
        let path = root.child("endpoints").index(at).child("addresses");
        if list(&endpoint["addresses"]).is_empty() {
            check.required(&path, "must contain at least 1 address");
        }
        for (at, ip) in list(&endpoint["addresses"])
            .iter()
            .enumerate()
            .filter(|_| kind != "FQDN")
        {
            let ip = text(ip);
            if let Some(detail) = address(ip) {
                check.invalid(&path.index(at), ip, detail);
            } else if ip.contains(':') != (kind == "IPv6") {
                check.invalid(&path, ip, format!("must be an {kind} address"));
            }
            if ip.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
                let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
                check.invalid(&path.index(at), ip, detail);
            }
        }
    }
    let mut names = BTreeSet::new();
    for (at, port) in list(&slice["ports"]).iter().enumerate() {
        let name = text(&port["name"]);
        if !names.insert(name) {
            check.duplicate(&root.child("ports").index(at).child("name"), name);
        }
    }
}

pub(super) fn ingress(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    let rules = list(&spec["rules"]);
    if rules.is_empty() && !has(spec, "defaultBackend") {
        check.invalid(
            &path,
            Value::Null,
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    if has(spec, "defaultBackend") {
        backend(check, &path.child("defaultBackend"), &spec["defaultBackend"]);
    }
    for (at, rule) in rules.iter().enumerate() {
        let path = path.child("rules").index(at);
        host(check, &path.child("host"), text(&rule["host"]));
        if !has(rule, "http") {
            continue;
        }
        let paths = list(&rule["http"]["paths"]);
        let path = path.child("http").child("paths");
        if paths.is_empty() {
            check.required(&path, "");
        }
        for (at, entry) in paths.iter().enumerate() {
            ingress_path(check, &path.index(at), entry);
        }
    }
    for (at, tls) in list(&spec["tls"]).iter().enumerate() {
        for (index, name) in list(&tls["hosts"]).iter().enumerate() {
            let path = path.child("tls").index(at).child("hosts").index(index);
            check.dns_subdomain(&path, text(name).trim_start_matches("*."));
        }
    }
    if has(spec, "ingressClassName") {
        check.dns_subdomain(&path.child("ingressClassName"), text(&spec["ingressClassName"]));
    }
}

fn host(check: &mut Check, path: &FieldPath, host: &str) {
    if host.is_empty() {
        return;
    }
    if address(host).is_none() {
        check.invalid(path, host, "must be a DNS name, not an IP address");
    } else {
        check.dns_subdomain(path, host.trim_start_matches("*."));
    }
}

fn ingress_path(check: &mut Check, path: &FieldPath, entry: &Value) {
    let types = ["Exact", "ImplementationSpecific", "Prefix"];
    let kind = text(&entry["pathType"]);
    match kind {
        "" => check.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !text(&entry["path"]).starts_with('/') {
                check.invalid(
                    &path.child("path"),
                    text(&entry["path"]),
                    "must be an absolute path",
                );
            }
        }
        "ImplementationSpecific" => {}
        other => check.unsupported(&path.child("pathType"), other, &types),
    }
    backend(check, &path.child("backend"), &entry["backend"]);
}

fn backend(check: &mut Check, path: &FieldPath, backend: &Value) {
    match (has(backend, "service"), has(backend, "resource")) {
        (false, false) => check.invalid(path, "", "resource or service backend is required"),
        (true, true) => check.invalid(path, "", "cannot set both resource and service backends"),
        (false, true) => {}
        (true, false) => {
            let service = &backend["service"];
            if check.present(&path.child("service"), service, "name") {
                check.dns_label(&path.child("service").child("name"), text(&service["name"]));
            }
            let number = service["port"]["number"].as_i64().unwrap_or(0);
            let name = text(&service["port"]["name"]);
            match (number, name) {
                (0, "") => check.required(path, "port name or number is required"),
                (0, name) => {
                    check.port(&path.child("service").child("port").child("name"), &name.into());
                }
                (number, "") => {
                    check.port_number(
                        &path.child("service").child("port").child("number"),
                        &number.into(),
                    );
                }
                _ => check.invalid(path, "", "cannot set both port name & port number"),
            }
        }
    }
}

pub(super) fn ingress_class(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    if check.present(&path, spec, "controller") {
        let controller = text(&spec["controller"]);
        let prefixed = controller
            .split_once('/')
            .is_some_and(|(domain, rest)| !domain.is_empty() && !rest.is_empty());
        if !prefixed {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            check.invalid(&path.child("controller"), controller, detail);
        }
    }
}

pub(super) fn network_policy(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    check.selector(&path.child("podSelector"), &spec["podSelector"]);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in list(&spec[direction]).iter().enumerate() {
            let path = path.child(direction).index(at);
            for (at, port) in list(&rule["ports"]).iter().enumerate() {
                let path = path.child("ports").index(at);
                if has(port, "port") {
                    check.port(&path.child("port"), &port["port"]);
                }
                check.one_of(&path, port, "protocol", &["SCTP", "TCP", "UDP"]);
            }
            for (at, peer) in list(&rule[peers]).iter().enumerate() {
                self::peer(check, &path.child(peers).index(at), peer);
            }
        }
    }
    for (at, kind) in list(&spec["policyTypes"]).iter().enumerate() {
        if !["Ingress", "Egress"].contains(&text(kind)) {
            check.unsupported(
                &path.child("policyTypes").index(at),
                kind.clone(),
                &["Ingress", "Egress"],
            );
        }
    }
}

fn peer(check: &mut Check, path: &FieldPath, peer: &Value) {
    let mut given = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if has(peer, key) {
            given += 1;
            check.selector(&path.child(key), &peer[key]);
        }
    }
    if has(peer, "ipBlock") {
        given += 1;
        let range = text(&peer["ipBlock"]["cidr"]);
        if let Some(detail) = cidr(range) {
            check.invalid(&path.child("ipBlock").child("cidr"), range, detail);
        }
    }
    if given == 0 {
        check.required(path, "must specify a peer");
    }
}
