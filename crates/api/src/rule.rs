//! Which changes matter, and what happens then.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, Watch};

/// When a change matches, deliver it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[kube(
    group = "skopos.dev",
    version = "v1alpha1",
    kind = "Rule",
    plural = "rules",
    category = "skopos",
    namespaced,
    status = "RuleStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Watch","type":"string","jsonPath":".spec.watch.kind"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Matched","type":"integer","jsonPath":".status.matched"}"#,
    printcolumn = r#"{"name":"Delivered","type":"integer","jsonPath":".status.delivered"}"#,
    printcolumn = r#"{"name":"Dead","type":"integer","jsonPath":".status.deadLettered"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(
        kube_core = "::kube_core",
        k8s_openapi = "::k8s_openapi",
        schemars = "::schemars",
        serde = "::serde",
        serde_json = "::serde_json"
    )
)]
pub struct RuleSpec {
    // Not `on`: YAML 1.1, and so kubectl, reads a plain `on` as `true`, also as a key.
    /// Which changes of which objects.
    pub watch: Watch,
    /// What becomes of objects that were there before the rule.
    #[serde(default)]
    pub existing: Existing,
    /// Which fields must have changed.
    #[serde(default)]
    pub fields: Fields,
    /// A CEL expression over `object`, `oldObject` and `change` that must be true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What happens then: each on its own, with its own position.
    #[serde(rename = "do")]
    #[schemars(length(min = 1))]
    pub actions: Vec<Action>,
    /// How much the rule may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// As whom the objects are read and sinks of the kind `kubernetes` write: a service account of the rule's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Match and count, but deliver nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Stand still: changes wait until this is false again.
    #[serde(default)]
    pub suspend: bool,
}

/// What becomes of objects that were there before the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Existing {
    /// Nothing: only what happens after the rule was made counts.
    #[default]
    Ignore,
    /// Each counts as created, once, when the rule is made.
    Emit,
    /// Each counts as created when the rule is made and whenever its specification changes.
    Reconcile,
}

/// Which fields must have changed for an update to count. Fields that the server keeps for itself (resourceVersion,
/// generation, managedFields) count only if `include` names them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fields {
    /// Only changes of these paths and what is below them; all unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// No changes of these paths and what is below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
}

/// Where a matching change goes, and in what form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// The name of a `Sink` in the rule's namespace.
    #[schemars(length(min = 1))]
    pub sink: String,
    /// What is sent, unless there is a template.
    #[serde(default)]
    pub payload: Payload,
    /// What is sent instead: text, or YAML of any shape, in which `${…}` holds CEL. A value that is one `${…}` keeps its
    /// type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub template: Option<Value>,
}

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// The object before and after, and the fields that differ.
    #[default]
    Full,
    /// The fields that differ.
    Diff,
    /// Which object, and what happened.
    Ref,
}

/// How much a rule may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// So many matches a minute.
    #[schemars(range(min = 1))]
    pub max_actions_per_minute: u32,
    /// What happens beyond.
    #[serde(default)]
    pub on_exceed: OnExceed,
}

/// What happens when a rule would do more than it may. Nothing is lost either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnExceed {
    /// The rule stands still until someone says to go on.
    #[default]
    Suspend,
    /// What is beyond waits for the next minute.
    Delay,
}

/// How a [`Rule`] is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleStatus {
    /// Of which generation this is said.
    #[serde(default)]
    pub observed_generation: i64,
    /// `Ready`, `CaptureComplete` and `Delivering`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Up to which change of the journal the rule has looked.
    #[serde(default)]
    pub position: u64,
    /// How many changes matched.
    #[serde(default)]
    pub matched: u64,
    /// How many deliveries were acknowledged.
    #[serde(default)]
    pub delivered: u64,
    /// How many deliveries wait.
    #[serde(default)]
    pub pending: u64,
    /// How many deliveries were given up and lie in the dead letters.
    #[serde(default)]
    pub dead_lettered: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
}

pub(crate) fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}
