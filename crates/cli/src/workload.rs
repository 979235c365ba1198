//! What runs Skopos in a cluster: pods with a volume, or replicas that share a journal elsewhere.

use serde_json::{Value, json};

use crate::rbac::Who;

/// What the pods are to be.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    /// The container image.
    pub(crate) image: String,
    /// The Secret that holds the address of a shared journal; without it the journal is on a volume.
    pub(crate) journal: Option<SecretRef>,
    /// How large the volume is.
    pub(crate) storage: String,
}

/// A value in a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretRef {
    pub(crate) name: String,
    pub(crate) key: String,
}

const DATA_DIR: &str = "/var/lib/skopos";
const PORT: u16 = 8080;
/// A user that owns nothing, as images without a shell have it.
const USER: u32 = 65532;

/// The namespace, in which no pod may be privileged.
pub(crate) fn namespace(who: &Who) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": who.namespace, "labels": {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }}})
}

/// The pods, and what stands beside them.
pub(crate) fn workload(who: &Who, workload: &Workload) -> Vec<Value> {
    let main = match &workload.journal {
        Some(journal) => deployment(who, workload, journal),
        None => stateful_set(who, workload),
    };
    vec![main, service(who), budget(who)]
}

/// One pod with the journal on its volume: a second one could not read it.
fn stateful_set(who: &Who, workload: &Workload) -> Value {
    let pod = pod(who, workload, &[], &[], None);
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(who), "spec": {
        "replicas": 1,
        "serviceName": who.name,
        "selector": {"matchLabels": labels(who)},
        "template": pod,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": workload.storage}},
        }}],
    }})
}

/// Two pods that take turns, with the journal where both can reach it.
fn deployment(who: &Who, workload: &Workload, journal: &SecretRef) -> Value {
    let args = [
        "--leader-elect".to_owned(),
        format!("--leader-namespace={}", who.namespace),
        "--leader-identity=$(POD_NAME)".to_owned(),
    ];
    let env = [
        json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        json!({"name": "SKOPOS_JOURNAL", "valueFrom": {"secretKeyRef": {"name": journal.name, "key": journal.key}}}),
    ];
    let volume = json!({"name": "data", "emptyDir": {}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(who), "spec": {
        "replicas": 2,
        "selector": {"matchLabels": labels(who)},
        "template": pod(who, workload, &args, &env, Some(volume)),
    }})
}

fn pod(who: &Who, workload: &Workload, more_args: &[String], env: &[Value], volume: Option<Value>) -> Value {
    let mut args = vec![
        "run".to_owned(),
        "--no-install".to_owned(),
        format!("--data-dir={DATA_DIR}"),
        format!("--endpoint=0.0.0.0:{PORT}"),
        "--log-format=json".to_owned(),
    ];
    args.extend(who.watch.iter().map(|one| format!("--watch-namespace={one}")));
    args.extend_from_slice(more_args);
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
    json!({
        "metadata": {"labels": labels(who)},
        "spec": {
            "serviceAccountName": who.name,
            "automountServiceAccountToken": true,
            // A restart goes on where this one stopped; what is under way is given time to end.
            "terminationGracePeriodSeconds": 30,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "skopos",
                "image": workload.image,
                "args": args,
                "env": env,
                "ports": [{"name": "http", "containerPort": PORT}],
                "livenessProbe": probe("/healthz"),
                "readinessProbe": probe("/readyz"),
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "1Gi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "data", "mountPath": DATA_DIR}],
            }],
            "volumes": volume.into_iter().collect::<Vec<_>>(),
        },
    })
}

/// Gives the pods names, and tells Prometheus where their metrics are.
fn service(who: &Who) -> Value {
    let mut metadata = metadata(who);
    metadata["annotations"] = json!({
        "prometheus.io/scrape": "true",
        "prometheus.io/port": PORT.to_string(),
        "prometheus.io/path": "/metrics",
    });
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {
        "clusterIP": "None",
        "selector": labels(who),
        "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
    }})
}

/// Nodes are emptied one pod at a time.
fn budget(who: &Who) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(who), "spec": {
        "maxUnavailable": 1,
        "selector": {"matchLabels": labels(who)},
    }})
}

fn metadata(who: &Who) -> Value {
    json!({"name": who.name, "namespace": who.namespace, "labels": labels(who)})
}

fn labels(who: &Who) -> Value {
    json!({"app.kubernetes.io/name": "skopos", "app.kubernetes.io/instance": who.name})
}
