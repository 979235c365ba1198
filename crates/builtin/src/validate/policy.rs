//! Quotas, limits, autoscalers, disruption budgets, leases, events and other small kinds.

use serde_json::{Value, json};
use skopos_object::FieldPath;
use skopos_object::validation::label_key;

use super::check::{Check, cidr, has, list, text};
use super::scheduling::EFFECTS;
use crate::kind::Kind;
use crate::quantity::Quantity;

pub(super) fn resource_quota(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    for (name, amount) in spec["hard"].as_object().into_iter().flatten() {
        let path = path.child("hard").key(name);
        if !quota_name(name) {
            check.invalid(
                &path,
                name.as_str(),
                "must be a standard resource type or fully qualified",
            );
            check.invalid(&path, name.as_str(), "must be a standard resource for quota");
        }
        let whole = !matches!(
            name.rsplit('.').next(),
            Some("cpu" | "memory" | "storage" | "ephemeral-storage")
        );
        check.amount(&path, amount, whole);
    }
    const SCOPES: [&str; 6] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
    ];
    for scope in list(&spec["scopes"]) {
        if !SCOPES.contains(&text(scope)) && text(scope) != "VolumeAttributesClass" {
            check.invalid(&path.child("scopes"), spec["scopes"].clone(), "unsupported scope");
        }
    }
}

fn quota_name(name: &str) -> bool {
    let standard = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let prefixed = ["requests.", "limits.", "count/", "hugepages-"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    standard.contains(&name) || prefixed || name.contains('/')
}

pub(super) fn limit_range(check: &mut Check, spec: &Value) {
    for (at, limit) in list(&spec["limits"]).iter().enumerate() {
        let path = FieldPath::root().child("spec").child("limits").index(at);
        let kind = text(&limit["type"]);
        if !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") && !kind.contains('/') {
            check.invalid(
                &path.child("type"),
                kind,
                "must be a standard limit type or fully qualified",
            );
        }
        for (name, min) in limit["min"].as_object().into_iter().flatten() {
            let Ok(least) = Quantity::parse(text(min)) else {
                continue;
            };
            // The server shows the minimum of defaults but the amount of the request itself.
            for (key, word) in [
                ("max", "max"),
                ("defaultRequest", "default request"),
                ("default", "default"),
            ] {
                let other = &limit[key][name];
                let above = Quantity::parse(text(other)).is_ok_and(|amount| least.cmp(amount).is_gt());
                if other.is_null() || !above {
                    continue;
                }
                let detail = format!(
                    "min value {} is greater than {word} value {}",
                    text(min),
                    text(other)
                );
                let (at, shown) = match key {
                    "max" => ("min", min),
                    "defaultRequest" => (key, other),
                    _ => (key, min),
                };
                check.invalid(&path.child(at).key(name), shown.clone(), detail);
            }
        }
    }
}

