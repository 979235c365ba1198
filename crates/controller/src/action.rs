//! What a reconcile ends with.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::Error;

/// What is to happen after a reconcile that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes.
    #[default]
    Done,
    /// Look again after this time, or earlier if something changes. Not within 10 ms: an object that always wants to
    /// be looked at would take a worker for itself.
    RequeueAfter(Duration),
}

/// The least that [`Action::RequeueAfter`] waits.
pub(crate) const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// Why a reconcile failed. Made from any error by `?`.
///
/// A failed reconcile is tried again with growing pauses; one that failed [for good](Self::terminal) is set aside
/// until its object changes. It is not an error type itself, so that every other one can become it.
pub struct Failure {
    cause: Box<dyn StdError + Send + Sync>,
    is_terminal: bool,
}

impl Failure {
    /// A failure in words, to be tried again.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            cause: text.into().into(),
            is_terminal: false,
        }
    }

    /// A failure that no repetition will mend: the object itself has to change.
    pub fn terminal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            cause: cause.into(),
            is_terminal: true,
        }
    }

    /// Whether no repetition will mend it.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// What happened.
    pub fn cause(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.cause
    }

    /// Whether somebody else changed an object in between: no reason to worry, the next attempt reads it anew.
    pub fn is_conflict(&self) -> bool {
        let cause = self.cause();
        let client = match cause.downcast_ref::<Error>() {
            Some(Error::Client(error)) => Some(error),
            _ => cause.downcast_ref::<skopos_client::Error>(),
        };
        client.is_some_and(skopos_client::Error::is_conflict)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(cause: E) -> Self {
        Self {
            cause: Box::new(cause),
            is_terminal: false,
        }
    }
}

/// With all its sources, separated by colons.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        let mut source = self.cause.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_terminal { "terminal" } else { "retryable" };
        write!(f, "Failure({kind}: {self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_all_causes_and_whether_to_try_again() {
        fn parse() -> Result<u8, Failure> {
            Ok("x".parse()?)
        }
        let failure = parse().map(|_| ()).unwrap_err();
        assert_eq!(failure.to_string(), "invalid digit found in string");
        assert!(!failure.is_terminal());
        assert!(Failure::terminal("no such engine").is_terminal());
        let named = Failure::from(Error::Kind {
            kind: "Lamp".to_owned(),
            source: skopos_object::OpenError::Missing("lamps".to_owned()),
        });
        assert_eq!(
            named.to_string(),
            "cannot find the resource of Lamp: no resource is named lamps"
        );
    }
}
