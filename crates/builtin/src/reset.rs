//! Fields that a write through one endpoint cannot change, so that it cannot own them either.

use skopos_schema::FieldSet;

use crate::kind::Kind;

/// What a write of `subresource`, or of the object itself if that is empty, leaves as it was.
///
/// For [`skopos_schema::Target::reset`].
pub fn reset_fields(kind: &Kind, subresource: &str) -> FieldSet {
    const SPEC: &[&str] = &["spec"];
    const STATUS: &[&str] = &["status"];
    const METADATA: &[&str] = &["metadata"];
    let has_status = kind.subresource("status").is_some();
    let paths: &[&[&str]] = match (kind.group, kind.kind, subresource) {
        ("certificates.k8s.io", "CertificateSigningRequest", "") => &[SPEC, STATUS],
        ("certificates.k8s.io", "CertificateSigningRequest", "status") => &[SPEC, &["status", "conditions"]],
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
            &[SPEC, &["status", "certificate"]]
        }
        (_, _, "") if has_status => &[STATUS],
        ("", "Namespace", "finalize") => &[STATUS],
        ("", "Pod", "status") => &[
            SPEC,
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
        ("apps", "Deployment", "status") => &[SPEC, &["metadata", "labels"]],
        (_, _, "status") if keeps_metadata(kind) => &[METADATA, SPEC],
        (_, _, "status") => &[SPEC],
        _ => &[],
    };
    FieldSet::of_paths(paths)
}

/// Whether a write of the status leaves the metadata as it was.
pub(crate) fn keeps_metadata(kind: &Kind) -> bool {
    kind.is("networking.k8s.io", "ServiceCIDR")
        || matches!(
            kind.group,
            "admissionregistration.k8s.io"
                | "apiregistration.k8s.io"
                | "flowcontrol.apiserver.k8s.io"
                | "internal.apiserver.k8s.io"
                | "resource.k8s.io"
                | "storage.k8s.io"
        )
}
