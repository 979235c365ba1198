//! Containers: names, images, ports, variables, mounts, resources, probes.

use std::collections::BTreeSet;

use serde_json::Value;
use skopos_object::FieldPath;

use super::check::{Check, NOT_NEGATIVE, has, list, port_name, text};
use crate::quantity::Quantity;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Checks the containers and returns their names.
pub(super) fn containers<'a>(
    check: &mut Check,
    spec_path: &FieldPath,
    spec: &'a Value,
    volumes: &BTreeSet<&str>,
) -> BTreeSet<&'a str> {
    let path = spec_path.child("containers");
    let mut names = BTreeSet::new();
    let containers = list(&spec["containers"]);
    if containers.is_empty() {
        check.required(&path, "");
    }
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        let name = text(&container["name"]);
        self::container(check, &path, container, volumes);
        if !names.insert(name) {
            check.duplicate(&path.child("name"), name);
        }
    }
    names
}

pub(super) fn init_containers(
    check: &mut Check,
    spec_path: &FieldPath,
    spec: &Value,
    volumes: &BTreeSet<&str>,
    taken: &BTreeSet<&str>,
) {
    let mut names = taken.clone();
    for (at, container) in list(&spec["initContainers"]).iter().enumerate() {
        let path = spec_path.child("initContainers").index(at);
        let name = text(&container["name"]);
        self::container(check, &path, container, volumes);
        if !name.is_empty() && !names.insert(name) {
            check.duplicate(&path.child("name"), name);
        }
    }
}

fn container(check: &mut Check, path: &FieldPath, container: &Value, volumes: &BTreeSet<&str>) {
    if check.present(path, container, "name") {
        check.dns_label(&path.child("name"), text(&container["name"]));
    }
    let image = text(&container["image"]);
    if image.is_empty() {
        check.required(&path.child("image"), "");
    } else if image != image.trim() {
        check.invalid(
            &path.child("image"),
            image,
            "must not have leading or trailing whitespace",
        );
    }
    check.one_of(
        path,
        container,
        "terminationMessagePolicy",
        &["File", "FallbackToLogsOnError"],
    );
    ports(check, &path.child("ports"), &container["ports"]);
    environment(check, path, container);
    mounts(
        check,
        &path.child("volumeMounts"),
        &container["volumeMounts"],
        volumes,
    );
    check.one_of(
        path,
        container,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
    );
    resources(check, &path.child("resources"), &container["resources"]);
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, kind) {
            probe(check, &path.child(kind), kind, &container[kind]);
        }
    }
    for hook in ["postStart", "preStop"] {
        if has(&container["lifecycle"], hook) {
            let path = path.child("lifecycle").child(hook);
            handler(check, &path, &container["lifecycle"][hook]);
        }
    }
    for key in ["runAsUser", "runAsGroup"] {
        let id = container["securityContext"][key].as_i64();
        if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
            let path = path.child("securityContext").child(key);
            check.invalid(&path, id, "must be between 0 and 2147483647, inclusive");
        }
    }
}

fn ports(check: &mut Check, path: &FieldPath, ports: &Value) {
    let mut names = BTreeSet::new();
    for (at, port) in list(ports).iter().enumerate() {
        let path = path.index(at);
        let name = text(&port["name"]);
        if !name.is_empty() {
            let complaints = port_name(name);
            if !complaints.is_empty() {
                check.complaints(&path.child("name"), name, complaints);
            } else if !names.insert(name) {
                check.duplicate(&path.child("name"), name);
            }
        }
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            check.required(&path.child("containerPort"), "");
        } else {
            check.port_number(&path.child("containerPort"), &port["containerPort"]);
        }
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            check.port_number(&path.child("hostPort"), &port["hostPort"]);
        }
        check.one_of(&path, port, "protocol", PROTOCOLS);
    }
}

fn environment(check: &mut Check, path: &FieldPath, container: &Value) {
    for (at, variable) in list(&container["env"]).iter().enumerate() {
        let path = path.child("env").index(at);
        let name = text(&variable["name"]);
        if name.is_empty() {
            check.required(&path.child("name"), "");
        } else if !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
            let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            check.invalid(&path.child("name"), name, detail);
        }
        if has(variable, "valueFrom") {
            value_from(check, &path.child("valueFrom"), variable);
        }
    }
    for source in list(&container["envFrom"]) {
        if !has(source, "configMapRef") && !has(source, "secretRef") {
            check.invalid(
                &path.child("envFrom"),
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            );
        }
    }
}

