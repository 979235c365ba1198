//! What can go wrong between a caller and an API server.

use std::time::Duration;

use skopos_object::{Reason, Status};

/// A failed call to an API server.
///
/// Retryable as they are: [`Error::Unreachable`], [`Error::Interrupted`] and [`Error::TimedOut`] (a write that
/// was interrupted may have happened). [`Error::Refused`] says in its status whether waiting helps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection, or no answer on it.
    #[error("cannot reach the API server at {server}")]
    Unreachable {
        /// The address that was tried.
        server: String,
        /// What the transport said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server answered with an error status.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The answer began but did not end.
    #[error("the answer to {request} broke off")]
    Interrupted {
        /// Method and path.
        request: String,
        /// What the transport said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The whole call took too long.
    #[error("no answer to {request} within {} s", .after.as_secs())]
    TimedOut {
        /// Method and path.
        request: String,
        /// How long the caller was ready to wait.
        after: Duration,
    },
    /// The answer is not what a Kubernetes API server sends.
    #[error("unexpected answer to {request}: {detail}")]
    Unexpected {
        /// Method and path.
        request: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The client's [`WriteGuard`](crate::WriteGuard) did not let the write through. Nothing was sent.
    #[error("{request} was not sent")]
    Withheld {
        /// Method and path.
        request: String,
        /// What the guard said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request cannot be put in HTTP, for example because of a control character in a name.
    #[error("cannot send {request}: {detail}")]
    Unsendable {
        /// Method and path.
        request: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl Error {
    /// Returns the status that the server answered with, if it answered.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// Says whether the server answered that the object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Says whether the server answered that it has no such object. It also answers 404 while it does not serve the
    /// resource at all, which tells nothing of the object: its definition may have come a moment ago.
    pub fn is_object_not_found(&self) -> bool {
        let names_object = |status: &Status| {
            let details = status.details.as_ref();
            details.is_some_and(|details| !details.name.is_empty())
        };
        self.is_not_found() && self.status().is_some_and(names_object)
    }

    /// Says whether the object was changed by someone else in between, or exists already.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// Says whether the resource version asked for is no longer in the server's history.
    pub fn is_expired(&self) -> bool {
        self.status()
            .is_some_and(|status| status.code == 410 || status.reason == Reason::Expired)
    }

    /// Says whether the server was never reached, as opposed to having refused.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Says whether the same call may succeed later without any change on our side.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } | Self::TimedOut { .. } => true,
            Self::Refused(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
            Self::Withheld { .. } | Self::Unexpected { .. } | Self::Unsendable { .. } => false,
        }
    }
}
