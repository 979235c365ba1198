//! What a rule remembers of an object between two of its changes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a rule last saw of an object, for `became()` and `heldFor()`.
///
/// Kept by the caller for each object, through restarts; [`to_bytes`](Self::to_bytes) is a small text. It means
/// something only to a rule with the same `when`: see [`CompiledRule::fingerprint`](super::CompiledRule::fingerprint).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeState {
    /// By the number of the `became()`: whether its state was so.
    #[serde(rename = "b", default)]
    pub(crate) was: Vec<bool>,
    /// Since when the state of `heldFor()` is so.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<Held>,
}

/// A state that is so for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Since when, in milliseconds since 1970.
    #[serde(rename = "s")]
    since_millis: i64,
    /// Whether the rule has matched for it already: it does so once.
    #[serde(rename = "f")]
    pub(crate) fired: bool,
}

impl EdgeState {
    /// The text to keep.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a text that was kept; nothing if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

impl Held {
    pub(crate) fn begun(at: Timestamp) -> Self {
        Self {
            since_millis: at.as_millisecond(),
            fired: false,
        }
    }

    /// When it has been so for a length of time, in whole milliseconds: whoever keeps timers need not round. Nothing if
    /// that is beyond all times.
    pub(crate) fn due(self, nanos: i64) -> Option<Timestamp> {
        let millis = nanos.max(0).saturating_add(999_999) / 1_000_000;
        Timestamp::from_millisecond(self.since_millis.checked_add(millis)?).ok()
    }
}