fn value_from(check: &mut Check, path: &FieldPath, variable: &Value) {
    const SOURCES: [&str; 5] = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let source = &variable["valueFrom"];
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if has(source, key) {
            check.present(&path.child(key), &source[key], "name");
            check.present(&path.child(key), &source[key], "key");
        }
    }
    if has(source, "fieldRef") {
        field_reference(check, &path.child("fieldRef"), &source["fieldRef"]);
    }
    match SOURCES.iter().filter(|key| has(source, key)).count() {
        0 => {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            check.invalid(path, "", detail);
        }
        _ if !text(&variable["value"]).is_empty() => {
            check.invalid(path, "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => check.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn field_reference(check: &mut Check, path: &FieldPath, reference: &Value) {
    const FIELDS: &[&str] = &[
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "spec.host",
    ];
    let field = text(&reference["fieldPath"]);
    let subscript = ["metadata.annotations['", "metadata.labels['"]
        .iter()
        .any(|start| field.starts_with(start));
    if field.is_empty() {
        check.required(&path.child("fieldPath"), "");
    } else if !subscript && !FIELDS.contains(&field) {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        check.invalid(&path.child("fieldPath"), field, detail);
    }
}

fn mounts(check: &mut Check, path: &FieldPath, mounts: &Value, volumes: &BTreeSet<&str>) {
    let mut targets = BTreeSet::new();
    for (at, mount) in list(mounts).iter().enumerate() {
        let path = path.index(at);
        check.present(&path, mount, "name");
        let name = text(&mount["name"]);
        if !volumes.contains(name) {
            check.not_found(&path.child("name"), name);
        }
        check.present(&path, mount, "mountPath");
        let target = text(&mount["mountPath"]);
        if !target.is_empty() && !targets.insert(target) {
            check.invalid(&path.child("mountPath"), target, "must be unique");
        }
    }
}

fn resources(check: &mut Check, path: &FieldPath, resources: &Value) {
    for kind in ["limits", "requests"] {
        for (name, amount) in resources[kind].as_object().into_iter().flatten() {
            let path = path.child(kind).key(name);
            let standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "storage");
            if !standard && !name.contains('/') && !name.starts_with("hugepages-") {
                check.invalid(
                    &path,
                    name.as_str(),
                    "must be a standard resource type or fully qualified",
                );
                check.invalid(&path, name.as_str(), "must be a standard resource for containers");
            }
            check.amount(&path, amount, name.contains('/'));
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        let (Ok(asked), Ok(most)) = (Quantity::parse(text(request)), Quantity::parse(text(limit))) else {
            continue;
        };
        if limit.is_null() {
            if name.contains('/') {
                check.required(
                    &path.child("limits"),
                    "Limit must be set for non overcommitable resources",
                );
            }
        } else if asked.cmp(most).is_gt() {
            let detail = format!("must be less than or equal to {name} limit of {}", text(limit));
            check.invalid(&path.child("requests"), request.clone(), detail);
        }
    }
}

fn probe(check: &mut Check, path: &FieldPath, kind: &str, probe: &Value) {
    handler(check, path, probe);
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        if let Some(number) = probe[key].as_i64().filter(|n| *n < 0) {
            check.invalid(&path.child(key), number, NOT_NEGATIVE);
        }
    }
    let threshold = probe["successThreshold"].as_i64().unwrap_or(1);
    if kind != "readinessProbe" && threshold > 1 {
        check.invalid(&path.child("successThreshold"), threshold, "must be 1");
    }
}

/// One action and no more.
fn handler(check: &mut Check, path: &FieldPath, handler: &Value) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut given = kinds.iter().filter(|kind| has(handler, kind));
    let Some(first) = given.next() else {
        return check.required(path, "must specify a handler type");
    };
    let action = &handler[*first];
    match *first {
        "exec" if list(&action["command"]).is_empty() => {
            check.required(&path.child("exec").child("command"), "");
        }
        "httpGet" | "tcpSocket" | "grpc" => check.port(&path.child(first).child("port"), &action["port"]),
        _ => {}
    }
    for more in given {
        check.forbidden(&path.child(more), "may not specify more than 1 handler type");
    }
}
