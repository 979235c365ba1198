//! Controllers of pods: deployments, sets, jobs.

use serde_json::{Value, json};

use super::{items, object_at, or, pod, volume};

pub(super) fn deployment(deployment: &mut Value) {
    let spec = &mut deployment["spec"];
    pod::template(&mut spec["template"]);
    or(spec, "replicas", 1);
    let strategy = object_at(spec, "strategy");
    or(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = object_at(strategy, "rollingUpdate");
        or(rolling, "maxUnavailable", "25%");
        or(rolling, "maxSurge", "25%");
    }
    or(spec, "revisionHistoryLimit", 10);
    or(spec, "progressDeadlineSeconds", 600);
}

pub(super) fn replica_set(set: &mut Value) {
    let spec = &mut set["spec"];
    pod::template(&mut spec["template"]);
    or(spec, "replicas", 1);
}

pub(super) fn replication_controller(controller: &mut Value) {
    let spec = &mut controller["spec"];
    pod::template(&mut spec["template"]);
    or(spec, "replicas", 1);
    let labels = spec["template"]["metadata"]["labels"].clone();
    if !labels.is_null() {
        or(spec, "selector", labels.clone());
        or(&mut controller["metadata"], "labels", labels);
    }
    drop_null(&mut controller["spec"], "template");
}

pub(super) fn stateful_set(set: &mut Value) {
    let spec = &mut set["spec"];
    pod::template(&mut spec["template"]);
    or(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object_at(spec, "updateStrategy");
    or(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        or(object_at(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = object_at(spec, "persistentVolumeClaimRetentionPolicy");
    or(retention, "whenDeleted", "Retain");
    or(retention, "whenScaled", "Retain");
    or(spec, "replicas", 1);
    or(spec, "revisionHistoryLimit", 10);
    for claim in items(spec, "volumeClaimTemplates") {
        or(claim, "apiVersion", "v1");
        or(claim, "kind", "PersistentVolumeClaim");
        volume::claim(claim);
    }
}

pub(super) fn daemon_set(set: &mut Value) {
    let spec = &mut set["spec"];
    pod::template(&mut spec["template"]);
    let strategy = object_at(spec, "updateStrategy");
    or(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = object_at(strategy, "rollingUpdate");
        or(rolling, "maxUnavailable", 1);
        or(rolling, "maxSurge", 0);
    }
    or(spec, "revisionHistoryLimit", 10);
}

pub(super) fn job(job: &mut Value) {
    job_spec(&mut job["spec"]);
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_null() {
        or(&mut job["metadata"], "labels", labels);
    }
}

/// Templates of cron jobs get the pod's defaults only; the rest comes when the job is made.
pub(super) fn cron_job(cron: &mut Value) {
    let spec = &mut cron["spec"];
    pod::template(&mut spec["jobTemplate"]["spec"]["template"]);
    for rule in failure_rules(&mut spec["jobTemplate"]["spec"]) {
        failure_conditions(rule);
    }
    or(spec, "concurrencyPolicy", "Allow");
    or(spec, "suspend", false);
    or(spec, "successfulJobsHistoryLimit", 3);
    or(spec, "failedJobsHistoryLimit", 1);
}

fn job_spec(spec: &mut Value) {
    pod::template(&mut spec["template"]);
    let absent = |spec: &Value, key: &str| spec.get(key).is_none_or(Value::is_null);
    if absent(spec, "completions") && absent(spec, "parallelism") {
        or(spec, "completions", 1);
    }
    or(spec, "parallelism", 1);
    let limit = if absent(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    or(spec, "backoffLimit", limit);
    or(spec, "completionMode", "NonIndexed");
    or(spec, "suspend", false);
    let replacement = if absent(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    or(spec, "podReplacementPolicy", replacement);
    for rule in failure_rules(spec) {
        failure_conditions(rule);
    }
}

fn failure_rules(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    spec.pointer_mut("/podFailurePolicy/rules")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn failure_conditions(rule: &mut Value) {
    for condition in items(rule, "onPodConditions") {
        or(condition, "status", json!("True"));
    }
}

/// Indexing for writing leaves a null behind where nothing was.
fn drop_null(object: &mut Value, key: &str) {
    if let Value::Object(map) = object
        && map.get(key).is_some_and(Value::is_null)
    {
        map.remove(key);
    }
}
