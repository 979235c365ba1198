//! Autoscalers between their versions: the first knows one metric, the CPU; whatever else there is lives in
//! annotations there, as in the real server, and comes back from them.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// What is scaled for if nothing is said.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

/// A field of a metric: its name in version 1, where it is in version 2, and what it is if it is not there.
type Field = (&'static str, &'static [&'static str], Option<&'static str>);

const METRIC_NAME: Field = ("metricName", &["metric", "name"], Some(""));
const NAME: Field = ("name", &["name"], Some(""));
const TARGET: Field = ("target", &["describedObject"], None);
const SELECTOR: Field = ("selector", &["metric", "selector"], None);
const METRIC_SELECTOR: Field = ("metricSelector", &["metric", "selector"], None);
const CONTAINER: Field = ("container", &["container"], Some(""));

/// Wanted metrics, by type, in the order of version 1.
const WANTED: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            TARGET,
            METRIC_NAME,
            ("targetValue", &["target", "value"], Some("0")),
            SELECTOR,
            ("averageValue", &["target", "averageValue"], None),
        ],
    ),
    (
        "pods",
        &[
            METRIC_NAME,
            ("targetAverageValue", &["target", "averageValue"], Some("0")),
            SELECTOR,
        ],
    ),
    (
        "resource",
        &[
            NAME,
            (
                "targetAverageUtilization",
                &["target", "averageUtilization"],
                None,
            ),
            ("targetAverageValue", &["target", "averageValue"], None),
        ],
    ),
    (
        "containerResource",
        &[
            NAME,
            (
                "targetAverageUtilization",
                &["target", "averageUtilization"],
                None,
            ),
            ("targetAverageValue", &["target", "averageValue"], None),
            CONTAINER,
        ],
    ),
    (
        "external",
        &[
            METRIC_NAME,
            METRIC_SELECTOR,
            ("targetValue", &["target", "value"], None),
            ("targetAverageValue", &["target", "averageValue"], None),
        ],
    ),
];

/// Metrics as they were found, in the same way.
const FOUND: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            TARGET,
            METRIC_NAME,
            ("currentValue", &["current", "value"], Some("0")),
            SELECTOR,
            ("averageValue", &["current", "averageValue"], None),
        ],
    ),
    (
        "pods",
        &[
            METRIC_NAME,
            ("currentAverageValue", &["current", "averageValue"], Some("0")),
            SELECTOR,
        ],
    ),
    (
        "resource",
        &[
            NAME,
            (
                "currentAverageUtilization",
                &["current", "averageUtilization"],
                None,
            ),
            ("currentAverageValue", &["current", "averageValue"], Some("0")),
        ],
    ),
    (
        "containerResource",
        &[
            NAME,
            (
                "currentAverageUtilization",
                &["current", "averageUtilization"],
                None,
            ),
            ("currentAverageValue", &["current", "averageValue"], Some("0")),
            CONTAINER,
        ],
    ),
    (
        "external",
        &[
            METRIC_NAME,
            METRIC_SELECTOR,
            ("currentValue", &["current", "value"], Some("0")),
            ("currentAverageValue", &["current", "averageValue"], None),
        ],
    ),
];

/// From version 2 to version 1.
pub(super) fn to_v1(root: &mut Map<String, Value>) {
    let mut annotations = Vec::new();
    if let Some(Value::Object(spec)) = root.get_mut("spec") {
        let metrics = list_of(spec.remove("metrics"));
        if let Some(target) = metrics.iter().find_map(|metric| cpu(metric, "target")) {
            spec.insert("targetCPUUtilizationPercentage".into(), target);
        }
        let others: Vec<String> = metrics
            .iter()
            .filter(|metric| cpu(metric, "target").is_none())
            .map(|metric| metric_in_v1(metric, &WANTED))
            .collect();
        if !others.is_empty() {
            annotations.push((METRICS, list(&others)));
        }
        if let Some(behavior) = spec.remove("behavior").filter(|behavior| !behavior.is_null()) {
            annotations.push((BEHAVIOR, behavior_in_v1(&behavior)));
        }
    }
    if let Some(Value::Object(status)) = root.get_mut("status") {
        let metrics = list_of(status.remove("currentMetrics"));
        if let Some(current) = metrics.iter().rev().find_map(|metric| cpu(metric, "current")) {
            status.insert("currentCPUUtilizationPercentage".into(), current);
        }
        status.entry("currentReplicas").or_insert_with(|| 0.into());
        let metrics: Vec<String> = metrics
            .iter()
            .map(|metric| metric_in_v1(metric, &FOUND))
            .collect();
        if !metrics.is_empty() {
            annotations.push((CURRENT_METRICS, list(&metrics)));
        }
        let order = ["type", "status", "lastTransitionTime", "reason", "message"];
        let conditions = list_of(status.remove("conditions"));
        let conditions: Vec<String> = conditions.iter().map(|c| in_order(c, &order)).collect();
        if !conditions.is_empty() {
            annotations.push((CONDITIONS, list(&conditions)));
        }
    }
    set_annotations(root, annotations);
}

