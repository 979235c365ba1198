//! Writes of which nobody knows whether they happen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skopos_client::Fate;
use tokio::time::Instant;

/// The writes of all reconciles of a process that were sent and not answered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    n_sent: usize,
    /// When the last of them was given up without an answer.
    lost: Option<Instant>,
}

impl Outstanding {
    pub(crate) fn sent(&self) {
        self.lock().n_sent += 1;
    }

    pub(crate) fn ended(&self, fate: Fate) {
        let mut state = self.lock();
        state.n_sent -= 1;
        if fate == Fate::Unknown {
            state.lost = Some(Instant::now());
        }
    }

    /// Whether one may still happen, if none does after so long.
    pub(crate) fn may_happen_within(&self, time: Duration) -> bool {
        let state = self.lock();
        state.n_sent > 0 || state.lost.is_some_and(|lost| lost.elapsed() < time)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
