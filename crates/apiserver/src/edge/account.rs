//! What is owed for a request until its last byte is sent: a place among those in flight, a line in the metrics.

use std::sync::Arc;

use tokio::time::Instant;

use super::admission::Slot;
use super::metrics::Metrics;
use super::seam::RequestLabels;

/// Settles a request when dropped: records its duration, and with the slot frees its place.
pub(super) struct Account {
    pub(super) metrics: Arc<Metrics>,
    pub(super) labels: RequestLabels,
    pub(super) code: u16,
    pub(super) received: Instant,
    /// When the client must have taken the whole answer.
    pub(super) due: Option<Instant>,
    pub(super) slot: Option<Slot>,
}

impl Account {
    /// Opens the account of a request whose answer begins now.
    pub(super) fn open(self) -> Self {
        self.metrics.answered(&self.labels, self.code);
        if self.due.is_none() {
            self.metrics.stream_opened(&self.labels);
        }
        self
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.due.is_some_and(|due| Instant::now() > due)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        match self.due {
            Some(_) => self.metrics.finished(&self.labels, self.received.elapsed()),
            None => self.metrics.stream_closed(&self.labels),
        }
        self.slot = None;
    }
}
