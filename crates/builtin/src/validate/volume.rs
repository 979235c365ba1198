//! Volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;
use skopos_object::FieldPath;

use super::check::{Check, dns1123_label, list, text};

/// Checks the volumes and returns their names.
pub(super) fn volumes<'a>(check: &mut Check, path: &FieldPath, volumes: &'a Value) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, volume) in list(volumes).iter().enumerate() {
        let path = path.index(at);
        let name = text(&volume["name"]);
        if name.is_empty() {
            check.required(&path.child("name"), "");
        } else if !dns1123_label(name).is_empty() {
            check.dns_label(&path.child("name"), name);
        } else if !names.insert(name) {
            check.duplicate(&path.child("name"), name);
        }
        sources(check, &path, volume);
    }
    names
}

/// One source and no more.
fn sources(check: &mut Check, path: &FieldPath, volume: &Value) {
    let members = volume.as_object().into_iter().flatten();
    let sources = members.filter(|(key, value)| *key != "name" && !value.is_null());
    for (at, (key, source)) in sources.enumerate() {
        if at > 0 {
            check.forbidden(&path.child(key), "may not specify more than 1 volume type");
        } else {
            self::source(check, &path.child(key), key, source);
        }
    }
}

fn source(check: &mut Check, path: &FieldPath, kind: &str, source: &Value) {
    match kind {
        "hostPath" => host_path(check, path, source),
        "configMap" => drop(check.present(path, source, "name")),
        "secret" => drop(check.present(path, source, "secretName")),
        "persistentVolumeClaim" => drop(check.present(path, source, "claimName")),
        "nfs" => {
            check.present(path, source, "server");
            check.present(path, source, "path");
        }
        "csi" => drop(check.present(path, source, "driver")),
        _ => {}
    }
}

/// A path on the host; it may not climb.
pub(super) fn host_path(check: &mut Check, path: &FieldPath, source: &Value) {
    if !check.present(path, source, "path") {
        return;
    }
    let target = text(&source["path"]);
    if target.split('/').any(|part| part == "..") {
        check.invalid(&path.child("path"), target, "must not contain '..'");
    }
}
