//! What a failure of a source means for the one who follows it.

use std::time::Duration;

use skopos_object::{ListWatchError, ResourceVersion};

use crate::ReflectorError;

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The version asked for is too old.
    Expired,
    /// The version asked for is newer than any the server has.
    TooLarge,
    /// The server wants fewer requests.
    Busy,
    /// The server was not reached, or went away.
    Away,
    /// The server fails, or makes no sense.
    Broken,
    /// The server cannot do what was asked.
    Unsupported,
    /// The request itself is refused: not found, not allowed.
    Refused,
}

impl Fault {
    pub(crate) fn of(error: &ListWatchError) -> Self {
        match error {
            error if error.is_too_large() => Self::TooLarge,
            error if error.is_expired() => Self::Expired,
            error if error.is_too_many_requests() => Self::Busy,
            ListWatchError::Unsupported(_) => Self::Unsupported,
            ListWatchError::Unavailable(_) => Self::Away,
            ListWatchError::Malformed(_) => Self::Broken,
            ListWatchError::Refused(status) => match status.code {
                502..=504 => Self::Away,
                500.. => Self::Broken,
                400 | 406 | 422 => Self::Unsupported,
                _ => Self::Refused,
            },
        }
    }
}

/// After what time the source asked to be tried again.
pub(crate) fn retry_after(error: &ReflectorError) -> Option<Duration> {
    match error {
        ReflectorError::List(error) | ReflectorError::Watch(error) => error.retry_after(),
        _ => None,
    }
}

/// Whether a version is a number, so that it can be compared with others.
pub(crate) fn is_comparable(version: &ResourceVersion) -> bool {
    let digits = version.as_bytes();
    !digits.is_empty() && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit)
}

/// Whether `a` is certainly older than `b`.
pub(crate) fn is_older(a: &ResourceVersion, b: &ResourceVersion) -> bool {
    a < b && is_comparable(a) && is_comparable(b)
}
