//! Deployments, sets, jobs and their history.

use serde_json::Value;

use super::cell::{
    age, age_of, containers, count, display, labels, list, name_of, number, selector, text, text_or,
};
use crate::time;

pub(super) fn cells(kind: &str, object: &Value, now: i64) -> Option<Vec<Value>> {
    Some(match kind {
        "Deployment" => deployment(object, now),
        "ReplicaSet" => replica_set(object, now),
        "StatefulSet" => stateful_set(object, now),
        "DaemonSet" => daemon_set(object, now),
        "ControllerRevision" => revision(object, now),
        "Job" => job(object, now),
        "CronJob" => cron_job(object, now),
        _ => return None,
    })
}

/// Cells of replica sets; replication controllers have a map as selector.
pub(super) fn replica_set(set: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    let plain = set["kind"] == "ReplicationController"
        || spec["selector"].get("matchLabels").is_none()
            && spec["selector"].get("matchExpressions").is_none()
            && count(&spec["selector"]) > 0;
    vec![
        name_of(set),
        number(&spec["replicas"]).into(),
        number(&status["replicas"]).into(),
        number(&status["readyReplicas"]).into(),
        age_of(set, now),
        names,
        images,
        if plain {
            labels(&spec["selector"])
        } else {
            selector(&spec["selector"])
        }
        .into(),
    ]
}

fn deployment(deployment: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    vec![
        name_of(deployment),
        format!(
            "{}/{}",
            number(&status["readyReplicas"]),
            number(&spec["replicas"])
        )
        .into(),
        number(&status["updatedReplicas"]).into(),
        number(&status["availableReplicas"]).into(),
        age_of(deployment, now),
        names,
        images,
        selector(&spec["selector"]).into(),
    ]
}

fn stateful_set(set: &Value, now: i64) -> Vec<Value> {
    let [names, images] = containers(&set["spec"]["template"]["spec"]);
    let ready = format!(
        "{}/{}",
        number(&set["status"]["readyReplicas"]),
        number(&set["spec"]["replicas"])
    );
    vec![name_of(set), ready.into(), age_of(set, now), names, images]
}

fn daemon_set(set: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells = vec![name_of(set)];
    cells.extend(counts.map(|name| number(&status[name]).into()));
    cells.push(labels(&spec["template"]["spec"]["nodeSelector"]).into());
    cells.extend([
        age_of(set, now),
        names,
        images,
        selector(&spec["selector"]).into(),
    ]);
    cells
}

fn revision(revision: &Value, now: i64) -> Vec<Value> {
    let owners = list(&revision["metadata"]["ownerReferences"]);
    let controller = owners
        .iter()
        .find(|owner| owner["controller"] == true)
        .map(|owner| {
            let group = text(&owner["apiVersion"])
                .rsplit_once('/')
                .map(|(group, _)| format!(".{group}"));
            let kind = text(&owner["kind"]).to_lowercase();
            format!("{kind}{}/{}", group.unwrap_or_default(), text(&owner["name"]))
        });
    vec![
        name_of(revision),
        controller.unwrap_or_else(|| "<none>".to_owned()).into(),
        number(&revision["revision"]).into(),
        age_of(revision, now),
    ]
}

fn job(job: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let end = time::seconds(&status["completionTime"]).unwrap_or(now);
    let duration = time::seconds(&status["startTime"]).map(|start| time::human_duration(end - start));
    vec![
        name_of(job),
        job_status(job).into(),
        completions.into(),
        duration.unwrap_or_default().into(),
        age_of(job, now),
        names,
        images,
        selector(&spec["selector"]).into(),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let has = |name: &str| {
        list(&job["status"]["conditions"])
            .iter()
            .any(|c| c["type"] == name && c["status"] == "True")
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !job["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn cron_job(cron: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&cron["spec"], &cron["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]["spec"]);
    let last = &status["lastScheduleTime"];
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        name_of(cron),
        display(&spec["schedule"]).into(),
        text_or(&spec["timeZone"], "<none>").into(),
        suspend.into(),
        count(&status["active"]).into(),
        if last.is_null() {
            "<none>".into()
        } else {
            age(last, now)
        },
        age_of(cron, now),
        names,
        images,
        selector(&job["selector"]).into(),
    ]
}
