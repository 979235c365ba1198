//! The columns that `kubectl get` shows for built-in kinds, and the cells under them.

mod autoscaler;
mod cell;
mod cluster;
mod network;
mod pod;
mod workload;

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::kind::{Kind, kinds};
use cell::{age, text};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnDefinition {
    /// Heading, `Ready`.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub column_type: &'static str,
    /// `name` for the column that holds the object's name, otherwise empty.
    pub format: &'static str,
    /// 0 is always shown, 1 only in wide output.
    pub priority: i32,
}

impl ColumnDefinition {
    /// The definition as a Table carries it.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "type": self.column_type, "format": self.format, "description": "",
            "priority": self.priority})
    }
}

/// Group, kind and columns: `!` marks the name, `*` a wide column, `#` an integer, `?` a boolean, `@` a date.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("", "ConfigMap", "Name!|Data|Age"),
    ("", "Endpoints", "Name!|Endpoints|Age"),
    ("", "Event", EVENT),
    ("events.k8s.io", "Event", EVENT),
    ("", "Namespace", "Name!|Status|Age"),
    (
        "",
        "Node",
        "Name!|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
    ),
    (
        "",
        "PersistentVolumeClaim",
        "Name!|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
    ),
    (
        "",
        "PersistentVolume",
        "Name!|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
    ),
    (
        "",
        "Pod",
        "Name!|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
    ),
    ("", "PodTemplate", "Name!|Containers|Images|Pod Labels"),
    (
        "",
        "ReplicationController",
        "Name!|Desired#|Current#|Ready#|Age|Containers*|Images*|Selector*",
    ),
    ("", "ResourceQuota", "Name!|Request|Limit|Age"),
    ("", "Secret", "Name!|Type|Data|Age"),
    ("", "ServiceAccount", "Name!|Age"),
    (
        "",
        "Service",
        "Name!|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*",
    ),
    ("", "ComponentStatus", "Name!|Status|Message|Error"),
    (
        "apiregistration.k8s.io",
        "APIService",
        "Name!|Service|Available|Age",
    ),
    ("apps", "ControllerRevision", "Name!|Controller|Revision|Age"),
    (
        "apps",
        "DaemonSet",
        "Name!|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|Containers*|Images*|Selector*",
    ),
    (
        "apps",
        "Deployment",
        "Name!|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
    ),
    (
        "apps",
        "ReplicaSet",
        "Name!|Desired#|Current#|Ready#|Age|Containers*|Images*|Selector*",
    ),
    ("apps", "StatefulSet", "Name!|Ready|Age|Containers*|Images*"),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "Name!|Reference|Targets|MinPods|MaxPods|Replicas|Age",
    ),
    (
        "batch",
        "CronJob",
        "Name!|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|Containers*|Images*|Selector*",
    ),
    (
        "batch",
        "Job",
        "Name!|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
    ),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "Name!|Age|SignerName|Requestor|RequestedDuration|Condition",
    ),
    (
        "networking.k8s.io",
        "IngressClass",
        "Name!|Controller|Parameters|Age",
    ),
    (
        "networking.k8s.io",
        "Ingress",
        "Name!|Class|Hosts|Address|Ports|Age",
    ),
    ("networking.k8s.io", "IPAddress", "Name!|ParentRef"),
    ("networking.k8s.io", "NetworkPolicy", "Name!|Pod-Selector|Age"),
    ("networking.k8s.io", "ServiceCIDR", "Name!|CIDRs|Age"),
    (
        "policy",
        "PodDisruptionBudget",
        "Name!|Min Available|Max Unavailable|Allowed Disruptions#|Age",
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "Name!|Role|Age|Users*|Groups*|ServiceAccounts*",
    ),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        "Name!|Role|Age|Users*|Groups*|ServiceAccounts*",
    ),
    (
        "storage.k8s.io",
        "CSIDriver",
        "Name!|AttachRequired?|PodInfoOnMount?|StorageCapacity?|TokenRequests|RequiresRepublish?|Modes|Age",
    ),
    ("storage.k8s.io", "CSINode", "Name!|Drivers#|Age"),
    (
        "storage.k8s.io",
        "StorageClass",
        "Name!|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
    ),
    (
        "storage.k8s.io",
        "VolumeAttachment",
        "Name!|Attacher!|PV|Node|Attached?|Age",
    ),
    ("storage.k8s.io", "VolumeAttributesClass", "Name!|DriverName|Age"),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        "Name!|Mutations#|ParamKind|Age",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        "Name!|PolicyName|ParamRef|Age",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "Name!|Webhooks#|Age",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "Name!|Validations#|ParamKind|Age",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "Name!|PolicyName|ParamRef|Age",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "Name!|Webhooks#|Age",
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "Name!|Value#|Global-Default?|Age|PreemptionPolicy",
    ),
    ("coordination.k8s.io", "Lease", "Name!|Holder|Age"),
    ("node.k8s.io", "RuntimeClass", "Name!|Handler|Age"),
    (
        "discovery.k8s.io",
        "EndpointSlice",
        "Name!|AddressType|Ports|Endpoints|Age",
    ),
    ("resource.k8s.io", "DeviceClass", "Name!|Age"),
    ("resource.k8s.io", "ResourceClaim", "Name!|State|Age"),
    ("resource.k8s.io", "ResourceClaimTemplate", "Name!|Age"),
    ("resource.k8s.io", "ResourceSlice", "Name!|Node|Driver|Pool|Age"),
    (
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        "Name!|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "Name!|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
    ),
];

