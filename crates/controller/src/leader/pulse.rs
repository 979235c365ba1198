//! Whether the election still moves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When the election last did something: nothing before it begins and after it has ended. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Pulse {
    last: Arc<Mutex<Option<Instant>>>,
}

impl Pulse {
    pub(super) fn beat(&self) {
        self.set(Some(Instant::now()));
    }

    pub(super) fn end(&self) {
        self.set(None);
    }

    /// For how long the election has done nothing.
    pub(super) fn age(&self) -> Duration {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.map_or(Duration::ZERO, |last| last.elapsed())
    }

    fn set(&self, last: Option<Instant>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}
