//! Default values of built-in kinds, as clients rely on them.

mod admission;
mod cluster;
mod network;
mod pod;
mod volume;
mod workload;

use serde_json::{Value, json};

use crate::kind::Kind;

/// Fills in what the client left out. The object has been through [`crate::decode`].
pub fn default(kind: &Kind, object: &mut Value) {
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(&mut object["template"]),
        ("", "Service") => network::service(object),
        ("", "Endpoints") => network::endpoints(object),
        ("", "Secret") => cluster::secret(object),
        ("", "LimitRange") => cluster::limit_range(object),
        ("", "Namespace") => cluster::namespace(object),
        ("", "Node") => cluster::node(object),
        ("", "PersistentVolume") => volume::persistent_volume(object),
        ("", "PersistentVolumeClaim") => volume::claim(object),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("autoscaling", "HorizontalPodAutoscaler") => cluster::autoscaler(kind.version, object),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(object),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(object),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => cluster::binding(object),
        ("storage.k8s.io", "StorageClass") => cluster::storage_class(object),
        ("storage.k8s.io", "CSIDriver") => cluster::csi_driver(object),
        ("scheduling.k8s.io", "PriorityClass") => or(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("apiregistration.k8s.io", "APIService") => admission::api_service(object),
        ("flowcontrol.apiserver.k8s.io", _) => cluster::flow_control(kind.kind, object),
        ("resource.k8s.io", "ResourceClaim") => cluster::device_requests(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => cluster::device_requests(&mut object["spec"]["spec"]),
        ("admissionregistration.k8s.io", name) => admission::configuration(name, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::resource_definition(object),
        _ => {}
    }
}

/// Sets a member of an object unless it has a value. An empty string counts as none.
fn or(object: &mut Value, key: &str, value: impl Into<Value>) {
    let Value::Object(map) = object else { return };
    let unset = match map.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if unset {
        map.insert(key.to_owned(), value.into());
    }
}

/// Makes sure that a member is an object and returns it.
fn object_at<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    or(object, key, json!({}));
    &mut object[key]
}

/// The items of a list member; none when there is no list.
fn items<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}
