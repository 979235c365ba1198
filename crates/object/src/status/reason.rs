//! The reasons a status can give.

use std::fmt;

/// Why a request failed. Clients decide by this, not by the message.
///
/// Retryable as such: [`ServerTimeout`](Self::ServerTimeout), [`Timeout`](Self::Timeout),
/// [`TooManyRequests`](Self::TooManyRequests), [`ServiceUnavailable`](Self::ServiceUnavailable).
/// After [`Conflict`](Self::Conflict) read again first; after [`Expired`](Self::Expired) or
/// [`Gone`](Self::Gone) list again first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No reason is given, or one we do not know.
    #[default]
    Unknown,
    /// Credentials are missing or wrong.
    Unauthorized,
    /// The user may not do this.
    Forbidden,
    /// The object or resource does not exist.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// The object changed since it was read.
    Conflict,
    /// The item is no longer available.
    Gone,
    /// The object is invalid.
    Invalid,
    /// The server could not finish now; try again.
    ServerTimeout,
    /// The object in storage cannot be read.
    StoreReadError,
    /// The request took too long; it may still finish.
    Timeout,
    /// Too many requests; try again later.
    TooManyRequests,
    /// The request itself is malformed.
    BadRequest,
    /// The resource does not support the method.
    MethodNotAllowed,
    /// The server cannot answer in a format the client accepts.
    NotAcceptable,
    /// The request body is too large.
    RequestEntityTooLarge,
    /// The server does not read the format of the body.
    UnsupportedMediaType,
    /// The server failed.
    InternalError,
    /// The resource version is too old; list again.
    Expired,
    /// The service is not available now.
    ServiceUnavailable,
}

/// Every reason that has a name.
const NAMED: [Reason; 19] = [
    Reason::Unauthorized,
    Reason::Forbidden,
    Reason::NotFound,
    Reason::AlreadyExists,
    Reason::Conflict,
    Reason::Gone,
    Reason::Invalid,
    Reason::ServerTimeout,
    Reason::StoreReadError,
    Reason::Timeout,
    Reason::TooManyRequests,
    Reason::BadRequest,
    Reason::MethodNotAllowed,
    Reason::NotAcceptable,
    Reason::RequestEntityTooLarge,
    Reason::UnsupportedMediaType,
    Reason::InternalError,
    Reason::Expired,
    Reason::ServiceUnavailable,
];

impl Reason {
    /// The name on the wire; empty for [`Unknown`](Self::Unknown).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::ServerTimeout => "ServerTimeout",
            Self::StoreReadError => "StorageReadError",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// Reads the name on the wire; what is not known becomes [`Unknown`](Self::Unknown).
    pub fn from_name(name: &str) -> Self {
        NAMED
            .into_iter()
            .find(|reason| reason.as_str() == name)
            .unwrap_or_default()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
