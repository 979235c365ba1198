//! Pods and nodes.

use serde_json::Value;

use super::cell::{age, age_of, list, name_of, number, text, text_or};
use crate::time;

pub(super) fn cells(kind: &str, object: &Value, now: i64) -> Option<Vec<Value>> {
    match kind {
        "Pod" => Some(pod(object, now)),
        "Node" => Some(node(object, now)),
        _ => None,
    }
}

/// What the statuses of a pod's containers add up to.
#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    /// Seconds since the epoch of the latest end of a container that was restarted.
    last_restart: Option<i64>,
    sidecar_restarts: i64,
    sidecar_last_restart: Option<i64>,
}

fn pod(pod: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars = list(&spec["initContainers"])
        .iter()
        .filter(|c| is_sidecar(c))
        .count();
    let total = list(&spec["containers"]).len() + sidecars;
    let mut summary = Summary {
        reason: text_or(&status["reason"], text(&status["phase"])).to_owned(),
        ..Summary::default()
    };
    let gated = |c: &&Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
    if list(&status["conditions"]).iter().any(|c| gated(&c)) {
        summary.reason = "SchedulingGated".to_owned();
    }
    let initializing = init_containers(spec, status, &mut summary);
    if !initializing || condition(status, "Initialized") {
        containers(status, &mut summary);
    }
    let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
    let ended = matches!(text(&status["phase"]), "Succeeded" | "Failed");
    if deleting && status["reason"] == "NodeLost" {
        summary.reason = "Unknown".to_owned();
    } else if deleting && !ended {
        summary.reason = "Terminating".to_owned();
    }
    let restarts = match summary.last_restart {
        Some(at) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, time::human_duration(now - at))
        }
        _ => summary.restarts.to_string(),
    };
    vec![
        name_of(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        age_of(pod, now),
        text_or(&status["podIPs"][0]["ip"], "<none>").into(),
        text_or(&spec["nodeName"], "<none>").into(),
        text_or(&status["nominatedNodeName"], "<none>").into(),
        readiness_gates(spec, status).into(),
    ]
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn condition(status: &Value, name: &str) -> bool {
    list(&status["conditions"])
        .iter()
        .any(|c| c["type"] == name && c["status"] == "True")
}

/// Walks the init containers up to the first that is not done; says whether there is one.
fn init_containers(spec: &Value, status: &Value, summary: &mut Summary) -> bool {
    let declared = list(&spec["initContainers"]);
    for (at, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
        let restarts = number(&container["restartCount"]);
        let ended = time::seconds(&container["lastState"]["terminated"]["finishedAt"]);
        summary.restarts += restarts;
        summary.last_restart = summary.last_restart.max(ended);
        let sidecar = declared
            .iter()
            .any(|c| c["name"] == container["name"] && is_sidecar(c));
        if sidecar {
            summary.sidecar_restarts += restarts;
            summary.sidecar_last_restart = summary.sidecar_last_restart.max(ended);
        }
        let state = &container["state"];
        let terminated = state["terminated"].is_object();
        if terminated && number(&state["terminated"]["exitCode"]) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            summary.ready += usize::from(container["ready"] == true);
            continue;
        }
        let waiting = text(&state["waiting"]["reason"]);
        summary.reason = if terminated {
            format!("Init:{}", termination(&state["terminated"]))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{at}/{}", declared.len())
        };
        return true;
    }
    false
}

fn containers(status: &Value, summary: &mut Summary) {
    summary.restarts = summary.sidecar_restarts;
    summary.last_restart = summary.sidecar_last_restart;
    let (mut running, mut error) = (false, None);
    for container in list(&status["containerStatuses"]).iter().rev() {
        summary.restarts += number(&container["restartCount"]);
        let ended = time::seconds(&container["lastState"]["terminated"]["finishedAt"]);
        summary.last_restart = summary.last_restart.max(ended);
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"]);
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if state["terminated"].is_object() {
            summary.reason = termination(&state["terminated"]);
            if number(&state["terminated"]["exitCode"]) != 0 {
                error = Some(summary.reason.clone());
            }
        } else if container["ready"] == true && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if running && condition(status, "Ready") {
            summary.reason = "Running".to_owned();
        } else if let Some(error) = error {
            summary.reason = error;
        } else if running {
            summary.reason = "NotReady".to_owned();
        }
    }
}

fn termination(terminated: &Value) -> String {
    let signal = number(&terminated["signal"]);
    match text(&terminated["reason"]) {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", number(&terminated["exitCode"])),
        reason => reason.to_owned(),
    }
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = list(&spec["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| condition(status, text(&gate["conditionType"])))
        .count();
    format!("{open}/{}", gates.len())
}

fn node(node: &Value, now: i64) -> Vec<Value> {
    let status = &node["status"];
    let ready = list(&status["conditions"]).iter().rfind(|c| c["type"] == "Ready");
    let mut state = match ready.map(|c| text(&c["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let info = &status["nodeInfo"];
    let mut kernel = text_or(&info["kernelVersion"], "<unknown>").to_owned();
    if let Some(architecture) = info["architecture"].as_str().filter(|a| !a.is_empty()) {
        kernel.push_str(&format!(" ({architecture})"));
    }
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|a| a["type"] == kind);
        found.map_or("<none>", |a| text(&a["address"])).to_owned()
    };
    vec![
        name_of(node),
        state.into(),
        roles(node).into(),
        age(&node["metadata"]["creationTimestamp"], now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        text_or(&info["osImage"], "<unknown>").into(),
        kernel.into(),
        text_or(&info["containerRuntimeVersion"], "<unknown>").into(),
    ]
}

fn roles(node: &Value) -> String {
    let mut roles = std::collections::BTreeSet::new();
    for (key, value) in node["metadata"]["labels"].as_object().into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => drop(roles.insert(role)),
            None if key == "kubernetes.io/role" => drop(roles.insert(text(value))),
            None => {}
        }
    }
    roles.remove("");
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.into_iter().collect::<Vec<_>>().join(",")
    }
}
