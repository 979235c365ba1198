//! Tolerations, spread constraints, gates, affinity.

use std::collections::BTreeSet;

use serde_json::Value;
use skopos_object::FieldPath;
use skopos_object::validation::{label_key, label_value};

use super::check::{Check, has, list, text};

pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn tolerations(check: &mut Check, path: &FieldPath, tolerations: &Value) {
    for (at, toleration) in list(tolerations).iter().enumerate() {
        let path = path.index(at);
        let (key, operator, value) = (
            text(&toleration["key"]),
            text(&toleration["operator"]),
            text(&toleration["value"]),
        );
        if !key.is_empty() {
            check.complaints(&path.child("key"), key, label_key(key));
        }
        if key.is_empty() && operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            check.invalid(&path.child("operator"), operator, detail);
        }
        if has(toleration, "tolerationSeconds") && toleration["effect"] != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            check.invalid(&path.child("effect"), text(&toleration["effect"]), detail);
        }
        match operator {
            "" | "Equal" => check.complaints(&path.child("operator"), value, label_value(value)),
            "Exists" if !value.is_empty() => {
                check.invalid(
                    &path.child("operator"),
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" | "Lt" | "Gt" => {}
            other => check.unsupported(&path.child("operator"), other, &["Equal", "Exists"]),
        }
        check.one_of(&path, toleration, "effect", EFFECTS);
    }
}

pub(super) fn spread(check: &mut Check, path: &FieldPath, constraints: &Value) {
    for (at, constraint) in list(constraints).iter().enumerate() {
        let path = path.index(at);
        if let Some(skew) = constraint["maxSkew"].as_i64().filter(|skew| *skew <= 0) {
            check.invalid(&path.child("maxSkew"), skew, "must be greater than zero");
        }
        if text(&constraint["topologyKey"]).is_empty() {
            check.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = text(&constraint["whenUnsatisfiable"]);
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            check.unsupported(&path.child("whenUnsatisfiable"), action, &actions);
        }
    }
}

pub(super) fn gates(check: &mut Check, path: &FieldPath, gates: &Value) {
    let mut names = BTreeSet::new();
    for (at, gate) in list(gates).iter().enumerate() {
        let name = text(&gate["name"]);
        check.complaints(&path.index(at), name, label_key(name));
        if !names.insert(name) {
            check.duplicate(&path.index(at), name);
        }
    }
}

pub(super) fn affinity(check: &mut Check, path: &FieldPath, affinity: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let node = &affinity["nodeAffinity"][REQUIRED];
    if node.is_object() && list(&node["nodeSelectorTerms"]).is_empty() {
        let path = path
            .child("nodeAffinity")
            .child(REQUIRED)
            .child("nodeSelectorTerms");
        check.required(&path, "must have at least one node selector term");
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (at, term) in list(&affinity[kind][REQUIRED]).iter().enumerate() {
            let path = path.child(kind).child(REQUIRED).index(at).child("topologyKey");
            let key = text(&term["topologyKey"]);
            if key.is_empty() {
                check.required(&path, "can not be empty");
            }
            check.complaints(&path, key, label_key(key));
        }
    }
}
