//! How everything downstream sees what changes: list a collection, then watch it.

use std::{error::Error, fmt, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_core::{future::BoxFuture, stream::Stream};

use crate::{FieldSelector, LabelSelector, Object, ObjectKey, Op, Reason, ResourceVersion, Status};

#[doc = include_str!("docs/list_watch.md")]
pub trait ListWatch: Send + Sync + fmt::Debug {
    /// Starts to read one page. Its objects come as they arrive, so that no one ever holds the whole
    /// page; the last item is [`ListItem::End`], and a stream that ends without it was cut off.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>>;

    /// Starts to follow the collection. The stream may end at any time, without that being an error:
    /// the caller watches again from the last version it saw.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>>;

    /// Finds out which history its versions belong to, each time anew. A source that lost its data and counts from
    /// the beginning says another one than before. Nothing where it cannot be known, which is the default.
    fn history(&self) -> BoxFuture<'_, Result<Option<HistoryId>, ListWatchError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Which history versions belong to: only versions of the same one can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HistoryId(pub String);

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
    /// What the source said when it refused.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the version asked for is no longer known, so that only a new list helps.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| {
            status.code == 410 || matches!(status.reason, Reason::Expired | Reason::Gone)
        })
    }

    /// Whether the version asked for is newer than what the source has, as when one of several servers lags
    /// behind. It may pass; if it does not, the source has another history.
    pub fn is_too_large(&self) -> bool {
        self.status().is_some_and(|status| {
            status.has_cause("ResourceVersionTooLarge")
                // Servers before 1.17 say it only in words.
                || status.message.contains("Too large resource version")
        })
    }

    /// Whether there is no such collection, or no longer.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Whether the source is asked too much and the same request is welcome later, without a new list.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.code == 429)
    }

    /// Whether a source that was asked for [`initial_events`](WatchRequest::initial_events) says by this that it has
    /// no such thing: what servers answer that do not know the request, or whose storage cannot tell its progress.
    pub fn means_no_initial_events(&self) -> bool {
        match self {
            Self::Unsupported(_) => true,
            Self::Refused(status) => matches!(status.code, 400 | 422 | 500) && !self.is_too_large(),
            Self::Unavailable(_) | Self::Malformed(_) => false,
        }
    }

    /// How long the source asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.retry_after_seconds()?;
        Some(Duration::from_secs(seconds.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Details;

    fn refused(code: u16, reason: Reason) -> ListWatchError {
        ListWatchError::Refused(Status::failure(code, reason, "no"))
    }

    #[test]
    fn expired_is_known_by_code_or_reason() {
        assert!(refused(410, Reason::Unknown).is_expired());
        assert!(refused(0, Reason::Expired).is_expired());
        assert!(refused(0, Reason::Gone).is_expired());
        assert!(!refused(404, Reason::NotFound).is_expired());
    }

    #[test]
    fn too_large_is_known_by_cause_or_words() {
        let status = Status::failure(504, Reason::Timeout, "Too large resource version: 9, current: 5");
        assert!(ListWatchError::Refused(status).is_too_large());
        let status = Status::failure(504, Reason::Timeout, "x").with_cause("ResourceVersionTooLarge", "", "");
        assert!(ListWatchError::Refused(status).is_too_large());
        assert!(!refused(504, Reason::Timeout).is_too_large());
    }

    #[test]
    fn servers_without_streaming_lists_are_told_from_those_in_trouble() {
        for code in [400, 422, 500] {
            assert!(refused(code, Reason::Unknown).means_no_initial_events(), "{code}");
        }
        assert!(ListWatchError::Unsupported("initial events").means_no_initial_events());
        for code in [401, 403, 404, 410, 429, 503, 504] {
            assert!(
                !refused(code, Reason::Unknown).means_no_initial_events(),
                "{code}"
            );
        }
    }

    #[test]
    fn retry_after_is_what_the_details_say() {
        let status = Status::failure(429, Reason::TooManyRequests, "x").with_details(Details {
            retry_after_seconds: 3,
            ..Details::default()
        });
        let error = ListWatchError::Refused(status);
        assert!(error.is_too_many_requests());
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
        assert_eq!(refused(429, Reason::TooManyRequests).retry_after(), None);
    }
}
