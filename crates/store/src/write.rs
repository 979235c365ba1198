//! Writes and their preconditions.

use std::sync::Arc;

use bytes::Bytes;

use crate::entry::{Entry, Revision};

/// One conditional change of one key.
#[derive(Clone, Debug)]
pub struct Write {
    /// The space, `"<group>/<plural>"`.
    pub space: Arc<str>,
    /// The key inside the space.
    pub key: String,
    /// What must hold for the write to happen.
    pub expect: Expect,
    /// What to do.
    pub op: Op,
}

/// The precondition of a [`Write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last modified at this revision.
    At(Revision),
    /// The key exists.
    Exists,
    /// Nothing; but a delete of an absent key is still a conflict, as there is nothing to delete.
    Any,
}

impl Expect {
    pub(crate) fn holds(self, current: Option<&Entry>) -> bool {
        match (self, current) {
            (Self::Absent, current) => current.is_none(),
            (Self::At(revision), Some(current)) => current.modified == revision,
            (Self::Exists, Some(_)) | (Self::Any, _) => true,
            (Self::At(_) | Self::Exists, None) => false,
        }
    }
}

/// The change a [`Write`] makes.
#[derive(Clone, Debug)]
pub enum Op {
    /// Creates or replaces the value.
    Put(Template),
    /// Removes the key; watchers get the tombstone as the event's entry.
    Delete {
        /// The last state of the object, to carry the revision of the delete.
        tombstone: Template,
    },
}

impl Op {
    pub(crate) fn template(&self) -> &Template {
        match self {
            Self::Put(template) | Self::Delete { tombstone: template } => template,
        }
    }
}

/// A value that lacks only its revision, which is known at commit and not before.
#[derive(Clone, Debug)]
pub struct Template {
    /// The value around the gap.
    pub bytes: Bytes,
    /// Where the decimal revision goes; `None` stores the bytes as they are. Past the end means at the end.
    pub revision_at: Option<usize>,
}

impl Template {
    /// A value that is stored as it is.
    pub fn plain(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            revision_at: None,
        }
    }

    /// A value with the revision to be spliced in at `offset`.
    pub fn with_revision_at(bytes: impl Into<Bytes>, offset: usize) -> Self {
        Self {
            bytes: bytes.into(),
            revision_at: Some(offset),
        }
    }

    pub(crate) fn fill(&self, revision: Revision) -> Bytes {
        let Some(at) = self.revision_at else {
            return Bytes::from(Box::<[u8]>::from(&self.bytes[..]));
        };
        let (head, tail) = self.bytes.split_at(at.min(self.bytes.len()));
        let mut digits = itoa::Buffer::new();
        // Exactly sized and freshly allocated: an entry must not keep a larger request buffer alive.
        Bytes::from(
            [head, digits.format(revision.0).as_bytes(), tail]
                .concat()
                .into_boxed_slice(),
        )
    }
}

/// Why a write did not happen. Nothing of a failed write is ever visible to readers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The precondition does not hold. Read again and decide anew.
    #[error("precondition does not hold")]
    Conflict {
        /// What the key holds at the time of the check.
        current: Option<Arc<Entry>>,
    },
    /// Key, space or value exceeds what one record may hold. Not retryable.
    #[error("write of {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Bytes of space, key and value.
        size: usize,
        /// The limit, `max_write_bytes` of the configuration.
        limit: usize,
    },
    /// The store was closed. Not retryable.
    #[error("the store is closed")]
    Closed,
    /// The log could not be written. Reads go on; see [`StorageError`] for what writers may do.
    #[error("write the log")]
    Storage(#[source] StorageError),
}

/// What went wrong below the log. `NoSpace` is retryable, `Failed` lasts until a restart.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// The disk or quota is full. The log was cut back to its last whole record; writes work again once
    /// there is room.
    #[error("no space left for the log: {message}; free some and retry, nothing acknowledged was lost")]
    NoSpace {
        /// What the operating system said.
        message: Arc<str>,
    },
    /// The log is in an unknown state, so it takes no more writes.
    #[error("the log takes no more writes until a restart: {message}")]
    Failed {
        /// The operation and what the operating system said.
        message: Arc<str>,
    },
}