/// From version 1 to version 2.
pub(super) fn to_v2(root: &mut Map<String, Value>) {
    let [metrics, current, conditions, behavior] =
        [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].map(|name| annotation(root, name));
    set_annotations(root, Vec::new());
    if let Some(Value::Object(spec)) = root.get_mut("spec") {
        let cpu = spec.remove("targetCPUUtilizationPercentage");
        let mut wanted: Vec<Value> = list_of(metrics)
            .iter()
            .map(|m| metric_in_v2(m, &WANTED))
            .collect();
        if cpu.is_some() || wanted.is_empty() {
            let target = cpu.unwrap_or_else(|| DEFAULT_CPU_UTILIZATION.into());
            wanted.push(json!({
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}},
            }));
        }
        spec.insert("metrics".into(), wanted.into());
        if let Some(behavior) = behavior.filter(Value::is_object) {
            spec.insert("behavior".into(), behavior_in_v2(&behavior));
        }
    }
    if let Some(Value::Object(status)) = root.get_mut("status") {
        let cpu = status.remove("currentCPUUtilizationPercentage").map(|current| {
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}})
        });
        let found: Option<Vec<Value>> = current.map(|current| {
            let current = list_of(Some(current));
            current.iter().map(|m| metric_in_v2(m, &FOUND)).collect()
        });
        let found = found.or_else(|| cpu.map(|cpu| vec![cpu]));
        status.insert("currentMetrics".into(), found.map_or(Value::Null, Value::from));
        if let Some(conditions) = conditions.filter(Value::is_array) {
            status.insert("conditions".into(), conditions);
        }
        if status.get("currentReplicas") == Some(&Value::from(0)) {
            status.remove("currentReplicas");
        }
    }
}

fn list_of(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// The utilisation of the CPU, if a metric is about nothing else.
fn cpu(metric: &Value, part: &str) -> Option<Value> {
    let resource = &metric["resource"];
    let is_cpu = metric["type"] == "Resource" && resource["name"] == "cpu";
    let utilization = &resource[part]["averageUtilization"];
    (is_cpu && !utilization.is_null()).then(|| utilization.clone())
}

fn annotation(root: &Map<String, Value>, name: &str) -> Option<Value> {
    let text = root.get("metadata")?.get("annotations")?.get(name)?.as_str()?;
    serde_json::from_str(text).ok()
}

/// Replaces the annotations that stand for fields.
fn set_annotations(root: &mut Map<String, Value>, annotations: Vec<(&str, String)>) {
    let Some(Value::Object(metadata)) = root.get_mut("metadata") else {
        return;
    };
    let all = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(all) = all {
        for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
            all.remove(name);
        }
        all.extend(
            annotations
                .into_iter()
                .map(|(name, text)| (name.to_owned(), text.into())),
        );
    }
    if metadata
        .get("annotations")
        .is_some_and(|all| *all == json!({}) || all.is_null())
    {
        metadata.remove("annotations");
    }
}

/// A metric as JSON in the order of the fields of version 1.
fn metric_in_v1(metric: &Value, forms: &[(&str, &[Field])]) -> String {
    let mut parts = vec![member("type", &metric["type"].to_string())];
    for (kind, fields) in forms {
        let Some(source) = metric.get(kind).filter(|source| source.is_object()) else {
            continue;
        };
        let fields = fields.iter().filter_map(|(name, path, usual)| {
            let found = path.iter().try_fold(source, |value, step| value.get(step));
            let value = found.filter(|value| !value.is_null()).map(field_text);
            Some(member(
                name,
                &value.or_else(|| usual.map(|text| json!(text).to_string()))?,
            ))
        });
        parts.push(member(kind, &object(&fields.collect::<Vec<_>>())));
    }
    object(&parts)
}

fn metric_in_v2(metric: &Value, forms: &[(&str, &[Field])]) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (kind, fields) in forms {
        let Some(source) = metric.get(kind).filter(|source| source.is_object()) else {
            continue;
        };
        for (name, path, _) in *fields {
            if let Some(value) = source.get(name) {
                let place = path.iter().fold(&mut out[*kind], |value, step| &mut value[*step]);
                *place = value.clone();
            }
        }
        if let Some(target) = out[*kind].get_mut("target") {
            let has = |name: &str| target.get(name).is_some();
            let kind = match (has("averageUtilization"), has("averageValue")) {
                (true, _) => "Utilization",
                (_, true) => "AverageValue",
                _ => "Value",
            };
            target["type"] = kind.into();
        }
    }
    out
}

