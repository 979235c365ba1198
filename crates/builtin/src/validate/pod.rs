//! Pod specs, alone and in templates.

use serde_json::Value;
use skopos_object::FieldPath;

use super::check::{Check, address, has, list, text};
use super::{container, scheduling, volume};

/// A pod, which can have a node from its beginning only if it has no gate.
pub(super) fn pod(check: &mut Check, path: &FieldPath, spec: &Value, create: bool) {
    pod_spec(check, path, spec);
    if create && !text(&spec["nodeName"]).is_empty() && !list(&spec["schedulingGates"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        check.forbidden(&path.child("nodeName"), detail);
    }
}

/// A pod template of a workload.
pub(super) fn template(check: &mut Check, path: &FieldPath, template: &Value) {
    check.labels(&path.child("labels"), &template["metadata"]["labels"]);
    pod_spec(check, &path.child("spec"), &template["spec"]);
}

pub(super) fn pod_spec(check: &mut Check, path: &FieldPath, spec: &Value) {
    let volumes = volume::volumes(check, &path.child("volumes"), &spec["volumes"]);
    let names = container::containers(check, path, spec, &volumes);
    container::init_containers(check, path, spec, &volumes, &names);
    check.one_of(path, spec, "restartPolicy", &["Always", "OnFailure", "Never"]);
    check.one_of(
        path,
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    check.labels(&path.child("nodeSelector"), &spec["nodeSelector"]);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        check.invalid(&path.child("activeDeadlineSeconds"), seconds, detail);
    }
    for key in ["hostname", "subdomain"] {
        if has(spec, key) {
            check.dns_label(&path.child(key), text(&spec[key]));
        }
    }
    for key in [
        "serviceAccountName",
        "nodeName",
        "priorityClassName",
        "runtimeClassName",
    ] {
        if !text(&spec[key]).is_empty() {
            check.dns_subdomain(&path.child(key), text(&spec[key]));
        }
    }
    scheduling::tolerations(check, &path.child("tolerations"), &spec["tolerations"]);
    for (at, alias) in list(&spec["hostAliases"]).iter().enumerate() {
        let path = path.child("hostAliases").index(at);
        if let Some(detail) = address(text(&alias["ip"])) {
            check.invalid(&path.child("ip"), text(&alias["ip"]), detail);
        }
        for (at, name) in list(&alias["hostnames"]).iter().enumerate() {
            check.dns_subdomain(&path.child("hostnames").index(at), text(name));
        }
    }
    scheduling::spread(
        check,
        &path.child("topologySpreadConstraints"),
        &spec["topologySpreadConstraints"],
    );
    scheduling::gates(check, &path.child("schedulingGates"), &spec["schedulingGates"]);
    scheduling::affinity(check, &path.child("affinity"), &spec["affinity"]);
}
