//! Whether a connection is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the requests of one connection, from head to last byte.
#[derive(Clone, Default)]
pub(super) struct Activity {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    n_active: AtomicUsize,
    became_idle: Notify,
}

impl Activity {
    pub(super) fn begin(&self) -> Busy {
        self.shared.n_active.fetch_add(1, Ordering::AcqRel);
        Busy {
            shared: Arc::clone(&self.shared),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.n_active() == 0
    }

    pub(super) fn n_active(&self) -> usize {
        self.shared.n_active.load(Ordering::Acquire)
    }

    /// Resolves after the last open request ends.
    pub(super) async fn became_idle(&self) {
        self.shared.became_idle.notified().await;
    }
}

/// One open request.
pub(super) struct Busy {
    shared: Arc<Shared>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.shared.n_active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.became_idle.notify_one();
        }
    }
}
