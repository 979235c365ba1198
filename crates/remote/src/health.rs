//! Whether the server answers, and whether it still listens to us.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use tokio_util::sync::CancellationToken;

use crate::BlocksError;

/// What is known of the server, and how often it was asked.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Cancelled once nobody waits for an answer any more.
    pub(crate) given_up: CancellationToken,
    /// Cancelled once nothing will be written any more.
    pub(crate) is_lost: CancellationToken,
    error: OnceLock<BlocksError>,
    is_waiting: AtomicBool,
    pub(crate) n_retries: AtomicU64,
    pub(crate) n_puts: AtomicU64,
    pub(crate) put_bytes: AtomicU64,
    pub(crate) n_gets: AtomicU64,
}

impl Health {
    /// Whether somebody waits for a server that does not answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Relaxed)
    }

    /// Why nothing will be written any more, if so.
    pub(crate) fn lost(&self) -> Option<&BlocksError> {
        self.error.get()
    }

    pub(crate) fn lose(&self, error: &BlocksError) {
        if self.error.set(error.clone()).is_ok() {
            tracing::error!(%error, "nothing is written any more");
            self.is_lost.cancel();
        }
    }

    pub(crate) fn fails(&self, place: &str, error: &str) {
        self.n_retries.fetch_add(1, Relaxed);
        if !self.is_waiting.swap(true, Relaxed) {
            tracing::warn!(
                place,
                error,
                "what is kept cannot be written or read: capture waits until it can, and tries again"
            );
        } else {
            tracing::debug!(place, error, "still waiting");
        }
    }

    pub(crate) fn answers(&self, place: &str) {
        if self.is_waiting.load(Relaxed) && self.is_waiting.swap(false, Relaxed) {
            tracing::info!(place, "the server answers again");
        }
    }
}
