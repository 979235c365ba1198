//! One change as the journal has it.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use skopos_object::{FieldChange, GroupVersionKind, Object, ObjectKey, Op, ResourceVersion, diff};

use crate::Writer;

/// The number of a change in the journal. The first is 1, the next one more, and no two changes ever have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// One change of one object, as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub seq: Seq,
    /// When it was written down.
    pub at: Timestamp,
    /// What happened.
    pub op: Op,
    /// Where the object lives; `kubernetes` for the cluster that Skopos runs on.
    pub source: String,
    /// What it is.
    pub kind: GroupVersionKind,
    /// The plural of its kind, as in paths.
    pub plural: String,
    /// Which one.
    pub key: ObjectKey,
    /// Which of all that ever had this name; empty if the source knows no such thing.
    pub uid: String,
    /// The version it has after the change. Of a deletion that was only found out later: the last version that was seen.
    pub version: ResourceVersion,
    /// How it was observed.
    pub observed: Observed,
    /// Who wrote, as far as the object's managed fields tell; nobody if they do not.
    pub by: Vec<Writer>,
    /// The state last observed before; nothing if the object was created.
    pub before: Option<Object>,
    /// The state after; nothing if the object is gone.
    pub after: Option<Object>,
}

/// How a change was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// As it happened, through a watch.
    Live,
    /// Through a watch that went on where an earlier one had stopped: exact, but late.
    Resumed,
    /// By comparing a list with what was known. When exactly it happened and what happened between is not known.
    Relist {
        /// It happened after this.
        after: Timestamp,
    },
    /// It was there when the kind was looked at for the first time: nothing is known about its past.
    First,
}

/// What a change is known by, to everyone, for ever: after a restart, to other replicas, in a replay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangeId(String);

impl Entry {
    /// What the change is known by.
    pub fn id(&self) -> ChangeId {
        ChangeId::new(self.op, &self.plural, &self.key, &self.uid, &self.version)
    }

    /// The newest state known.
    pub fn object(&self) -> Option<&Object> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// How large its states are together.
    pub fn n_bytes(&self) -> usize {
        let states = [&self.before, &self.after].into_iter().flatten();
        states.map(|object| object.bytes().len()).sum()
    }

    /// The fields that differ. Of an object that came or went: nothing.
    pub fn diff(&self) -> Vec<FieldChange> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => diff(&before.to_value(), &after.to_value()),
            _ => Vec::new(),
        }
    }
}

impl Observed {
    /// How long before `at` it may have happened, at most; nothing if it happened then.
    pub fn uncertainty(self, at: Timestamp) -> Option<Duration> {
        match self {
            Self::Relist { after } => Duration::try_from(at.duration_since(after)).ok(),
            Self::Live | Self::Resumed | Self::First => None,
        }
    }
}

impl ChangeId {
    pub(crate) fn new(op: Op, plural: &str, key: &ObjectKey, uid: &str, version: &ResourceVersion) -> Self {
        let uid = match uid.is_empty() {
            true => format!("{plural}/{key}"),
            false => uid.to_owned(),
        };
        Self(match op {
            Op::Created => format!("{uid}.created"),
            Op::Updated => format!("{uid}.{version}"),
            // Without a version: a deletion found out later has none of its own.
            Op::Deleted => format!("{uid}.deleted"),
        })
    }

    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text, as in `2f1c….created`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
