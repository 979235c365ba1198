//! What to keep, how long, and what never to write down.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Scope, Size, Span};

/// Keeps the history of kinds, whether or not a rule asks for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[kube(
    group = "skopos.dev",
    version = "v1alpha1",
    kind = "Record",
    plural = "records",
    category = "skopos",
    namespaced,
    status = "RecordStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Complete","type":"string","jsonPath":".status.conditions[?(@.type==\"CaptureComplete\")].status"}"#,
    printcolumn = r#"{"name":"Objects","type":"integer","jsonPath":".status.objects"}"#,
    printcolumn = r#"{"name":"Changes","type":"integer","jsonPath":".status.changes"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(
        kube_core = "::kube_core",
        k8s_openapi = "::k8s_openapi",
        schemars = "::schemars",
        serde = "::serde",
        serde_json = "::serde_json"
    )
)]
pub struct RecordSpec {
    /// Which objects.
    #[schemars(length(min = 1))]
    pub watch: Vec<Scope>,
    /// For how long; what is not given is not limited here. What a sink has not been given yet is kept in any case.
    #[serde(default)]
    pub keep: Keep,
    /// Fields that never reach the disk or a sink, by path, such as `spec.password` or `spec.users[*].token`. The
    /// data of Secrets and the last-applied annotation never do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
}

/// How much history is kept: what is beyond any of these goes, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keep {
    /// Changes not older than this, such as `30d`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub age: Option<Span>,
    /// So many changes per kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub changes: Option<u64>,
    /// So many bytes of changes per kind, as they stand on disk, such as `5Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

/// How a [`Record`] is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordStatus {
    /// Of which generation this is said.
    #[serde(default)]
    pub observed_generation: i64,
    /// `Ready` and `CaptureComplete`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// How many objects of its kinds are known.
    #[serde(default)]
    pub objects: u64,
    /// How many changes of its kinds are kept.
    #[serde(default)]
    pub changes: u64,
}
