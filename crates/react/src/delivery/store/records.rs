//! What is written down.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use skopos_object::ObjectKey;

use crate::delivery::Trigger;

/// A timer that is not set.
pub(super) const NEVER: i64 = i64::MAX;

/// What is kept of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleRecord {
    pub(crate) id: u32,
    /// It has looked at everything up to this change.
    pub(crate) position: u64,
    /// When the last change it looked at was written down, in milliseconds.
    #[serde(default)]
    pub(crate) looked_at: i64,
    pub(crate) generation: i64,
    /// Tells it from another rule of the same name; empty if nothing does.
    #[serde(default)]
    pub(crate) uid: String,
    /// When it was first seen, in milliseconds; nothing of rules that are older than this field.
    #[serde(default)]
    pub(crate) introduced: Option<i64>,
    pub(crate) edges: u64,
    #[serde(default)]
    pub(crate) existing: Existing,
    /// Why it stands still although nobody asked it to.
    #[serde(default)]
    pub(crate) suspended: Option<String>,
    #[serde(default)]
    pub(crate) matched: u64,
    #[serde(default)]
    pub(crate) failed: u64,
    /// Changes it never saw: damaged, or removed before it got to them.
    #[serde(default)]
    pub(crate) missed: u64,
    #[serde(default)]
    pub(crate) last_error: String,
    /// What it sends again, if it is no rule but a replay of one.
    #[serde(default)]
    pub(crate) replay: Option<Replayed>,
}

impl RuleRecord {
    /// What comes after this change is still to be looked at.
    pub(crate) fn looks_after(&self) -> u64 {
        match &self.replay {
            Some(replayed) if replayed.is_done => u64::MAX,
            Some(_) | None => self.position,
        }
    }
}

/// How far a rule is with the objects that were there before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Existing {
    /// Nothing to do.
    #[default]
    Done,
    /// Goes through them; the position stands still meanwhile.
    Telling {
        /// The last one told.
        after: Option<Cursor>,
    },
    /// Goes through them without telling: what is true of them already is remembered. The position stands still.
    Observing {
        /// The last one seen.
        after: Option<Cursor>,
    },
    /// All that are there were told. Those that changed while it went through them are recognized up to this change.
    Recognizing { until: u64 },
}

impl Existing {
    /// Whether it goes through them, and after which one.
    pub(crate) fn going_through(&self) -> Option<Option<&Cursor>> {
        match self {
            Self::Telling { after } | Self::Observing { after } => Some(after.as_ref()),
            Self::Done | Self::Recognizing { .. } => None,
        }
    }
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A range that is sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replayed {
    pub(crate) rule: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) sink: Option<String>,
    pub(crate) is_dry: bool,
    /// It has looked at all of it, and what is left of it are deliveries.
    #[serde(default)]
    pub(crate) is_done: bool,
}

/// What is kept of a rule and one of its sinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouteRecord {
    pub(crate) id: u32,
    pub(crate) next: u64,
    pub(crate) pending: u64,
    pub(crate) delivered: u64,
    pub(crate) letters: u64,
    #[serde(default)]
    pub(crate) low: LowWater,
    /// The same of dead letters.
    #[serde(default)]
    pub(crate) letters_low: LowWater,
}

/// The oldest change that something pending is about, or a little before it.
///
/// Rows are not in the order of their changes (timers, redriven ones). Two generations are kept: rows before `split` are
/// about changes from `old` on, the others from `new` on. Once the older generation is gone the other takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LowWater {
    old: u64,
    new: u64,
    split: u64,
}

/// What is kept of a dead letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LetterRecord {
    pub(super) seq: u64,
    pub(super) cause: u8,
    pub(super) action: u16,
    pub(super) lane: u64,
    pub(super) key: String,
    pub(super) object: String,
    pub(super) attempts: u32,
    pub(super) at: i64,
    pub(super) error: String,
}

/// Why something is sent, and where its state is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// The change itself.
    Change,
    /// The state after the change, held for long enough.
    Held,
    /// The state after the change, of an object that was there before the rule.
    Existing,
    /// The state before the change, of an object that was there before the rule.
    Before,
}

impl Cause {
    pub(crate) fn trigger(self) -> Trigger {
        match self {
            Self::Change => Trigger::Change,
            Self::Held => Trigger::Held,
            Self::Existing | Self::Before => Trigger::Existing,
        }
    }

    /// How it is called in the trace of a change.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Held => "held",
            Self::Existing => "existing",
            Self::Before => "before",
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Self::Change => 0,
            Self::Held => 1,
            Self::Existing => 2,
            Self::Before => 3,
        }
    }

    pub(super) fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Change,
            1 => Self::Held,
            2 => Self::Existing,
            _ => Self::Before,
        }
    }
}

impl Default for LowWater {
    fn default() -> Self {
        Self {
            old: u64::MAX,
            new: u64::MAX,
            split: 0,
        }
    }
}

impl LowWater {
    pub(crate) fn added(&mut self, seq: u64) {
        self.new = self.new.min(seq);
    }

    /// Rows are gone; `first` is the first that is left, `next` the place of the next new one.
    pub(crate) fn removed(&mut self, first: Option<u64>, next: u64) {
        match first {
            None => *self = Self::default(),
            Some(first) if first >= self.split => {
                self.old = self.new;
                self.new = u64::MAX;
                self.split = next;
            }
            Some(_) => {}
        }
    }

    /// Nothing pending is about a change before this one; `u64::MAX` if nothing is pending.
    pub(crate) fn seq(&self) -> u64 {
        self.old.min(self.new)
    }
}

impl From<&ObjectKey> for Cursor {
    fn from(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

impl From<&Cursor> for ObjectKey {
    fn from(cursor: &Cursor) -> Self {
        Self::namespaced(&cursor.namespace, &cursor.name)
    }
}

pub(super) fn encode(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
    serde_json::from_slice(bytes).map_err(|error| redb::Error::Corrupted(format!("a record: {error}")))
}
