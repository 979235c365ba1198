//! What may not change once an object exists.

mod claim;
mod pod;

use serde_json::{Value, json};
use skopos_object::FieldPath;

use super::check::{Check, IMMUTABLE, text};
use crate::kind::Kind;

pub use claim::grows;

/// What is looked at when everything else has been.
pub(super) fn validate_last(kind: &Kind, check: &mut Check, new: &Value, old: &Value) {
    if let ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") = (kind.group, kind.kind) {
        let spec = FieldPath::root().child("spec");
        fixed(check, &spec, &new["spec"], &old["spec"], &["selector"]);
    }
}

pub(super) fn validate(kind: &Kind, check: &mut Check, new: &Value, old: &Value) {
    let root = FieldPath::root();
    let spec = root.child("spec");
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => sealed(check, new, old, &["data", "binaryData"]),
        ("", "Secret") => {
            fixed(check, &root, new, old, &["type"]);
            sealed(check, new, old, &["data"]);
        }
        ("", "Pod") => pod::pod(check, &new["spec"], &old["spec"]),
        ("", "Service") => service(check, &new["spec"], &old["spec"]),
        ("", "PersistentVolumeClaim") => claim::claim(check, new, old),
        ("", "PersistentVolume") => persistent_volume(check, &new["spec"], &old["spec"]),
        ("apps", "StatefulSet") => stateful_set(check, &new["spec"], &old["spec"]),
        ("apps", "ControllerRevision") => fixed(check, &root, new, old, &["data"]),
        ("batch", "Job") => job(check, &new["spec"], &old["spec"]),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            let role = &new["roleRef"];
            if *role != old["roleRef"] {
                let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
                check.invalid(&root.child("roleRef"), shown, "cannot change roleRef");
            }
        }
        ("storage.k8s.io", "StorageClass") => {
            fixed(
                check,
                &root,
                new,
                old,
                &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"],
            );
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            if new["value"] != old["value"] {
                check.forbidden(&root.child("value"), "may not be changed in an update.");
            }
            if new["preemptionPolicy"] != old["preemptionPolicy"] {
                let path = root.child("preemptionPolicy");
                check.invalid(&path, new["preemptionPolicy"].clone(), IMMUTABLE);
            }
        }
        ("node.k8s.io", "RuntimeClass") => fixed(check, &root, new, old, &["handler"]),
        ("discovery.k8s.io", "EndpointSlice") => fixed(check, &root, new, old, &["addressType"]),
        ("networking.k8s.io", "IngressClass") => {
            fixed(check, &spec, &new["spec"], &old["spec"], &["controller"]);
        }
        _ => {}
    }
}

/// Kinds whose other checks only repeat what the update check has said.
pub(super) fn is_final(kind: &Kind) -> bool {
    matches!(
        (kind.group, kind.kind),
        ("", "Pod" | "PersistentVolumeClaim" | "PersistentVolume")
    )
}

fn fixed(check: &mut Check, path: &FieldPath, new: &Value, old: &Value, keys: &[&str]) {
    for key in keys {
        if new.get(*key) != old.get(*key) {
            check.invalid(
                &path.child(key),
                new.get(*key).cloned().unwrap_or_default(),
                IMMUTABLE,
            );
        }
    }
}

/// Config maps and secrets that were declared immutable.
fn sealed(check: &mut Check, new: &Value, old: &Value, keys: &[&str]) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    let root = FieldPath::root();
    if new["immutable"] != true {
        check.forbidden(&root.child("immutable"), DETAIL);
    }
    for key in keys {
        if new.get(*key) != old.get(*key) {
            check.forbidden(&root.child(key), DETAIL);
        }
    }
}

fn service(check: &mut Check, new: &Value, old: &Value) {
    let stable = |spec: &Value| matches!(text(&spec["type"]), "ClusterIP" | "NodePort" | "LoadBalancer");
    let (before, after) = (text(&old["clusterIP"]), text(&new["clusterIP"]));
    if stable(new) && stable(old) && !before.is_empty() && before != after {
        let path = FieldPath::root().child("spec").child("clusterIPs").index(0);
        check.invalid(&path, json!([after]), "may not change once set");
    }
}

fn persistent_volume(check: &mut Check, new: &Value, old: &Value) {
    let source = |spec: &Value| {
        let mut spec = spec.clone();
        if let Value::Object(map) = &mut spec {
            for key in [
                "capacity",
                "accessModes",
                "claimRef",
                "persistentVolumeReclaimPolicy",
                "storageClassName",
                "mountOptions",
                "volumeMode",
                "nodeAffinity",
                "volumeAttributesClassName",
            ] {
                map.remove(key);
            }
        }
        spec
    };
    if source(new) != source(old) {
        let path = FieldPath::root().child("spec").child("persistentvolumesource");
        check.forbidden(&path, "spec.persistentvolumesource is immutable after creation");
    }
}

fn stateful_set(check: &mut Check, new: &Value, old: &Value) {
    let rest = |spec: &Value| {
        let mut spec = spec.clone();
        if let Value::Object(map) = &mut spec {
            for key in [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ] {
                map.remove(key);
            }
        }
        spec
    };
    if rest(new) != rest(old) {
        check.forbidden(
            &FieldPath::root().child("spec"),
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

fn job(check: &mut Check, new: &Value, old: &Value) {
    let path = FieldPath::root().child("spec");
    let indexed = new["completionMode"] == "Indexed" && new["completions"] == new["parallelism"];
    if !indexed {
        fixed(check, &path, new, old, &["completions"]);
    }
    fixed(
        check,
        &path,
        new,
        old,
        &[
            "selector",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
        ],
    );
    // Suspended jobs may change where their pods run; the rest of the template stays.
    if old["suspend"] != true {
        fixed(check, &path, new, old, &["template"]);
    }
}