/// The rules of scaling have the names of Go there.
const RULES: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY: [(&str, &str); 3] = [
    ("Type", "type"),
    ("Value", "value"),
    ("PeriodSeconds", "periodSeconds"),
];
const DIRECTIONS: [(&str, &str); 2] = [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];

fn behavior_in_v1(behavior: &Value) -> String {
    renamed(behavior, &DIRECTIONS, |rules| {
        renamed(rules, &RULES, |value| match value {
            Value::Array(policies) => {
                let policies = policies.iter();
                list(
                    &policies
                        .map(|p| renamed(p, &POLICY, Value::to_string))
                        .collect::<Vec<_>>(),
                )
            }
            other => other.to_string(),
        })
    })
}

/// An object with other names, in their order; what is not there is null.
fn renamed(value: &Value, names: &[(&str, &str)], inner: impl Fn(&Value) -> String) -> String {
    if !value.is_object() {
        return "null".to_owned();
    }
    let members = names.iter().map(|(go, name)| member(go, &inner(&value[*name])));
    object(&members.collect::<Vec<_>>())
}

fn behavior_in_v2(behavior: &Value) -> Value {
    let rename = |value: &Value, names: &[(&str, &str)]| -> Map<String, Value> {
        let found = names
            .iter()
            .filter_map(|(go, name)| Some((*name, value.get(go)?)));
        let found = found.filter(|(_, value)| !value.is_null());
        found
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect()
    };
    let mut out = rename(behavior, &DIRECTIONS);
    for rules in out.values_mut() {
        let mut fields = rename(rules, &RULES);
        if let Some(Value::Array(policies)) = fields.get_mut("policies") {
            policies
                .iter_mut()
                .for_each(|policy| *policy = rename(policy, &POLICY).into());
        }
        *rules = fields.into();
    }
    out.into()
}

/// A value with the members of references and selectors in the order of their types.
fn field_text(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.contains_key("name") => {
            in_order(value, &["kind", "name", "apiVersion"])
        }
        Value::Object(_) => in_order(value, &["matchLabels", "matchExpressions"]),
        other => other.to_string(),
    }
}

fn in_order(value: &Value, names: &[&str]) -> String {
    let there = names.iter().filter_map(|name| Some((*name, value.get(*name)?)));
    object(
        &there
            .map(|(name, value)| member(name, &value.to_string()))
            .collect::<Vec<_>>(),
    )
}

fn member(name: &str, text: &str) -> String {
    format!("\"{name}\":{text}")
}

fn object(members: &[String]) -> String {
    format!("{{{}}}", members.join(","))
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(v2: &Value, v1: &Value) {
        let convert = |value: &Value, convert: fn(&mut Map<String, Value>)| {
            let mut root = value.as_object().unwrap().clone();
            convert(&mut root);
            Value::from(root)
        };
        assert_eq!(convert(v2, to_v1), *v1);
        assert_eq!(convert(v1, to_v2), *v2, "and back");
    }

    #[test]
    fn the_cpu_has_a_field_of_its_own_and_the_rest_is_kept_in_annotations() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        check(
            &json!({"metadata": {}, "spec": {"metrics": [cpu]}}),
            &json!({"metadata": {}, "spec": {"targetCPUUtilizationPercentage": 50}}),
        );
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let hits = json!({"type": "Object", "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
            "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"},
        }});
        let rules = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}});
        check(
            &json!({"metadata": {}, "spec": {"behavior": rules, "metrics": [memory, hits]}}),
            &json!({"metadata": {"annotations": {
                METRICS: r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"hits","targetValue":"10"}}]"#,
                BEHAVIOR: r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null}}"#,
            }}, "spec": {}}),
        );
    }

    #[test]
    fn what_was_found_goes_both_ways() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "3m"}}});
        check(
            &json!({"metadata": {}, "status": {
                "currentMetrics": [cpu], "desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}],
            }}),
            &json!({"metadata": {"annotations": {
                CURRENT_METRICS: r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"3m"}}]"#,
                CONDITIONS: r#"[{"type":"AbleToScale","status":"True"}]"#,
            }}, "status": {"currentCPUUtilizationPercentage": 7, "currentReplicas": 0, "desiredReplicas": 2}}),
        );
    }
}
