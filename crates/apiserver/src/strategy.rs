//! What differs from kind to kind on the write path, as small answers to small questions.

use crate::registry::Resource;

/// A PUT to a name that does not exist creates it.
pub(crate) fn creates_on_update(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("events.k8s.io", "events")
            | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
            | ("rbac.authorization.k8s.io", _)
    )
}

/// A PUT without a resource version overwrites whatever is there.
pub(crate) fn updates_unconditionally(resource: &Resource) -> bool {
    if resource.custom().is_some() {
        return false;
    }
    !matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "apiextensions.k8s.io" | "apiregistration.k8s.io" | "admissionregistration.k8s.io",
            _
        ) | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
            | ("policy", "poddisruptionbudgets")
            | (
                "storage.k8s.io",
                "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments"
            )
    )
}

/// A delete answers with the object instead of a Status.
pub(crate) fn returns_deleted_object(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "",
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
        ) | (
            "storage.k8s.io",
            "csidrivers" | "csinodes" | "storageclasses" | "volumeattachments" | "volumeattributesclasses"
        ) | ("resource.k8s.io", _)
    )
}

/// What becomes of the dependents of a deleted object if nothing is said of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependents {
    Deleted,
    /// They are orphaned, as they were when the kind was young.
    Kept,
    /// Garbage collection passes over the kind.
    Ignored,
}

pub(crate) fn dependents(resource: &Resource) -> Dependents {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("batch", "jobs") | ("", "replicationcontrollers") => Dependents::Kept,
        ("" | "events.k8s.io", "events") => Dependents::Ignored,
        _ => Dependents::Deleted,
    }
}
