//! Roles and bindings.

use serde_json::Value;
use skopos_object::FieldPath;

use super::check::{Check, list, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn validate(kind: &str, check: &mut Check, object: &Value) {
    match kind {
        "Role" => rules(check, object, true),
        "ClusterRole" => rules(check, object, false),
        _ => binding(check, object, kind == "RoleBinding"),
    }
}

fn rules(check: &mut Check, role: &Value, namespaced: bool) {
    for (at, rule) in list(&role["rules"]).iter().enumerate() {
        let path = FieldPath::root().child("rules").index(at);
        let empty = |key: &str| list(&rule[key]).is_empty();
        if empty("verbs") {
            check.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        if !empty("nonResourceURLs") {
            let urls = path.child("nonResourceURLs");
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                check.invalid(&urls, rule["nonResourceURLs"].clone(), detail);
            }
            if ["apiGroups", "resources", "resourceNames"]
                .iter()
                .any(|key| !empty(key))
            {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                check.invalid(&urls, rule["nonResourceURLs"].clone(), detail);
            }
            continue;
        }
        if empty("apiGroups") {
            check.required(
                &path.child("apiGroups"),
                "resource rules must supply at least one api group",
            );
        }
        if empty("resources") {
            check.required(
                &path.child("resources"),
                "resource rules must supply at least one resource",
            );
        }
    }
}

fn binding(check: &mut Check, binding: &Value, namespaced: bool) {
    let path = FieldPath::root().child("roleRef");
    let role = &binding["roleRef"];
    if text(&role["apiGroup"]) != GROUP {
        check.unsupported(&path.child("apiGroup"), text(&role["apiGroup"]), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(&role["kind"])) {
        check.unsupported(&path.child("kind"), text(&role["kind"]), kinds);
    }
    check.present(&path, role, "name");
    for (at, subject) in list(&binding["subjects"]).iter().enumerate() {
        self::subject(
            check,
            &FieldPath::root().child("subjects").index(at),
            subject,
            namespaced,
        );
    }
}

fn subject(check: &mut Check, path: &FieldPath, subject: &Value, namespaced: bool) {
    check.present(path, subject, "name");
    let group = text(&subject["apiGroup"]);
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !text(&subject["name"]).is_empty() {
                check.dns_subdomain(&path.child("name"), text(&subject["name"]));
            }
            if !group.is_empty() {
                check.unsupported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced {
                check.present(path, subject, "namespace");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                check.unsupported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => check.unsupported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}
