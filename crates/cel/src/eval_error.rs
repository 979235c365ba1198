//! Why an evaluation has no value.

use std::borrow::Cow;
use std::fmt;

/// Why an evaluation has no value. Displayed in the words of cel-go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    kind: EvalErrorKind,
    message: Cow<'static, str>,
}

/// What kind of failure an evaluation met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalErrorKind {
    /// The data does not allow what the expression asks: an overflow, a wrong type.
    /// `&&` and `||` absorb these.
    Data,
    /// A field, a key or an item is not there. `&&` and `||` absorb these too.
    Missing,
    /// The budget is used up. Nothing absorbs this.
    Budget,
}

pub(crate) type Eval<T> = Result<T, EvalError>;

impl EvalError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> EvalErrorKind {
        self.kind
    }

    pub(crate) fn budget(message: &'static str) -> EvalError {
        EvalError {
            kind: EvalErrorKind::Budget,
            message: message.into(),
        }
    }

    /// Says that a field, a key or an item is not there.
    #[must_use]
    pub fn missing(message: String) -> EvalError {
        EvalError {
            kind: EvalErrorKind::Missing,
            message: message.into(),
        }
    }

    pub(crate) fn is_no_overload(&self) -> bool {
        self.message == "no such overload"
    }

    pub(crate) fn no_overload() -> EvalError {
        "no such overload".into()
    }
}

impl From<&'static str> for EvalError {
    fn from(message: &'static str) -> Self {
        EvalError {
            kind: EvalErrorKind::Data,
            message: message.into(),
        }
    }
}

impl From<String> for EvalError {
    fn from(message: String) -> Self {
        EvalError {
            kind: EvalErrorKind::Data,
            message: message.into(),
        }
    }
}

impl std::error::Error for EvalError {}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
