//! What may change in a pod that exists: images, a few limits in one direction, and where a gated pod may go.

use serde_json::{Value, json};
use skopos_object::FieldPath;

use crate::validate::check::{Check, list, text};

pub(super) fn pod(check: &mut Check, new: &Value, old: &Value) {
    let path = FieldPath::root().child("spec");
    for key in ["containers", "initContainers"] {
        if list(&new[key]).len() != list(&old[key]).len() {
            return check.forbidden(&path.child(key), "pod updates may not add or remove containers");
        }
    }
    deadline(check, &path.child("activeDeadlineSeconds"), new, old);
    tolerations(check, &path.child("tolerations"), new, old);
    gates(check, &path.child("schedulingGates"), new, old);
    let mut placed = new.clone();
    if !list(&old["schedulingGates"]).is_empty() {
        place(check, &path, &mut placed, old);
    }
    if fixed(&placed, old) != fixed(old, old) {
        check.forbidden(
            &path,
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

fn deadline(check: &mut Check, path: &FieldPath, new: &Value, old: &Value) {
    let seconds = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    match (seconds(new), seconds(old)) {
        (Some(new), Some(old)) if new > old => {
            check.invalid(path, new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            check.invalid(path, Value::Null, detail);
        }
        _ => {}
    }
}

/// More may be added, and how long each one lasts may change.
fn tolerations(check: &mut Check, path: &FieldPath, new: &Value, old: &Value) {
    let lasting = |toleration: &Value| without(toleration, &["tolerationSeconds"]);
    let known: Vec<Value> = list(&new["tolerations"]).iter().map(lasting).collect();
    let mut before = list(&old["tolerations"]).iter().map(lasting);
    if !before.all(|toleration| known.contains(&toleration)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        check.forbidden(path, detail);
    }
}

/// Gates can only be taken away.
fn gates(check: &mut Check, path: &FieldPath, new: &Value, old: &Value) {
    let before = list(&old["schedulingGates"]);
    for (at, gate) in list(&new["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        if !before.iter().any(|gate| gate["name"] == name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            check.forbidden(&path.index(at).child("name"), detail);
        }
    }
}

/// Whoever holds a gate may narrow down where the pod goes; what was looked at here is as before in `new` afterwards.
fn place(check: &mut Check, path: &FieldPath, new: &mut Value, old: &Value) {
    let labels = |spec: &Value| spec["nodeSelector"].as_object().cloned().unwrap_or_default();
    let after = labels(new);
    if labels(old)
        .iter()
        .any(|(key, value)| after.get(key) != Some(value))
    {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        check.invalid(&path.child("nodeSelector"), Value::Object(after), detail);
    }
    keep(new, old, "nodeSelector");
    let affinity = path.child("affinity").child("nodeAffinity");
    node_affinity(check, &affinity, &new["affinity"], &old["affinity"]);
    if new["affinity"].is_object() || old["affinity"].is_object() {
        let mut after = match new["affinity"].is_object() {
            true => new["affinity"].clone(),
            false => json!({}),
        };
        keep(&mut after, &old["affinity"], "nodeAffinity");
        let empty = after.as_object().is_none_or(serde_json::Map::is_empty);
        new["affinity"] = match empty && !old["affinity"].is_object() {
            true => Value::Null,
            false => after,
        };
    }
}

fn node_affinity(check: &mut Check, path: &FieldPath, new: &Value, old: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |affinity: &Value| list(&affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]).to_vec();
    let (after, before) = (terms(new), terms(old));
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return check.invalid(&path, after, detail);
    }
    for (at, (after, before)) in after.iter().zip(&before).enumerate() {
        if !only_adds(after, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            check.invalid(&path.index(at), after.clone(), detail);
        }
    }
}

/// A term that matches nothing must stay so: more conditions would let it match.
fn only_adds(after: &Value, before: &Value) -> bool {
    let keys = ["matchExpressions", "matchFields"];
    if keys.iter().all(|key| list(&before[*key]).is_empty()) {
        return keys.iter().all(|key| list(&after[*key]).is_empty());
    }
    keys.iter()
        .all(|key| list(&after[*key]).starts_with(list(&before[*key])))
}

/// A pod's spec without the fields that may change, which were looked at.
fn fixed(spec: &Value, old: &Value) -> Value {
    let mut spec = without(
        spec,
        &[
            "activeDeadlineSeconds",
            "ephemeralContainers",
            "schedulingGates",
            "tolerations",
        ],
    );
    let graceless = old["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|s| s < 0);
    if graceless && spec["terminationGracePeriodSeconds"] == 1 {
        keep(&mut spec, old, "terminationGracePeriodSeconds");
    }
    for key in ["containers", "initContainers"] {
        let containers = spec.get_mut(key).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            *container = without(container, &["image"]);
        }
    }
    if let Value::Object(map) = &mut spec {
        map.retain(|_, value| !value.is_null());
    }
    spec
}

fn without(value: &Value, keys: &[&str]) -> Value {
    let mut value = value.clone();
    if let Value::Object(map) = &mut value {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
    value
}

fn keep(new: &mut Value, old: &Value, key: &str) {
    let Value::Object(map) = new else { return };
    match old.get(key) {
        Some(value) => drop(map.insert(key.to_owned(), value.clone())),
        None => drop(map.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that an update of `old` by the members of `change` is refused for.
    fn refused(old: &Value, change: Value) -> Vec<String> {
        let mut new = old.clone();
        if let (Value::Object(new), Value::Object(change)) = (&mut new, change) {
            new.extend(change);
        }
        let mut check = Check::default();
        pod(&mut check, &new, old);
        check.into_errors().into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_pod_stays_where_it_is_and_what_it_is() {
        let toleration = json!({"key": "k", "operator": "Exists", "tolerationSeconds": 1});
        let old = json!({"containers": [{"name": "c", "image": "i"}], "tolerations": [toleration]});
        let check = |change: Value, paths: &[&str]| assert_eq!(refused(&old, change), paths);
        check(json!({"containers": [{"name": "c", "image": "j"}]}), &[]);
        check(
            json!({"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 2}]}),
            &[],
        );
        check(json!({"tolerations": [toleration, {"operator": "Exists"}]}), &[]);
        check(json!({"tolerations": []}), &["spec.tolerations"]);
        check(json!({"nodeName": "n"}), &["spec"]);
        check(json!({"nodeSelector": {"a": "b"}}), &["spec"]);
        check(
            json!({"schedulingGates": [{"name": "g"}]}),
            &["spec.schedulingGates[0].name"],
        );
    }

    #[test]
    fn a_gated_pod_may_be_kept_to_fewer_nodes() {
        let terms = |conditions: Value| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": conditions}]}}})
        };
        let (a, b) = (
            json!({"key": "a", "operator": "Exists"}),
            json!({"key": "b", "operator": "Exists"}),
        );
        let old = json!({"schedulingGates": [{"name": "g"}, {"name": "h"}], "nodeSelector": {"a": "b"},
            "affinity": terms(json!([a]))});
        let check = |change: Value, paths: &[&str]| assert_eq!(refused(&old, change), paths);
        check(json!({"schedulingGates": [{"name": "g"}]}), &[]);
        check(json!({"nodeSelector": {"a": "b", "c": "d"}}), &[]);
        check(json!({"nodeSelector": {"c": "d"}}), &["spec.nodeSelector"]);
        check(json!({"affinity": terms(json!([a, b]))}), &[]);
        let path =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        check(json!({"affinity": terms(json!([b]))}), &[&format!("{path}[0]")]);
        check(json!({"affinity": null}), &[path]);
        check(json!({"nodeName": "n"}), &["spec"]);
    }
}
