//! Field selectors: which labels a kind accepts and what they stand for.

use serde_json::Value;

use crate::kind::Kind;

/// The field labels that selectors on this kind may use.
pub fn field_labels(kind: &Kind) -> &'static [&'static str] {
    match (kind.group, kind.kind) {
        ("", "Pod") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
            "spec.host",
        ],
        ("", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "Node") => &["metadata.name", "spec.unschedulable"],
        ("", "Namespace") => &["metadata.name", "status.phase"],
        ("", "Secret") => &["metadata.name", "metadata.namespace", "type"],
        ("", "Service") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.clusterIP",
            "spec.type",
        ],
        ("" | "apps", "ReplicationController" | "ReplicaSet") => {
            &["metadata.name", "metadata.namespace", "status.replicas"]
        }
        ("batch", "Job") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["metadata.name", "spec.signerName"],
        ("resource.k8s.io", "ResourceSlice") => &["metadata.name", "spec.nodeName", "spec.driver"],
        _ if kind.namespaced => &["metadata.name", "metadata.namespace"],
        _ => &["metadata.name"],
    }
}

/// The message of the 400 that a selector with any other label gets.
pub fn field_label_error(kind: &Kind, label: &str) -> String {
    match (kind.group, kind.kind) {
        ("batch", "Job") => format!("field label {label:?} not supported for Job"),
        ("resource.k8s.io", "ResourceSlice") => {
            format!(
                "field label not supported for {}, Kind={}: {label}",
                kind.api_version(),
                kind.kind
            )
        }
        ("" | "events.k8s.io" | "certificates.k8s.io", "Pod" | "Event" | "Node" | "Namespace" | "Secret")
        | ("", "Service" | "ReplicationController")
        | ("certificates.k8s.io", _) => format!("field label not supported: {label}"),
        _ => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }
}

/// The value of a field label on an object; labels of absent fields are empty.
pub fn field_value(kind: &Kind, object: &Value, label: &str) -> Option<String> {
    if !field_labels(kind).contains(&label) {
        return None;
    }
    let pointer = match label {
        "spec.host" => "/spec/nodeName".to_owned(),
        "status.successful" => "/status/succeeded".to_owned(),
        "source" => return Some(event_source(object)),
        "status.podIPs" => return Some(pod_ips(object)),
        other => format!("/{}", other.replace('.', "/")),
    };
    Some(match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => absent(label).to_owned(),
        Some(other) => other.to_string(),
    })
}

fn absent(label: &str) -> &'static str {
    match label {
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        "status.replicas" | "status.successful" => "0",
        _ => "",
    }
}

fn event_source(event: &Value) -> String {
    let component = event["source"]["component"].as_str().filter(|c| !c.is_empty());
    component
        .or(event["reportingComponent"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn pod_ips(pod: &Value) -> String {
    let ips = pod["status"]["podIPs"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    ips.iter()
        .filter_map(|ip| ip["ip"].as_str())
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_fields_with_their_zero_values() {
        let pod = crate::kind("", "v1", "Pod").unwrap();
        let object = json!({"metadata": {"name": "x"}, "spec": {"nodeName": "n", "hostNetwork": true}});
        let value = |label| field_value(pod, &object, label);
        assert_eq!(value("metadata.name").as_deref(), Some("x"));
        assert_eq!(value("spec.host").as_deref(), Some("n"));
        assert_eq!(value("spec.hostNetwork").as_deref(), Some("true"));
        assert_eq!(value("status.phase").as_deref(), Some(""));
        assert_eq!(value("spec.foo"), None);
        let node = crate::kind("", "v1", "Node").unwrap();
        assert_eq!(
            field_value(node, &json!({}), "spec.unschedulable").as_deref(),
            Some("false")
        );
    }
}
