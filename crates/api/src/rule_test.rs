//! Tests of rules, as data.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Event, RuleSpec, rule::anything};

/// Says what a rule must do in given cases. Lives in files only, beside the rules; `skopos check` runs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[kube(
    group = "skopos.dev",
    version = "v1alpha1",
    kind = "RuleTest",
    plural = "ruletests",
    namespaced,
    derive = "PartialEq",
    crates(
        kube_core = "::kube_core",
        k8s_openapi = "::k8s_openapi",
        schemars = "::schemars",
        serde = "::serde",
        serde_json = "::serde_json"
    )
)]
pub struct RuleTestSpec {
    /// The name of the rule, in the namespace of the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The specification of a rule of its own, instead of a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_spec: Option<RuleSpec>,
    /// What happens, and what the rule must do.
    #[schemars(length(min = 1))]
    pub cases: Vec<Case>,
}

/// One change, and what the rule must do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// What it shows.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The object before; absent if it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub before: Option<Value>,
    /// The object after; absent if it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub after: Option<Value>,
    /// What happened, if it does not follow from `before` and `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Event>,
    /// Who wrote: what rules see as `change.by`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// When, as RFC 3339; 2026-01-01T00:00:00Z unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Let this time pass after the change without another, for `heldFor`; what is expected is what happens then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<crate::Span>,
    /// Go on from the case before: the rule has seen what happened there.
    #[serde(default)]
    pub after_previous: bool,
    /// What the rule must do.
    pub expect: Expect,
}

/// What a rule must do with a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// Whether it matches.
    pub matches: bool,
    /// What the first action sends: all that stands here must be there. Of a text: the whole text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub payload: Option<Value>,
}
