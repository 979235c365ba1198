//! How long things take: as in life on a paused clock, and a two hundredth of it where time really passes.

use std::time::Duration;

use skopos_client::{Limits, Retry};
use skopos_informer::ReflectorConfig;

#[derive(Clone, Copy)]
pub(crate) enum Tempo {
    Paused,
    Real,
}

const HASTE: u32 = 200;

impl Tempo {
    /// What such a time is in this life.
    pub(crate) fn of(self, time: Duration) -> Duration {
        match self {
            Self::Paused => time,
            Self::Real => time / HASTE,
        }
    }

    /// How long the engine may take to come to rest once nothing goes wrong any more: a stalled watch is noticed
    /// after 70 s, an unanswered request after two minutes, and the longest wait between attempts is a minute. Where
    /// time passes the machine may be busy with something else.
    pub(crate) fn rest(self) -> Duration {
        match self {
            Self::Paused => Duration::from_secs(10 * 60),
            Self::Real => Duration::from_secs(60),
        }
    }

    /// A number of seconds, below 20, that a server asks to wait. It cannot ask for less than one.
    pub(crate) fn retry_after(self, seconds: u32) -> u32 {
        match self {
            Self::Paused => seconds,
            Self::Real => seconds / 16,
        }
    }

    /// How the one who writes tries again.
    pub(crate) fn limits(self) -> Limits {
        let usual = Retry::default();
        let retry = Retry {
            first_pause: self.of(usual.first_pause),
            longest_pause: self.of(usual.longest_pause),
            ..usual
        };
        Limits { rate: None, retry }
    }

    pub(crate) fn reflector(self) -> ReflectorConfig {
        let usual = ReflectorConfig::default();
        match self {
            Self::Paused => usual,
            Self::Real => ReflectorConfig {
                initial_events_retry: self.of(usual.initial_events_retry),
                // Servers count in seconds, and may be slow to answer while others live.
                watch_timeout: Duration::from_secs(2),
                watch_grace: Duration::from_secs(1),
                silence: Duration::from_secs(1),
                patience: Duration::from_secs(3),
                backoff_first: self.of(usual.backoff_first),
                backoff_longest: self.of(usual.backoff_longest),
                backoff_reset: self.of(usual.backoff_reset),
                broken_watch: self.of(usual.broken_watch),
                ..usual
            },
        }
    }
}
