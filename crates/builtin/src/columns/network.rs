//! Services, endpoints, ingresses, events and the small kinds of the core group.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cell::{
    age, age_of, containers, count, display, first_three, join, labels, list, name_of, number, selector,
    text, text_or,
};

/// Cells of kinds in the core group, but for pods and nodes.
pub(super) fn core_cells(kind: &str, object: &Value, now: i64) -> Option<Vec<Value>> {
    Some(match kind {
        "Service" => service(object, now),
        "Endpoints" => vec![name_of(object), endpoints(object).into(), age_of(object, now)],
        "Event" => event(object, now),
        "Namespace" => vec![
            name_of(object),
            text(&object["status"]["phase"]).into(),
            age_of(object, now),
        ],
        "ConfigMap" => {
            let keys = count(&object["data"]) + count(&object["binaryData"]);
            vec![name_of(object), keys.into(), age_of(object, now)]
        }
        "Secret" => {
            vec![
                name_of(object),
                text(&object["type"]).into(),
                count(&object["data"]).into(),
                age_of(object, now),
            ]
        }
        "PodTemplate" => {
            let [names, images] = containers(&object["template"]["spec"]);
            vec![
                name_of(object),
                names,
                images,
                labels(&object["template"]["metadata"]["labels"]).into(),
            ]
        }
        "ReplicationController" => super::workload::replica_set(object, now),
        "ResourceQuota" => quota(object, now),
        _ => return None,
    })
}

/// Cells of kinds in the networking and discovery groups.
pub(super) fn cells(kind: &str, object: &Value, now: i64) -> Option<Vec<Value>> {
    let spec = &object["spec"];
    Some(match kind {
        "Ingress" => ingress(object, now),
        "IngressClass" => {
            let parameters = &spec["parameters"];
            let group = parameters["apiGroup"]
                .as_str()
                .map(|group| format!(".{group}"))
                .unwrap_or_default();
            let shown = if parameters.is_object() {
                format!(
                    "{}{group}/{}",
                    text(&parameters["kind"]),
                    text(&parameters["name"])
                )
            } else {
                "<none>".to_owned()
            };
            let name = super::cluster::name_or_default(object, "ingressclass.kubernetes.io/is-default-class");
            vec![
                name,
                text(&spec["controller"]).into(),
                shown.into(),
                age_of(object, now),
            ]
        }
        "NetworkPolicy" => vec![
            name_of(object),
            selector(&spec["podSelector"]).into(),
            age_of(object, now),
        ],
        "ServiceCIDR" => vec![
            name_of(object),
            join(list(&spec["cidrs"]), ",", text).into(),
            age_of(object, now),
        ],
        "IPAddress" => vec![
            name_of(object),
            parent(&spec["parentRef"]).into(),
            age_of(object, now),
        ],
        "EndpointSlice" => endpoint_slice(object, now),
        _ => return None,
    })
}

fn service(service: &Value, now: i64) -> Vec<Value> {
    let spec = &service["spec"];
    let port = |port: &Value| {
        let (number, protocol) = (number(&port["port"]), text(&port["protocol"]));
        match port["nodePort"].as_i64().filter(|node| *node > 0) {
            Some(node) => format!("{number}:{node}/{protocol}"),
            None => format!("{number}/{protocol}"),
        }
    };
    let ports = list(&spec["ports"])
        .iter()
        .map(port)
        .collect::<Vec<_>>()
        .join(",");
    vec![
        name_of(service),
        text(&spec["type"]).into(),
        text_or(&spec["clusterIPs"][0], "<none>").into(),
        external_ip(service).into(),
        if ports.is_empty() {
            "<none>".into()
        } else {
            ports.into()
        },
        age_of(service, now),
        labels(&spec["selector"]).into(),
    ]
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let mut addresses: Vec<String> = match text(&spec["type"]) {
        "ExternalName" => return text(&spec["externalName"]).to_owned(),
        "ClusterIP" | "NodePort" => Vec::new(),
        "LoadBalancer" => balancer(&service["status"]["loadBalancer"]),
        _ => return "<unknown>".to_owned(),
    };
    addresses.extend(list(&spec["externalIPs"]).iter().map(|ip| text(ip).to_owned()));
    if !addresses.is_empty() {
        return addresses.join(",");
    }
    if spec["type"] == "LoadBalancer" {
        "<pending>".to_owned()
    } else {
        "<none>".to_owned()
    }
}

