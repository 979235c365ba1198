//! Why a question is not answered.

use serde::{Deserialize, Serialize};
use skopos_journal::ReadError;

/// Why a question is not answered. The same in process and over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What sort of trouble it is.
    pub reason: Reason,
    /// What is wrong.
    pub message: String,
    /// What to do about it; empty if the message says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// What sort of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The question makes no sense.
    BadQuestion,
    /// Nobody said who asks, or it was a lie.
    Unauthorized,
    /// What is asked for is not there.
    NotFound,
    /// No kind of this name was captured.
    UnknownResource,
    /// This process cannot tell: it has no rules, say.
    Unavailable,
    /// It took too long.
    TimedOut,
    /// Something failed that should not.
    Failed,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            hint: String::new(),
        }
    }

    /// The question makes no sense.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(Reason::BadQuestion, message)
    }

    /// What is asked for is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Reason::NotFound, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Reason::Failed, message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The HTTP status that says it.
    pub(crate) fn http_status(&self) -> u16 {
        match self.reason {
            Reason::BadQuestion => 400,
            Reason::Unauthorized => 401,
            Reason::NotFound | Reason::UnknownResource => 404,
            Reason::Unavailable => 503,
            Reason::TimedOut => 504,
            Reason::Failed => 500,
        }
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        let mut message = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            message = format!("{message}: {source}");
        }
        Self::failed(message)
    }
}
