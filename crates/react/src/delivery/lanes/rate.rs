//! At most so many events a second.

use std::{num::NonZeroU32, time::Duration};

use tokio::time::Instant;

/// A limit on events a second. A tenth of a second's worth may go at once, so no second sees much more than its share.
#[derive(Debug)]
pub(super) struct Rate {
    interval: Option<Duration>,
    burst: u32,
    /// When everything taken so far is paid for.
    paid_at: Option<Instant>,
}

impl Rate {
    pub(super) fn new(per_second: Option<NonZeroU32>) -> Self {
        Self {
            interval: per_second.map(|n| Duration::from_secs(1) / n.get()),
            burst: per_second.map_or(1, |n| (n.get() / 10).max(1)),
            paid_at: None,
        }
    }

    /// How many may go now.
    pub(super) fn available(&self, now: Instant) -> usize {
        let Some(interval) = self.interval else {
            return usize::MAX;
        };
        let owed = self
            .paid_at
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let owed = owed.as_nanos().div_ceil(interval.as_nanos().max(1));
        let free = u128::from(self.burst).saturating_sub(owed);
        usize::try_from(free).unwrap_or(usize::MAX)
    }

    pub(super) fn take(&mut self, n: usize, now: Instant) {
        let Some(interval) = self.interval else {
            return;
        };
        let from = self.paid_at.map_or(now, |at| at.max(now));
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        self.paid_at = Some(from + interval.saturating_mul(n));
    }

    /// When the next one may go; nothing if there is no limit.
    pub(super) fn next(&self) -> Option<Instant> {
        let (interval, paid_at) = (self.interval?, self.paid_at?);
        let ahead = interval.saturating_mul(self.burst - 1);
        Some(paid_at.checked_sub(ahead).unwrap_or(paid_at))
    }
}
