//! Time as the state machine sees it: nanoseconds since the queue began.

use std::num::NonZeroU64;
use std::time::Duration;

/// A point in time, counted from the queue's beginning.
///
/// One more than its nanoseconds, so that an `Option` of it is no larger: every key has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(NonZeroU64);

impl Moment {
    pub(crate) const BEGINNING: Self = Self(NonZeroU64::MIN);
    /// Later than everything that happens: 584 years.
    pub(crate) const NEVER: Self = Self(NonZeroU64::MAX);

    /// The moment `elapsed` after the beginning.
    pub(crate) fn at(elapsed: Duration) -> Self {
        Self::BEGINNING.after(elapsed)
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }

    /// How long after `earlier` this is; zero if it is not later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// Counted from the beginning.
    pub(crate) fn elapsed(self) -> Duration {
        self.since(Self::BEGINNING)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
