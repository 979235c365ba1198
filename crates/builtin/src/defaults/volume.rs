//! Volumes of pods, persistent volumes and claims.

use serde_json::{Value, json};

use super::{items, object_at, or, pod};

/// A volume of a pod; without a source it is an empty directory.
pub(super) fn pod_volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|map| map.keys().any(|key| key != "name"));
    if !has_source {
        or(volume, "emptyDir", json!({}));
    }
    source(volume);
    for key in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(key) {
            or(source, "defaultMode", 0o644);
        }
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        items(source, "items").for_each(field_reference);
    }
    if let Some(source) = volume.get_mut("projected") {
        for projection in items(source, "sources") {
            if let Some(token) = projection.get_mut("serviceAccountToken") {
                or(token, "expirationSeconds", 3_600);
            }
            if let Some(downward) = projection.get_mut("downwardAPI") {
                items(downward, "items").for_each(field_reference);
            }
        }
    }
    if let Some(spec) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        or(spec, "volumeMode", "Filesystem");
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = pod::pull_policy(image["reference"].as_str().unwrap_or_default());
        or(image, "pullPolicy", policy);
    }
}

fn field_reference(item: &mut Value) {
    if let Some(reference) = item.get_mut("fieldRef") {
        or(reference, "apiVersion", "v1");
    }
}

/// The sources that pods and persistent volumes share.
fn source(volume: &mut Value) {
    let defaults: &[(&str, &[(&str, Value)])] = &[
        ("hostPath", &[("type", json!(""))]),
        ("iscsi", &[("iscsiInterface", json!("default"))]),
        (
            "rbd",
            &[
                ("pool", json!("rbd")),
                ("user", json!("admin")),
                ("keyring", json!("/etc/ceph/keyring")),
            ],
        ),
        (
            "scaleIO",
            &[
                ("storageMode", json!("ThinProvisioned")),
                ("fsType", json!("xfs")),
            ],
        ),
        (
            "azureDisk",
            &[
                ("cachingMode", json!("ReadWrite")),
                ("kind", json!("Shared")),
                ("fsType", json!("ext4")),
                ("readOnly", json!(false)),
            ],
        ),
    ];
    for (name, members) in defaults {
        let Some(source) = volume.get_mut(*name) else {
            continue;
        };
        for (key, value) in *members {
            or(source, key, value.clone());
        }
    }
}

/// A persistent volume.
pub(super) fn persistent_volume(volume: &mut Value) {
    or(object_at(volume, "status"), "phase", "Pending");
    let spec = &mut volume["spec"];
    or(spec, "persistentVolumeReclaimPolicy", "Retain");
    or(spec, "volumeMode", "Filesystem");
    source(spec);
}

/// A claim, also as a template in a stateful set.
pub(super) fn claim(claim: &mut Value) {
    or(object_at(claim, "status"), "phase", "Pending");
    or(&mut claim["spec"], "volumeMode", "Filesystem");
}