/// Addresses or host names, sorted.
fn balancer(status: &Value) -> Vec<String> {
    let address = |entry: &Value| text_or(&entry["ip"], text(&entry["hostname"])).to_owned();
    let found: BTreeSet<String> = list(&status["ingress"])
        .iter()
        .map(address)
        .filter(|a| !a.is_empty())
        .collect();
    found.into_iter().collect()
}

fn endpoints(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(&endpoints["subsets"]) {
        let addresses = list(&subset["addresses"]).iter().map(|a| text(&a["ip"]));
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in ports {
            let number = number(&port["port"]);
            let host = |ip: &str| {
                if ip.contains(':') {
                    format!("[{ip}]:{number}")
                } else {
                    format!("{ip}:{number}")
                }
            };
            all.extend(addresses.clone().map(host));
        }
    }
    if list(&endpoints["subsets"]).is_empty() {
        "<none>".to_owned()
    } else {
        first_three(&all, "")
    }
}

fn endpoint_slice(slice: &Value, now: i64) -> Vec<Value> {
    let port = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or("*").to_owned(),
    };
    let ports: Vec<String> = list(&slice["ports"]).iter().map(port).collect();
    let addresses = list(&slice["endpoints"])
        .iter()
        .flat_map(|e| list(&e["addresses"]));
    let addresses: Vec<String> = addresses.map(|a| text(a).to_owned()).collect();
    vec![
        name_of(slice),
        text(&slice["addressType"]).into(),
        first_three(&ports, "<unset>").into(),
        first_three(&addresses, "<unset>").into(),
        age_of(slice, now),
    ]
}

fn ingress(ingress: &Value, now: i64) -> Vec<Value> {
    let spec = &ingress["spec"];
    let rules = list(&spec["rules"]);
    let hosts: Vec<&str> = rules
        .iter()
        .map(|r| text(&r["host"]))
        .filter(|h| !h.is_empty())
        .collect();
    let hosts = match hosts.len() {
        0 => "*".to_owned(),
        1..=3 if rules.len() <= 3 || hosts.len() < 3 => hosts.join(","),
        _ => format!("{} + {} more...", hosts[..3].join(","), rules.len() - 3),
    };
    vec![
        name_of(ingress),
        text_or(&spec["ingressClassName"], "<none>").into(),
        hosts.into(),
        balancer(&ingress["status"]["loadBalancer"]).join(",").into(),
        if list(&spec["tls"]).is_empty() {
            "80"
        } else {
            "80, 443"
        }
        .into(),
        age_of(ingress, now),
    ]
}

fn parent(reference: &Value) -> String {
    if !reference.is_object() {
        return "<none>".to_owned();
    }
    let mut shown = text(&reference["resource"]).to_owned();
    if let Some(group) = reference["group"].as_str().filter(|g| !g.is_empty()) {
        shown.push_str(&format!(".{group}"));
    }
    let mut shown = shown.to_lowercase();
    for part in ["namespace", "name"] {
        if let Some(part) = reference[part].as_str().filter(|p| !p.is_empty()) {
            shown.push_str(&format!("/{part}"));
        }
    }
    shown
}

fn quota(quota: &Value, now: i64) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
        let used = text_or(&quota["status"]["used"][name], "0");
        let column = if name.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        column.push(format!("{name}: {used}/{}", text(hard)));
    }
    vec![
        name_of(quota),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age_of(quota, now),
    ]
}

/// Events of both groups: the new one calls most things differently.
fn event(event: &Value, now: i64) -> Vec<Value> {
    let either = |old: &str, new: &str| {
        if event[old].is_null() {
            &event[new]
        } else {
            &event[old]
        }
    };
    let first = either("firstTimestamp", "deprecatedFirstTimestamp");
    let first = if first.is_null() {
        &event["eventTime"]
    } else {
        first
    };
    let last = either("lastTimestamp", "deprecatedLastTimestamp");
    let mut last = if last.is_null() { first } else { last };
    let mut count = number(either("count", "deprecatedCount")).max(1);
    if event["series"].is_object() {
        last = &event["series"]["lastObservedTime"];
        count = number(&event["series"]["count"]);
    }
    let object = either("involvedObject", "regarding");
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource");
    let component = text_or(
        &source["component"],
        text(either("reportingComponent", "reportingController")),
    );
    let instance = text_or(&source["host"], text(&event["reportingInstance"]));
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    vec![
        age(last, now),
        text(&event["type"]).into(),
        display(&event["reason"]).into(),
        target.into(),
        text(&object["fieldPath"]).into(),
        source.into(),
        text(either("message", "note")).trim().into(),
        age(first, now),
        count.into(),
        name_of(event),
    ]
}
