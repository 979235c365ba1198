//! Waits that grow from failure to failure and are never the same for two clients.

use std::time::Duration;

use crate::ReflectorConfig;

#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    reset: Duration,
    failures: u32,
    last_failure: Duration,
}

/// A server may ask us to stay away longer than our own waits, but not for ever.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

impl Backoff {
    pub(crate) fn new(config: &ReflectorConfig) -> Self {
        Self {
            first: config.backoff_first,
            longest: config.backoff_longest,
            reset: config.backoff_reset,
            failures: 0,
            last_failure: Duration::ZERO,
        }
    }

    /// How long to wait after a failure at `now`, at least as long as `asked`.
    pub(crate) fn next(
        &mut self,
        asked: Option<Duration>,
        now: Duration,
        rng: &mut fastrand::Rng,
    ) -> Duration {
        if now.saturating_sub(self.last_failure) > self.reset {
            self.failures = 0;
        }
        // Half of the longest: the other half is left to chance.
        let grown = self.first.saturating_mul(1 << self.failures.min(16));
        let base = grown.min(self.longest / 2);
        let wait = base + base.mul_f64(rng.f64());
        let wait = wait.max(asked.unwrap_or_default().min(LONGEST_ASKED));
        self.failures = self.failures.saturating_add(1);
        self.last_failure = now + wait;
        wait
    }
}
