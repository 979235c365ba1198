//! How everything downstream sees what changes: list a collection, then watch it.

use std::{error::Error, fmt, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_core::{future::BoxFuture, stream::Stream};

use crate::{FieldSelector, LabelSelector, Object, ObjectKey, Op, ResourceVersion, Status};

#[doc = include_str!("docs/list_watch.md")]
pub trait ListWatch: Send + Sync + fmt::Debug {
    /// Starts to read one page. Its objects come as they arrive, so that no one ever holds the whole
    /// page; the last item is [`ListItem::End`], and a stream that ends without it was cut off.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>>;

    /// Starts to follow the collection. The stream may end at any time, without that being an error:
    /// the caller watches again from the last version it saw.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>>;
}

/// The objects of one page of a list, in the order of their keys, then its end.
pub type ListStream = Pin<Box<dyn Stream<Item = Result<ListItem, ListWatchError>> + Send>>;

/// What happens in a collection, in order.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchEvent, ListWatchError>> + Send>>;

/// Which objects to read, from which version, how many at once. The default is: all, the latest, in
/// one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Only objects whose labels it selects.
    pub labels: LabelSelector,
    /// Only objects whose fields it selects.
    pub fields: FieldSelector,
    /// Which version to read. Empty: the latest. `0`: any.
    pub resource_version: ResourceVersion,
    /// How a version that is given is meant.
    pub version_match: VersionMatch,
    /// How many objects a page may have; nothing means all.
    pub limit: Option<usize>,
    /// The token of the page before, to read the one after it.
    pub continue_token: Option<String>,
}

/// How the version of a [`ListRequest`] is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionMatch {
    /// That version or a newer one.
    #[default]
    NotOlderThan,
    /// That version and no other.
    Exact,
}

/// One thing in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// An object.
    Object(Object),
    /// Something that should have been an object. The rest of the list is not worse for it.
    Malformed(Malformed),
    /// Nothing comes after this.
    End(ListEnd),
}

/// What a page of a list says of the list. All pages of a list are of the same version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEnd {
    /// The version of the list: to watch from here misses nothing.
    pub resource_version: ResourceVersion,
    /// How to ask for the next page; nothing after the last.
    pub continue_token: Option<String>,
    /// How many objects are on later pages, if the source knows.
    pub remaining: Option<u64>,
}

/// A text that should have been an object: not JSON, without a name, or too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Which object it would have been, as far as can be told.
    pub key: Option<ObjectKey>,
    /// Its version, as far as can be told; else empty.
    pub resource_version: ResourceVersion,
    /// The text, or its beginning if it is too large.
    pub text: Bytes,
    /// What is wrong with it.
    pub reason: String,
}

/// Which objects to follow and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// Only objects whose labels it selects. One that ceases to be selected is reported as deleted.
    pub labels: LabelSelector,
    /// Only objects whose fields it selects.
    pub fields: FieldSelector,
    /// Report what happens after this version.
    pub from: ResourceVersion,
    /// Whether to report progress by [`WatchEvent::Bookmark`].
    pub bookmarks: bool,
    /// Report what is there first, as added, then a bookmark that says so, then what happens. A source
    /// that cannot refuses with [`ListWatchError::Unsupported`].
    pub initial_events: bool,
    /// End the stream after this time.
    pub timeout: Option<Duration>,
}

/// One thing that happened in a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// An object is there that was not.
    Added(Object),
    /// An object changed.
    Modified(Object),
    /// An object is gone. Carries its last state, with the version at which it went.
    Deleted(Object),
    /// Something happened to an object that cannot be read. Progress is made all the same.
    Malformed {
        /// What happened.
        op: Op,
        /// What was sent.
        object: Malformed,
    },
    /// Everything up to a version has been reported.
    Bookmark {
        /// That version.
        resource_version: ResourceVersion,
        /// Whether this ends what [`WatchRequest::initial_events`] asked for.
        initial_events_end: bool,
    },
}

/// A list or watch failed.
///
/// [`Unavailable`](Self::Unavailable) is retryable as it is. For [`Refused`](Self::Refused) see
/// [`Status`]; if [`is_expired`](Self::is_expired), list again instead. The others are not retryable.
#[derive(Debug, thiserror::Error)]
pub enum ListWatchError {
    /// The source answered that it will not. Also how an error event inside a watch is reported.
    #[error("refused by the source")]
    Refused(#[source] Status),
    /// The source could not be reached, or broke off in the middle.
    #[error("source is not available")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The source sent something that makes no sense.
    #[error("malformed answer of the source")]
    Malformed(#[source] Box<dyn Error + Send + Sync>),
    /// The source cannot do what the request asks for, such as initial events.
    #[error("not supported by the source: {0}")]
    Unsupported(&'static str),
}

impl ListWatchError {
    /// Whether the version asked for is no longer known, so that only a new list helps.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 410)
    }
}
