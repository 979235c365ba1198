//! What every status has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state, in the form that Kubernetes tools know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// Since when.
    pub last_transition_time: String,
    /// Of which generation of the object this is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not.
    False,
    /// It cannot be told.
    Unknown,
}
