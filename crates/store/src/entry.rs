//! What the store holds and hands out: revisions, entries, events.

use std::{fmt, sync::Arc};

use bytes::Bytes;

/// A point in the history of the whole store. Each write takes the next one; 1 is the empty store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One stored value with its key. Immutable: a later write makes a new entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key inside its space.
    pub key: Box<str>,
    /// The value, with the revision spliced in where its template asked for it.
    pub value: Bytes,
    /// The revision of the write that created the key.
    pub created: Revision,
    /// The revision of the write that made this entry; for a tombstone, of the delete.
    pub modified: Revision,
}

/// What an [`Event`] did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOp {
    /// The key was created or replaced.
    Put,
    /// The key was removed.
    Delete,
}

/// One change of one key, as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Put or delete.
    pub op: EventOp,
    /// Whether this put created the key.
    pub created: bool,
    /// The new entry; for a delete the tombstone, whose `modified` is the revision of the delete.
    pub entry: Arc<Entry>,
    /// What the key held before.
    pub previous: Option<Arc<Entry>>,
}

impl Event {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.entry.modified
    }
}

/// The history that was asked for is no longer held: list anew and go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Compacted {
    /// The revision that was asked for.
    pub requested: Revision,
    /// The oldest revision that could have been served.
    pub oldest: Revision,
}
