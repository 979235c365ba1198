//! Time as the state machine sees it: nanoseconds since the queue began.

use std::time::Duration;

/// A point in time, counted from the queue's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than everything that happens: 584 years.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The moment `elapsed` after the beginning.
    pub(crate) fn at(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }

    /// How long after `earlier` this is; zero if it is not later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Counted from the beginning.
    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
