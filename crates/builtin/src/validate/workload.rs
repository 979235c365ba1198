//! Workloads: selectors that must match their templates, strategies, jobs.

use serde_json::{Value, json};
use skopos_object::FieldPath;

use super::check::{Check, NOT_NEGATIVE, has, list, selects, text};
use super::{cron, pod};

const MISMATCH: &str = "`selector` does not match template `labels`";

pub(super) fn workload(kind: &str, check: &mut Check, object: &Value) {
    let path = FieldPath::root().child("spec");
    let spec = &object["spec"];
    match kind {
        "Deployment" => deployment(check, &path, spec),
        "ReplicaSet" => {
            check.not_negative(&path, spec, "replicas");
            check.not_negative(&path, spec, "minReadySeconds");
            selector(check, &path, spec, "deployment");
            pods(check, &path, spec, "ReplicaSet");
        }
        "StatefulSet" => stateful_set(check, &path, spec),
        "DaemonSet" => daemon_set(check, &path, spec),
        "ReplicationController" => replication_controller(check, &path, spec),
        "ControllerRevision" => {
            if object["data"].is_null() {
                check.required(&FieldPath::root().child("data"), "data is mandatory");
            }
            check.not_negative(&FieldPath::root(), object, "revision");
        }
        _ => {}
    }
}

fn deployment(check: &mut Check, path: &FieldPath, spec: &Value) {
    check.not_negative(path, spec, "replicas");
    selector(check, path, spec, "deployment");
    pods(check, path, spec, "ReplicaSet");
    strategy(check, &path.child("strategy"), &spec["strategy"]);
    check.not_negative(path, spec, "minReadySeconds");
    check.not_negative(path, spec, "revisionHistoryLimit");
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
        check.not_negative(path, spec, "progressDeadlineSeconds");
        if deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0) {
            let path = path.child("progressDeadlineSeconds");
            check.invalid(&path, deadline, "must be greater than minReadySeconds");
        }
    }
}

fn strategy(check: &mut Check, path: &FieldPath, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "Recreate" if rolling.is_object() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            check.forbidden(&path.child("rollingUpdate"), detail);
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            check.count_or_percent(&path.child("maxUnavailable"), unavailable);
            check.count_or_percent(&path.child("maxSurge"), surge);
            let none = |value: &Value| *value == 0 || *value == "0%";
            if none(unavailable) && none(surge) {
                let detail = "may not be 0 when `maxSurge` is 0";
                check.invalid(&path.child("maxUnavailable"), unavailable.clone(), detail);
            }
            check.at_most_all(&path.child("maxUnavailable"), unavailable);
        }
        other => {
            let value = json!({"Type": other, "RollingUpdate": null});
            check.unsupported(path, value, &["Recreate", "RollingUpdate"]);
        }
    }
}

/// The selector must be given, sound, not empty, and match the template's labels.
fn selector(check: &mut Check, path: &FieldPath, spec: &Value, name: &str) {
    let at = path.child("selector");
    let selector = &spec["selector"];
    let mut sound = true;
    if selector.is_null() {
        check.required(&at, "");
    } else {
        sound = check.selector(&at, selector);
        if is_empty(selector) {
            check.invalid(
                &at,
                selector.clone(),
                format!("empty selector is invalid for {name}"),
            );
        }
    }
    if !sound {
        let detail = if name == "statefulset" {
            ""
        } else {
            "invalid label selector"
        };
        return check.invalid(&at, selector.clone(), detail);
    }
    matches_template(check, path, spec);
}

fn is_empty(selector: &Value) -> bool {
    !has(selector, "matchLabels") && !has(selector, "matchExpressions")
}

fn matches_template(check: &mut Check, path: &FieldPath, spec: &Value) {
    let labels = spec["template"]["metadata"]["labels"].clone();
    if !selects(&spec["selector"], &labels) {
        let path = path.child("template").child("metadata").child("labels");
        check.invalid(&path, labels, MISMATCH);
    }
}

/// The pods of a workload that keeps them running.
fn pods(check: &mut Check, path: &FieldPath, spec: &Value, kind: &str) {
    let template = path.child("template");
    pod::template(check, &template, &spec["template"]);
    always_restarting(check, &template.child("spec"), &spec["template"]["spec"], kind);
}

