//! Pods and pod templates.

use serde_json::{Value, json};

use super::{items, or, volume};

/// Defaults of a pod; some do not apply to templates.
pub(super) fn pod(pod: &mut Value) {
    let spec = &mut pod["spec"];
    pod_spec(spec);
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            if host_network {
                host_ports(container);
            }
        }
    }
    or(spec, "enableServiceLinks", true);
    // A time that is negative counts as the shortest.
    if spec["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds < 0)
    {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
}

/// Defaults of a pod template.
pub(super) fn template(template: &mut Value) {
    if template.is_object() {
        pod_spec(&mut template["spec"]);
        if template["spec"]["hostNetwork"] == true {
            items(&mut template["spec"], "containers").for_each(host_ports);
            items(&mut template["spec"], "initContainers").for_each(host_ports);
        }
    }
}

fn pod_spec(spec: &mut Value) {
    or(spec, "dnsPolicy", "ClusterFirst");
    or(spec, "restartPolicy", "Always");
    or(spec, "securityContext", json!({}));
    or(spec, "terminationGracePeriodSeconds", 30);
    or(spec, "schedulerName", "default-scheduler");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume::pod_volume);
}

fn container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    or(container, "imagePullPolicy", policy);
    or(container, "terminationMessagePath", "/dev/termination-log");
    or(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        or(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            or(reference, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.get_mut(probe).filter(|v| v.is_object()) {
            self::probe(value);
        }
    }
    for hook in ["/lifecycle/preStop/httpGet", "/lifecycle/postStart/httpGet"] {
        if let Some(action) = container.pointer_mut(hook) {
            http_get(action);
        }
    }
}

fn probe(probe: &mut Value) {
    or(probe, "timeoutSeconds", 1);
    or(probe, "periodSeconds", 10);
    or(probe, "successThreshold", 1);
    or(probe, "failureThreshold", 3);
    if let Some(action) = probe.get_mut("httpGet") {
        http_get(action);
    }
    if let Some(action) = probe.get_mut("grpc") {
        or(action, "service", "");
    }
}

fn http_get(action: &mut Value) {
    or(action, "path", "/");
    or(action, "scheme", "HTTP");
}

fn host_ports(container: &mut Value) {
    for port in items(container, "ports") {
        let number = port["containerPort"].clone();
        if number != 0 {
            or(port, "hostPort", number);
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else {
        return;
    };
    let requests = super::object_at(&mut container["resources"], "requests");
    for (name, amount) in limits {
        or(requests, &name, amount);
    }
}

/// Images without a tag or with the tag `latest` are pulled always.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest || image.is_empty() => "IfNotPresent",
        None => "Always",
    }
}