const EVENT: &str = "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name!*";

/// The columns of a kind; name and creation time for those that have no special ones.
pub fn columns(kind: &Kind) -> &'static [ColumnDefinition] {
    static PARSED: OnceLock<Box<[OnceLock<Vec<ColumnDefinition>>]>> = OnceLock::new();
    let slots = PARSED.get_or_init(|| kinds().iter().map(|_| OnceLock::new()).collect());
    let at = kinds().iter().position(|k| std::ptr::eq(k, kind)).unwrap_or(0);
    slots[at].get_or_init(|| {
        let listed = COLUMNS
            .iter()
            .find(|(group, name, _)| *group == kind.group && *name == kind.kind);
        listed
            .map_or("Name!|Created At@", |(_, _, columns)| columns)
            .split('|')
            .map(parse)
            .collect()
    })
}

fn parse(text: &'static str) -> ColumnDefinition {
    let name = text.trim_end_matches(['!', '*', '#', '?', '@']);
    let marks = &text[name.len()..];
    let column_type = match marks.chars().find(|mark| matches!(mark, '#' | '?' | '@')) {
        Some('#') => "integer",
        Some('?') => "boolean",
        Some('@') => "date",
        _ => "string",
    };
    let format = if marks.contains('!') { "name" } else { "" };
    ColumnDefinition {
        name,
        column_type,
        format,
        priority: i32::from(marks.contains('*')),
    }
}

/// The cells of an object, one per column; `now` is in seconds since the epoch.
pub fn cells(kind: &Kind, object: &Value, now: i64) -> Vec<Value> {
    let special = match kind.group {
        "" | "events.k8s.io" => {
            pod::cells(kind.kind, object, now).or_else(|| network::core_cells(kind.kind, object, now))
        }
        "apps" | "batch" => workload::cells(kind.kind, object, now),
        "autoscaling" => Some(autoscaler::cells(kind.version, object, now)),
        "networking.k8s.io" | "discovery.k8s.io" => network::cells(kind.kind, object, now),
        _ => None,
    };
    let found = special.or_else(|| cluster::cells(kind, object, now));
    found.unwrap_or_else(|| plain(kind, object, now))
}

/// Name and age, or name and creation time.
fn plain(kind: &Kind, object: &Value, now: i64) -> Vec<Value> {
    let name = text(&object["metadata"]["name"]);
    let created = &object["metadata"]["creationTimestamp"];
    match columns(kind).last().map(|column| column.name) {
        Some("Age") => vec![name.into(), age(created, now)],
        _ => vec![name.into(), created.clone()],
    }
}

/// The conditions of a table row: whether a pod has ended.
pub fn row_conditions(kind: &Kind, object: &Value) -> Vec<Value> {
    let condition = |reason: &str, message: &str| {
        vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
    };
    match (kind.is("", "Pod"), object["status"]["phase"].as_str()) {
        (true, Some("Succeeded")) => condition("Succeeded", "The pod has completed successfully."),
        (true, Some("Failed")) => condition("Failed", "The pod failed."),
        _ => Vec::new(),
    }
}