fn always_restarting(check: &mut Check, path: &FieldPath, spec: &Value, kind: &str) {
    let policy = text(&spec["restartPolicy"]);
    if matches!(policy, "OnFailure" | "Never") {
        check.unsupported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if has(spec, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        check.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
}

fn stateful_set(check: &mut Check, path: &FieldPath, spec: &Value) {
    let policy = text(&spec["podManagementPolicy"]);
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let path = path.child("podManagementPolicy");
        check.invalid(&path, policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = text(&spec["updateStrategy"]["type"]);
    if !matches!(strategy, "RollingUpdate" | "OnDelete") {
        let value = json!({"Type": strategy, "RollingUpdate": null});
        check.invalid(
            &path.child("updateStrategy"),
            value,
            "must be 'RollingUpdate' or 'OnDelete'",
        );
    }
    check.not_negative(path, spec, "replicas");
    check.not_negative(path, spec, "minReadySeconds");
    if !text(&spec["serviceName"]).is_empty() {
        check.dns_label(&path.child("serviceName"), text(&spec["serviceName"]));
    }
    selector(check, path, spec, "statefulset");
    // Claims are mounted like volumes.
    let mut spec = spec.clone();
    let claims: Vec<Value> = list(&spec["volumeClaimTemplates"])
        .iter()
        .map(|claim| json!({"name": claim["metadata"]["name"]}))
        .collect();
    if !claims.is_empty() {
        let pod = &mut spec["template"]["spec"];
        let mut volumes = list(&pod["volumes"]).to_vec();
        volumes.retain(|volume| !claims.iter().any(|claim| claim["name"] == volume["name"]));
        volumes.extend(claims);
        pod["volumes"] = Value::Array(volumes);
    }
    pods(check, path, &spec, "StatefulSet");
}

fn daemon_set(check: &mut Check, path: &FieldPath, spec: &Value) {
    let at = path.child("selector");
    if check.selector(&at, &spec["selector"]) {
        matches_template(check, path, spec);
    }
    if spec["selector"].is_object() && is_empty(&spec["selector"]) {
        check.invalid(
            &at,
            spec["selector"].clone(),
            "empty selector is invalid for daemonset",
        );
    }
    pods(check, path, spec, "DaemonSet");
    check.not_negative(path, spec, "minReadySeconds");
    let update = path.child("updateStrategy");
    match text(&spec["updateStrategy"]["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = &spec["updateStrategy"]["rollingUpdate"];
            let path = update.child("rollingUpdate");
            check.count_or_percent(&path.child("maxUnavailable"), &rolling["maxUnavailable"]);
            check.count_or_percent(&path.child("maxSurge"), &rolling["maxSurge"]);
            let none = |value: &Value| *value == 0 || *value == "0%";
            if none(&rolling["maxUnavailable"]) && none(&rolling["maxSurge"]) {
                check.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
            }
        }
        other => {
            let value = json!({"Type": other, "RollingUpdate": null});
            check.unsupported(&update, value, &["RollingUpdate", "OnDelete"]);
        }
    }
    check.not_negative(path, spec, "revisionHistoryLimit");
}

fn replication_controller(check: &mut Check, path: &FieldPath, spec: &Value) {
    check.not_negative(path, spec, "minReadySeconds");
    if spec["selector"].as_object().is_none_or(serde_json::Map::is_empty) {
        check.required(&path.child("selector"), "");
    }
    check.not_negative(path, spec, "replicas");
    if !spec["template"].is_object() {
        return check.required(&path.child("template"), "");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let matches = spec["selector"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| labels[key] == *value);
    if !matches {
        let path = path.child("template").child("metadata").child("labels");
        check.invalid(&path, labels.clone(), MISMATCH);
    }
    pods(check, path, spec, "ReplicationController");
}

pub(super) fn job(check: &mut Check, path: &FieldPath, spec: &Value, create: bool) {
    job_numbers(check, path, spec);
    check.one_of(path, spec, "completionMode", &["NonIndexed", "Indexed"]);
    check.one_of(
        path,
        spec,
        "podReplacementPolicy",
        &["Failed", "TerminatingOrFailed"],
    );
    let template = path.child("template");
    pod::template(check, &template, &spec["template"]);
    job_restart_policy(check, &template, &spec["template"]);
    if !create || spec["manualSelector"] == true {
        if spec["selector"].is_null() {
            check.required(&path.child("selector"), "");
        } else if check.selector(&path.child("selector"), &spec["selector"]) {
            matches_template(check, path, spec);
        }
    }
}

fn job_numbers(check: &mut Check, path: &FieldPath, spec: &Value) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ];
    for key in numbers {
        if let Some(number) = spec[key].as_i64().filter(|n| *n < 0) {
            check.invalid(&path.child(key), number, NOT_NEGATIVE);
        }
    }
}

fn job_restart_policy(check: &mut Check, path: &FieldPath, template: &Value) {
    let policy = text(&template["spec"]["restartPolicy"]);
    let path = path.child("spec").child("restartPolicy");
    match policy {
        "OnFailure" | "Never" => {}
        "" | "Always" => check.required(&path, "valid values: \"OnFailure\", \"Never\""),
        // Already said by the check of the pod.
        _ => {}
    }
}

pub(super) fn cron_job(check: &mut Check, spec: &Value) {
    let path = FieldPath::root().child("spec");
    let schedule = text(&spec["schedule"]);
    if schedule.is_empty() {
        check.required(&path.child("schedule"), "");
    } else if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        check.invalid(&path.child("schedule"), schedule, detail);
    } else if let Err(error) = cron::parse(schedule) {
        check.invalid(&path.child("schedule"), schedule, error);
    }
    check.not_negative(&path, spec, "startingDeadlineSeconds");
    check.one_of(&path, spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    let job = path.child("jobTemplate").child("spec");
    let template = &spec["jobTemplate"]["spec"];
    job_numbers(check, &job, template);
    pod::template(check, &job.child("template"), &template["template"]);
    job_restart_policy(check, &job.child("template"), &template["template"]);
    if template["manualSelector"] == true {
        check.unsupported(&job.child("manualSelector"), true, &["nil", "false"]);
    }
    check.not_negative(&path, spec, "successfulJobsHistoryLimit");
    check.not_negative(&path, spec, "failedJobsHistoryLimit");
}
