//! What a reflector reports.

use std::{fmt, time::Duration};

use skopos_object::{ListWatchError, Malformed, Object, Op, ResourceVersion, Status};

/// One thing that a [`Reflector`](crate::Reflector) reports, in order and without loss.
///
/// A list is reported as [`Replace`](Self::Replace), its objects, then [`Replaced`](Self::Replaced); one
/// that fails midway is begun anew with another `Replace`. Objects known before and not in a finished list
/// are gone.
#[derive(Debug)]
pub enum Report {
    /// A list begins; forget the objects of an unfinished one.
    Replace {
        /// Why it is made.
        reason: ListReason,
    },
    /// An object of the list. A later one of the same key takes the place of an earlier one.
    Listed(Object),
    /// An object of the list went before the list was complete.
    Unlisted(Object),
    /// The list is complete.
    Replaced {
        /// The version of the list.
        version: ResourceVersion,
    },
    /// An object was created or changed.
    Applied(Object),
    /// An object was deleted, or left the selection. Its last state, with the version at which it went.
    Deleted(Object),
    /// Something that cannot be read, in a list or after it. Progress is made all the same.
    Malformed {
        /// What happened to the object.
        op: Op,
        /// What was sent.
        object: Malformed,
    },
    /// Everything up to this version has been reported.
    Bookmark(ResourceVersion),
    /// A watch is open, for the first time or anew.
    Watching,
    /// Something failed, and is tried again by itself.
    Trouble {
        /// What failed.
        error: ReflectorError,
        /// After what time it is tried again.
        retry_in: Duration,
    },
    /// After trouble, the watch goes on exactly where it stopped.
    Resumed,
}

/// Why a collection is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListReason {
    /// Nothing is known yet.
    First,
    /// The source no longer has the history since the last event.
    Expired,
    /// The source has another history than before, as after a restart in memory.
    OtherHistory,
    /// The watch failed inside the source again and again.
    BrokenWatch,
    /// Something happened to an object, and not even its name could be read.
    Unreadable,
    /// The collection was opened anew, for example in another version of its kind.
    Reopened,
}

impl ListReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::First,
        Self::Expired,
        Self::OtherHistory,
        Self::BrokenWatch,
        Self::Unreadable,
        Self::Reopened,
    ];

    /// The name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Expired => "expired",
            Self::OtherHistory => "other_history",
            Self::BrokenWatch => "broken_watch",
            Self::Unreadable => "unreadable",
            Self::Reopened => "reopened",
        }
    }
}

impl fmt::Display for ListReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Following a collection failed for now. A [`Reflector`](crate::Reflector) retries all of these itself.
#[derive(Debug, thiserror::Error)]
pub enum ReflectorError {
    /// A list failed.
    #[error("list failed")]
    List(#[source] ListWatchError),
    /// A watch failed.
    #[error("watch failed")]
    Watch(#[source] ListWatchError),
    /// A list ended before its end, or the watch before all that is there was reported.
    #[error("list was cut off")]
    Cut,
    /// A request was not answered, or a list stalled.
    #[error("no answer within {0:?}")]
    Unanswered(Duration),
    /// A watch said nothing for so long that its peer counts as dead.
    #[error("watch was silent for {0:?}")]
    Silent(Duration),
    /// A watch ended at once and without an event.
    #[error("watch ended at once")]
    ShortWatch,
    /// The source has lost its data since: its versions have nothing to do with those we know.
    #[error("source has another history than before")]
    OtherHistory,
    /// The source answered with objects older than those we know.
    #[error("source went back from version {known} to {seen}")]
    WentBack {
        /// Up to where everything was known.
        known: ResourceVersion,
        /// What came.
        seen: ResourceVersion,
    },
}

impl ReflectorError {
    /// Whether the source says that there is no such collection.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::List(error) | Self::Watch(error) if error.is_not_found())
    }

    /// What the source said if it does not allow this. That does not pass by itself: somebody has to give the right.
    pub(crate) fn forbidden(&self) -> Option<&Status> {
        match self {
            Self::List(error) | Self::Watch(error) => error.status().filter(|status| status.code == 403),
            _ => None,
        }
    }
}
