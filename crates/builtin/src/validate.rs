//! The checks on built-in kinds that users meet most, worded as kube-apiserver words them.
//!
//! Metadata is checked by the server for all kinds alike; only the rule for names, which differs, is here.

mod admission;
mod check;
mod config;
mod container;
mod cron;
mod names;
mod network;
mod pod;
mod policy;
mod rbac;
mod scheduling;
mod service;
mod storage;
mod update;
mod volume;
mod workload;

use serde_json::Value;
use skopos_object::{FieldError, FieldPath};

pub use names::name_errors;
pub use update::grows as claim_grows;

use crate::kind::Kind;
use check::Check;

/// Checks an object, and on update also what may not change. Defaults have been applied.
///
/// These are the common checks, not all that a real server makes: an object without errors here may still be
/// refused there.
pub fn validate(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut check = Check::default();
    if let Some(old) = old {
        update::validate(kind, &mut check, new, old);
        // Some kinds check little else on update, because nearly nothing may change.
        if !check.is_empty() && update::is_final(kind) {
            return check.into_errors();
        }
    }
    object(kind, &mut check, new, old);
    if let Some(old) = old {
        update::validate_last(kind, &mut check, new, old);
    }
    check.into_errors()
}

fn object(kind: &Kind, check: &mut Check, new: &Value, old: Option<&Value>) {
    let root = FieldPath::root();
    let spec = root.child("spec");
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => config::config_map(check, new),
        ("", "Secret") => config::secret(check, new),
        ("", "Pod") => pod::pod(check, &spec, &new["spec"], old.is_none()),
        ("", "PodTemplate") => pod::template(check, &root.child("template"), &new["template"]),
        ("", "Service") => service::service(check, new),
        ("", "Endpoints") => network::endpoints(check, new),
        ("", "PersistentVolume") => storage::persistent_volume(check, &new["spec"]),
        ("", "PersistentVolumeClaim") => storage::claim(check, &spec, &new["spec"]),
        ("", "ResourceQuota") => policy::resource_quota(check, &new["spec"]),
        ("", "LimitRange") => policy::limit_range(check, &new["spec"]),
        ("", "Namespace") => policy::namespace(check, &new["spec"]),
        ("", "Node") => policy::node(check, &new["spec"]),
        ("" | "events.k8s.io", "Event") => policy::event(kind, check, new, old),
        ("" | "apps", _) => workload::workload(kind.kind, check, new),
        ("batch", "Job") => workload::job(check, &spec, &new["spec"], old.is_none()),
        ("batch", "CronJob") => workload::cron_job(check, &new["spec"]),
        ("autoscaling", _) => policy::autoscaler(kind.version, check, &new["spec"]),
        ("policy", _) => policy::disruption_budget(check, &new["spec"]),
        ("networking.k8s.io", "Ingress") => network::ingress(check, &new["spec"]),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(check, &new["spec"]),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(check, &new["spec"]),
        ("discovery.k8s.io", _) => network::endpoint_slice(check, new),
        ("rbac.authorization.k8s.io", name) => rbac::validate(name, check, new),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(check, new),
        ("scheduling.k8s.io", _) => policy::priority_class(check, new),
        ("coordination.k8s.io", _) => policy::lease(check, &new["spec"]),
        ("node.k8s.io", _) => policy::runtime_class(check, new),
        ("certificates.k8s.io", _) => admission::signing_request(check, &new["spec"]),
        ("apiregistration.k8s.io", _) => admission::api_service(check, new),
        ("admissionregistration.k8s.io", name) => admission::configuration(name, check, new),
        _ => {}
    }
}
