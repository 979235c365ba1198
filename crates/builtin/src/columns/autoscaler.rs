//! Horizontal pod autoscalers.

use serde_json::Value;

use super::cell::{age_of, list, name_of, number, text, text_or};

pub(super) fn cells(version: &str, autoscaler: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let target = &spec["scaleTargetRef"];
    let minimum = spec["minReplicas"]
        .as_i64()
        .map_or_else(|| "<unset>".to_owned(), |n| n.to_string());
    let targets = if version == "v1" {
        utilization(spec, status)
    } else {
        metrics(spec, status)
    };
    vec![
        name_of(autoscaler),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        targets.into(),
        minimum.into(),
        number(&spec["maxReplicas"]).into(),
        number(&status["currentReplicas"]).into(),
        age_of(autoscaler, now),
    ]
}

/// The first version knows only the load of the CPU.
fn utilization(spec: &Value, status: &Value) -> String {
    let percent = |value: &Value, none: &str| {
        value
            .as_i64()
            .map_or_else(|| none.to_owned(), |n| format!("{n}%"))
    };
    let Some(target) = spec["targetCPUUtilizationPercentage"].as_i64() else {
        return "<none>".to_owned();
    };
    format!(
        "cpu: {}/{target}%",
        percent(&status["currentCPUUtilizationPercentage"], "<unknown>")
    )
}

fn metrics(spec: &Value, status: &Value) -> String {
    let statuses = list(&status["currentMetrics"]);
    let all: Vec<String> = list(&spec["metrics"])
        .iter()
        .enumerate()
        .filter_map(|(at, metric)| shown(metric, statuses.get(at).unwrap_or(&Value::Null)))
        .collect();
    match all.len() {
        0 => "<none>".to_owned(),
        1 | 2 => all.join(", "),
        more => format!("{} + {} more...", all[..2].join(", "), more - 2),
    }
}

fn shown(metric: &Value, status: &Value) -> Option<String> {
    let source = match text(&metric["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return None,
    };
    let (target, current) = (&metric[source]["target"], &status[source]["current"]);
    let average = target["averageValue"].as_str();
    Some(match (source, average) {
        ("pods", _) => format!(
            "{}/{}",
            text_or(&current["averageValue"], "<unknown>"),
            average.unwrap_or("0")
        ),
        ("external" | "object", Some(average)) => {
            format!(
                "{}/{average} (avg)",
                text_or(&current["averageValue"], "<unknown>")
            )
        }
        ("external" | "object", None) => {
            format!(
                "{}/{}",
                text_or(&current["value"], "<unknown>"),
                text_or(&target["value"], "0")
            )
        }
        (_, Some(average)) => {
            let name = text(&metric[source]["name"]);
            format!(
                "{name}: {}/{average}",
                text_or(&current["averageValue"], "<unknown>")
            )
        }
        (_, None) => {
            let percent = |value: &Value, none: &str| {
                value["averageUtilization"]
                    .as_i64()
                    .map_or_else(|| none.to_owned(), |n| format!("{n}%"))
            };
            let name = text(&metric[source]["name"]);
            format!(
                "{name}: {}/{}",
                percent(current, "<unknown>"),
                percent(target, "<auto>")
            )
        }
    })
}
