//! Persistent volumes, claims and storage classes.

use serde_json::{Value, json};
use skopos_object::FieldPath;

use super::check::{Check, has, list, text};
use super::volume::host_path;
use crate::quantity::Quantity;

const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Fields of a volume's spec that are not its source.
const NOT_SOURCES: &[&str] = &[
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

fn modes(check: &mut Check, path: &FieldPath, spec: &Value) {
    let path = path.child("accessModes");
    let modes = list(&spec["accessModes"]);
    for mode in modes.iter().filter(|mode| !MODES.contains(&text(mode))) {
        check.unsupported(&path, mode.clone(), MODES);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        check.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn positive(check: &mut Check, path: &FieldPath, amount: &Value) {
    let zero = Quantity::parse("0").ok();
    if let (Ok(amount_of), Some(zero)) = (Quantity::parse(text(amount)), zero)
        && amount_of.cmp(zero).is_le()
    {
        check.invalid(path, amount.clone(), "must be greater than zero");
    }
}

pub(super) fn claim(check: &mut Check, path: &FieldPath, spec: &Value) {
    if list(&spec["accessModes"]).is_empty() {
        check.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    modes(check, path, spec);
    let storage = path.child("resources").key("storage");
    match spec["resources"]["requests"].get("storage") {
        None => check.required(&storage, ""),
        Some(amount) => positive(check, &storage, amount),
    }
    if !text(&spec["storageClassName"]).is_empty() {
        check.dns_subdomain(&path.child("storageClassName"), text(&spec["storageClassName"]));
    }
    check.one_of(path, spec, "volumeMode", &["Block", "Filesystem"]);
}

pub(super) fn persistent_volume(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    if list(&spec["accessModes"]).is_empty() {
        check.required(&path.child("accessModes"), "");
    }
    modes(check, &path, spec);
    let capacity = path.child("capacity");
    let empty = spec["capacity"].as_object().is_none_or(serde_json::Map::is_empty);
    if empty {
        check.required(&capacity, "");
    }
    match spec["capacity"].get("storage") {
        None => {
            let shown = if empty {
                json!({})
            } else {
                spec["capacity"].clone()
            };
            check.unsupported(&capacity, shown, &["storage"]);
        }
        Some(amount) => positive(check, &capacity.key("storage"), amount),
    }
    check.one_of(
        &path,
        spec,
        "persistentVolumeReclaimPolicy",
        &["Delete", "Recycle", "Retain"],
    );
    sources(check, &path, spec);
    if !text(&spec["storageClassName"]).is_empty() {
        check.dns_subdomain(&path.child("storageClassName"), text(&spec["storageClassName"]));
    }
    check.one_of(&path, spec, "volumeMode", &["Block", "Filesystem"]);
}

fn sources(check: &mut Check, path: &FieldPath, spec: &Value) {
    let members = spec.as_object().into_iter().flatten();
    let mut sources = members.filter(|(key, value)| !NOT_SOURCES.contains(&key.as_str()) && !value.is_null());
    let Some((first, source)) = sources.next() else {
        return check.required(path, "must specify a volume type");
    };
    if first == "hostPath" {
        host_path(check, &path.child("hostPath"), source);
    }
    for (more, _) in sources {
        check.forbidden(&path.child(more), "may not specify more than 1 volume type");
    }
}

pub(super) fn storage_class(check: &mut Check, class: &Value) {
    let root = FieldPath::root();
    check.present(&root, class, "provisioner");
    check.one_of(&root, class, "reclaimPolicy", &["Delete", "Retain"]);
    check.one_of(
        &root,
        class,
        "volumeBindingMode",
        &["Immediate", "WaitForFirstConsumer"],
    );
    if has(class, "parameters") && class["parameters"].as_object().is_some_and(|p| p.len() > 512) {
        check.too_long(&root.child("parameters"), 512);
    }
}
