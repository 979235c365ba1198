//! What a failure of a source means for the one who follows it.

use std::time::Duration;

use skopos_object::{ListWatchError, Reason, ResourceVersion, Status};

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
            ListWatchError::Unsupported(_) => Self::Unsupported,
            ListWatchError::Unavailable(_) => Self::Away,
            ListWatchError::Malformed(_) => Self::Broken,
            ListWatchError::Refused(status) => Self::of_status(status),
        }
    }

    fn of_status(status: &Status) -> Self {
        if is_too_large(status) {
            return Self::TooLarge;
        }
        match (status.code, status.reason) {
            (410, _) | (_, Reason::Expired | Reason::Gone) => Self::Expired,
            (429, _) | (_, Reason::TooManyRequests) => Self::Busy,
            (502..=504, _) => Self::Away,
            (400 | 406 | 422, _) => Self::Unsupported,
            (500.., _) => Self::Broken,
            _ => Self::Refused,
        }
    }
}

/// Servers before 1.17 say it only in words.
fn is_too_large(status: &Status) -> bool {
    status.has_cause("ResourceVersionTooLarge") || status.message.contains("Too large resource version")
}

/// After what time the source asked to be tried again.
pub(crate) fn retry_after(error: &ReflectorError) -> Option<Duration> {
    let (ReflectorError::List(ListWatchError::Refused(status))
    | ReflectorError::Watch(ListWatchError::Refused(status))) = error
    else {
        return None;
    };
    status
        .retry_after_seconds()
        .map(|seconds| Duration::from_secs(seconds.into()))
}

/// Whether a version is a number, so that it can be compared with others.
pub(crate) fn is_comparable(version: &ResourceVersion) -> bool {
    let digits = version.as_str().as_bytes();
    !digits.is_empty() && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit)
}

/// Whether `a` is certainly older than `b`.
pub(crate) fn is_older(a: &ResourceVersion, b: &ResourceVersion) -> bool {
    a < b && is_comparable(a) && is_comparable(b)
}