pub(super) fn namespace(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec").child("finalizers");
    for finalizer in list(&spec["finalizers"])
        .iter()
        .map(text)
        .filter(|f| *f != "kubernetes")
    {
        let complaints = label_key(finalizer);
        if complaints.is_empty() && !finalizer.contains('/') {
            check.invalid(
                &path,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
        check.complaints(&path, finalizer, complaints);
    }
}

pub(super) fn node(check: &mut Check, spec: &Value) {
    for (at, taint) in list(&spec["taints"]).iter().enumerate() {
        let path = FieldPath::root().child("metadata").child("taints").index(at);
        let key = text(&taint["key"]);
        check.complaints(&path.child("key"), key, label_key(key));
        match text(&taint["effect"]) {
            "" => check.required(&path.child("effect"), ""),
            _ => check.one_of(&path, taint, "effect", EFFECTS),
        }
    }
    for (at, range) in list(&spec["podCIDRs"]).iter().enumerate() {
        if let Some(detail) = cidr(text(range)) {
            check.invalid(
                &FieldPath::root().child("spec").child("podCIDRs").index(at),
                text(range),
                detail,
            );
        }
    }
}

pub(super) fn event(kind: &Kind, check: &mut Check, event: &Value, old: Option<&Value>) {
    let root = FieldPath::root();
    let new_style = kind.group == "events.k8s.io";
    let object = if new_style {
        &event["regarding"]
    } else {
        &event["involvedObject"]
    };
    let namespace = text(&object["namespace"]);
    let own = text(&event["metadata"]["namespace"]);
    let cluster_scoped = namespace.is_empty() && own == "default";
    if namespace != own && !cluster_scoped && !(new_style && namespace.is_empty() && own == "kube-system") {
        check.invalid(
            &root.child("involvedObject").child("namespace"),
            namespace,
            "does not match event.namespace",
        );
    }
    if !new_style || old.is_some() {
        return;
    }
    if event["eventTime"].is_null() {
        check.required(&root.child("eventTime"), "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        check.invalid(&root.child("type"), kind, format!("has invalid value: {kind}"));
    }
}

pub(super) fn autoscaler(version: &str, check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    let minimum = spec["minReplicas"].as_i64();
    if let Some(minimum) = minimum.filter(|n| *n < 1) {
        check.invalid(
            &path.child("minReplicas"),
            minimum,
            "must be greater than or equal to 1",
        );
    }
    let maximum = spec["maxReplicas"].as_i64().unwrap_or(0);
    if maximum < 1 {
        check.required(&path.child("maxReplicas"), "must be set and greater than 0");
    }
    if minimum.is_some_and(|minimum| maximum < minimum) {
        check.invalid(
            &path.child("maxReplicas"),
            maximum,
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = path.child("scaleTargetRef");
    check.present(&target, &spec["scaleTargetRef"], "kind");
    check.present(&target, &spec["scaleTargetRef"], "name");
    let api_version = text(&spec["scaleTargetRef"]["apiVersion"]);
    if !api_version.contains('/') {
        check.invalid(
            &target.child("apiVersion"),
            api_version,
            "apiVersion must specify API group",
        );
    }
    if version == "v2" {
        metrics(check, &path, spec);
    }
}

fn metrics(check: &mut Check, path: &FieldPath, spec: &Value) {
    const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    for (at, metric) in list(&spec["metrics"]).iter().enumerate() {
        let path = path.child("metrics").index(at);
        let kind = text(&metric["type"]);
        if !TYPES.contains(&kind) {
            check.unsupported(&path.child("type"), kind, &TYPES);
            continue;
        }
        let source = format!("{}{}", kind[..1].to_lowercase(), &kind[1..]);
        if !has(metric, &source) {
            check.required(
                &path.child(&source),
                "must populate information for the given metric source",
            );
        }
    }
    let scalable = |metric: &Value| matches!(text(&metric["type"]), "Object" | "External");
    if spec["minReplicas"] == 0 && !list(&spec["metrics"]).iter().any(scalable) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        check.forbidden(&path.child("metrics"), detail);
    }
}

pub(super) fn disruption_budget(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let or_null = |key: &str| spec.get(key).cloned().unwrap_or_default();
        let shown = json!({"MinAvailable": or_null("minAvailable"), "Selector": or_null("selector"),
            "MaxUnavailable": or_null("maxUnavailable"), "UnhealthyPodEvictionPolicy": or_null("unhealthyPodEvictionPolicy")});
        check.invalid(&path, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for key in ["minAvailable", "maxUnavailable"] {
        check.count_or_percent(&path.child(key), &spec[key]);
        check.at_most_all(&path.child(key), &spec[key]);
    }
    check.selector(&path.child("selector"), &spec["selector"]);
}

pub(super) fn priority_class(check: &mut Check, class: &Value) {
    let root = FieldPath::root();
    let name = text(&class["metadata"]["name"]);
    let system = ["system-cluster-critical", "system-node-critical"].contains(&name);
    if name.starts_with("system-") && !system {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
        );
        check.forbidden(&root.child("metadata").child("name"), detail);
    } else if !system && class["value"].as_i64().unwrap_or(0) > 1_000_000_000 {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        check.forbidden(&root.child("value"), detail);
    }
    check.one_of(
        &root,
        class,
        "preemptionPolicy",
        &["PreemptLowerPriority", "Never"],
    );
}

pub(super) fn lease(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|n| *n <= 0) {
        check.invalid(
            &path.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        );
    }
    check.not_negative(&path, spec, "leaseTransitions");
}

pub(super) fn runtime_class(check: &mut Check, class: &Value) {
    let root = FieldPath::root();
    if check.present(&root, class, "handler") {
        check.dns_label(&root.child("handler"), text(&class["handler"]));
    }
}
