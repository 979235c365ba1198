//! What can go wrong in the helpers of a reconcile.

use skopos_object::OpenError;

/// A helper of [`Context`](crate::Context) failed.
///
/// Retryable as they are: [`Client`](Self::Client) where its error says so, [`Kind`](Self::Kind),
/// [`Forbidden`](Self::Forbidden), [`Replaced`](Self::Replaced) and [`Stopped`](Self::Stopped). [`Invalid`](Self::Invalid) and
/// [`ControlledByOther`](Self::ControlledByOther) need a change somewhere.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused, or was not reached.
    #[error(transparent)]
    Client(#[from] skopos_client::Error),
    /// No resource holds objects of this kind, or it is not known now.
    #[error("cannot find the resource of {kind}")]
    Kind {
        /// The kind.
        kind: String,
        /// What discovery said.
        #[source]
        source: OpenError,
    },
    /// The cache of a kind stays empty: this controller may not list or watch it.
    #[error("cannot fill the cache of {kind}: {why}")]
    Forbidden {
        /// The kind.
        kind: String,
        /// What the server said.
        why: String,
    },
    /// What the caller gave cannot be sent.
    #[error("{0}")]
    Invalid(String),
    /// The object to write to belongs to another controller.
    #[error("{object} is controlled by {owner}")]
    ControlledByOther {
        /// The object that was to be written.
        object: String,
        /// Who controls it.
        owner: String,
    },
    /// The object that is reconciled was deleted, and perhaps made anew, in the meantime.
    #[error("{0} is another object now")]
    Replaced(String),
    /// The caches have stopped.
    #[error(transparent)]
    Stopped(#[from] skopos_informer::Stopped),
}
