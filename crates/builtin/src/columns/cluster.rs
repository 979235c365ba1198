//! Volumes, bindings, storage, admission, flow control and other small kinds.

use serde_json::Value;

use super::cell::{age_of, count, display, join, list, name_of, number, text, text_or};
use crate::kind::Kind;
use crate::time;

pub(super) fn cells(kind: &Kind, object: &Value, now: i64) -> Option<Vec<Value>> {
    let spec = &object["spec"];
    let middle: Vec<Value> = match (kind.group, kind.kind) {
        ("", "PersistentVolume") => return Some(persistent_volume(object, now)),
        ("", "PersistentVolumeClaim") => return Some(claim(object, now)),
        ("", "ComponentStatus") => return Some(component_status(object)),
        ("apiregistration.k8s.io", _) => vec![service_of(spec).into(), available(object).into()],
        ("certificates.k8s.io", _) => return Some(signing_request(object, now)),
        ("policy", _) => {
            let or_none = |value: &Value| {
                if value.is_null() {
                    "N/A".to_owned()
                } else {
                    display(value)
                }
            };
            vec![
                or_none(&spec["minAvailable"]).into(),
                or_none(&spec["maxUnavailable"]).into(),
                number(&object["status"]["disruptionsAllowed"]).into(),
            ]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            return Some(binding(object, now));
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(spec),
        ("storage.k8s.io", "CSINode") => vec![count(&spec["drivers"]).into()],
        ("storage.k8s.io", "StorageClass") => return Some(storage_class(object, now)),
        ("storage.k8s.io", "VolumeAttachment") => vec![
            text(&spec["attacher"]).into(),
            text(&spec["source"]["persistentVolumeName"]).into(),
            text(&spec["nodeName"]).into(),
            (object["status"]["attached"] == true).into(),
        ],
        ("storage.k8s.io", "VolumeAttributesClass") => vec![text(&object["driverName"]).into()],
        ("admissionregistration.k8s.io", name) => admission(name, object),
        ("scheduling.k8s.io", _) => {
            return Some(vec![
                name_of(object),
                number(&object["value"]).into(),
                (object["globalDefault"] == true).into(),
                age_of(object, now),
                text(&object["preemptionPolicy"]).into(),
            ]);
        }
        ("coordination.k8s.io", _) => vec![text(&spec["holderIdentity"]).into()],
        ("node.k8s.io", _) => vec![text(&object["handler"]).into()],
        ("resource.k8s.io", "ResourceClaim") => vec![claim_state(object).into()],
        ("resource.k8s.io", "ResourceSlice") => vec![
            text(&spec["nodeName"]).into(),
            text(&spec["driver"]).into(),
            text(&spec["pool"]["name"]).into(),
        ],
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => return Some(flow_schema(object, now)),
        ("flowcontrol.apiserver.k8s.io", _) => priority_level(spec),
        _ => return None,
    };
    let mut cells = vec![name_of(object)];
    cells.extend(middle);
    cells.push(age_of(object, now));
    Some(cells)
}

/// The name, marked when an annotation makes the object the default of its kind.
pub(super) fn name_or_default(object: &Value, annotation: &str) -> Value {
    let name = text(&object["metadata"]["name"]);
    if object["metadata"]["annotations"][annotation] == "true" {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

fn access_modes(modes: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |name: &str| list(modes).iter().any(|mode| mode == name);
    short
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

fn phase(object: &Value) -> &str {
    let deleting = !object["metadata"]["deletionTimestamp"].is_null();
    if deleting {
        "Terminating"
    } else {
        text(&object["status"]["phase"])
    }
}

fn persistent_volume(volume: &Value, now: i64) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = &spec["claimRef"];
    let claim = match claim.is_object() {
        true => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
        false => String::new(),
    };
    vec![
        name_of(volume),
        text_or(&spec["capacity"]["storage"], "0").into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(volume).into(),
        claim.into(),
        text(&spec["storageClassName"]).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        text(&volume["status"]["reason"]).into(),
        age_of(volume, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

fn claim(claim: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let volume = text(&spec["volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (
            text_or(&status["capacity"]["storage"], "0").to_owned(),
            access_modes(&status["accessModes"]),
        )
    };
    vec![
        name_of(claim),
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        text(&spec["storageClassName"]).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        age_of(claim, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

fn component_status(component: &Value) -> Vec<Value> {
    let healthy = list(&component["conditions"])
        .iter()
        .find(|c| c["type"] == "Healthy");
    let status = match healthy.map(|c| c["status"] == "True") {
        Some(true) => "Healthy",
        Some(false) => "Unhealthy",
        None => "Unknown",
    };
    let part = |name: &str| healthy.map_or("", |c| text(&c[name])).into();
    vec![name_of(component), status.into(), part("message"), part("error")]
}

fn service_of(spec: &Value) -> String {
    let service = &spec["service"];
    match service.is_object() {
        true => format!("{}/{}", text(&service["namespace"]), text(&service["name"])),
        false => "Local".to_owned(),
    }
}

fn available(service: &Value) -> String {
    let found = list(&service["status"]["conditions"])
        .iter()
        .find(|c| c["type"] == "Available");
    let Some(condition) = found else {
        return "Unknown".to_owned();
    };
    let status = text(&condition["status"]);
    match text(&condition["reason"]) {
        reason if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        _ => status.to_owned(),
    }
}

fn signing_request(request: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&request["spec"], &request["status"]);
    let has = |name: &str| list(&status["conditions"]).iter().any(|c| c["type"] == name);
    let mut condition = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        condition.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        condition.push_str(",Issued");
    }
    let duration = spec["expirationSeconds"].as_i64().map(time::human_duration);
    vec![
        name_of(request),
        age_of(request, now),
        text_or(&spec["signerName"], "<none>").into(),
        text(&spec["username"]).into(),
        duration.unwrap_or_else(|| "<none>".to_owned()).into(),
        condition.into(),
    ]
}

fn binding(binding: &Value, now: i64) -> Vec<Value> {
    let role = &binding["roleRef"];
    let subjects = |kind: &str| {
        let found = list(&binding["subjects"])
            .iter()
            .filter(|subject| subject["kind"] == kind);
        let name = |subject: &Value| match subject["namespace"].as_str().filter(|_| kind == "ServiceAccount")
        {
            Some(namespace) if !namespace.is_empty() => format!("{namespace}/{}", text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        };
        Value::from(found.map(name).collect::<Vec<_>>().join(", "))
    };
    vec![
        name_of(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age_of(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn csi_driver(spec: &Value) -> Vec<Value> {
    let tokens = join(list(&spec["tokenRequests"]), ",", |token| {
        text(&token["audience"])
    });
    vec![
        (spec["attachRequired"] != false).into(),
        (spec["podInfoOnMount"] == true).into(),
        (spec["storageCapacity"] == true).into(),
        if tokens.is_empty() {
            "<unset>".into()
        } else {
            tokens.into()
        },
        (spec["requiresRepublish"] == true).into(),
        match list(&spec["volumeLifecycleModes"]) {
            [] => "<none>".into(),
            modes => join(modes, ",", text).into(),
        },
    ]
}

fn storage_class(class: &Value, now: i64) -> Vec<Value> {
    vec![
        name_or_default(class, "storageclass.kubernetes.io/is-default-class"),
        text(&class["provisioner"]).into(),
        text_or(&class["reclaimPolicy"], "Delete").into(),
        text_or(&class["volumeBindingMode"], "Immediate").into(),
        (class["allowVolumeExpansion"] == true).into(),
        age_of(class, now),
    ]
}

fn admission(kind: &str, object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let parameter_kind = match &spec["paramKind"] {
        Value::Object(kind) => {
            let part = |name: &str| kind.get(name).map(text).unwrap_or_default().to_owned();
            format!("{}/{}", part("apiVersion"), part("kind"))
        }
        _ => "<unset>".to_owned(),
    };
    match kind {
        "ValidatingAdmissionPolicy" => vec![count(&spec["validations"]).into(), parameter_kind.into()],
        "MutatingAdmissionPolicy" => vec![count(&spec["mutations"]).into(), parameter_kind.into()],
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let parameter = &spec["paramRef"];
            let shown = match text(&parameter["name"]) {
                "" => "<unset>".to_owned(),
                name => format!("{}/{name}", text_or(&parameter["namespace"], "*")),
            };
            vec![text(&spec["policyName"]).into(), shown.into()]
        }
        _ => vec![count(&object["webhooks"]).into()],
    }
}

fn claim_state(claim: &Value) -> String {
    let deleting = !claim["metadata"]["deletionTimestamp"].is_null();
    let mut states = Vec::new();
    if deleting {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        states.push("allocated");
        if count(&claim["status"]["reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !deleting {
        states.push("pending");
    }
    states.join(",")
}

fn flow_schema(schema: &Value, now: i64) -> Vec<Value> {
    let spec = &schema["spec"];
    let dangling = list(&schema["status"]["conditions"])
        .iter()
        .find(|c| c["type"] == "Dangling");
    vec![
        name_of(schema),
        text(&spec["priorityLevelConfiguration"]["name"]).into(),
        number(&spec["matchingPrecedence"]).into(),
        text_or(&spec["distinguisherMethod"]["type"], "<none>").into(),
        age_of(schema, now),
        dangling.map_or("?", |c| text(&c["status"])).into(),
    ]
}

fn priority_level(spec: &Value) -> Vec<Value> {
    let limited = &spec["limited"];
    let queuing = &limited["limitResponse"]["queuing"];
    let or_none = |value: &Value| {
        if value.is_null() {
            "<none>".into()
        } else {
            value.clone()
        }
    };
    vec![
        text(&spec["type"]).into(),
        or_none(&limited["nominalConcurrencyShares"]),
        or_none(&queuing["queues"]),
        or_none(&queuing["handSize"]),
        or_none(&queuing["queueLengthLimit"]),
    ]
}
