//! Which changes of which objects.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which objects: of which kind, and which of that kind. The kind need not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The version; changes are captured in the one that the server prefers, and any other is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The kind; its plural, singular or short name will do too.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Only in these namespaces. A record in a namespace sees only its own and may name no other, except in the
    /// namespace `skopos-system` and from a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Only objects with these labels, as in `matchLabels` and `matchExpressions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// Which changes of which objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The version; changes are captured in the one that the server prefers, and any other is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The kind; its plural, singular or short name will do too.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Only these changes; all unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Only in these namespaces. A rule in a namespace sees only its own and may name no other, except in the namespace
    /// `skopos-system` and from a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Only objects with these labels, as in `matchLabels` and `matchExpressions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Only objects whose fields have these values, by path, such as `spec.tier: gold`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_fields: BTreeMap<String, String>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It appeared.
    Created,
    /// It changed.
    Updated,
    /// It is gone.
    Deleted,
}

/// Which labels objects must have: all of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    /// Labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// More to ask of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Requirement {
    /// The label.
    #[schemars(length(min = 1))]
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}
