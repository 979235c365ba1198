//! The clock of one replica, which a simulation can let go wrong.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::ClockSkew;
use super::election::Now;

/// What the time is for one replica. Only the election reads it; everybody else is told the true time at which it
/// shows what the election means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    skew: ClockSkew,
    /// When it showed the true time.
    origin: Instant,
}

impl Clock {
    pub(super) fn new(skew: ClockSkew) -> Self {
        Self {
            skew,
            origin: Instant::now(),
        }
    }

    /// What it shows now.
    pub(super) fn now(&self) -> Now {
        Now {
            instant: self.shown_at(Instant::now()),
            wall: Timestamp::now()
                .saturating_add(self.skew.ahead)
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// The true time at which it will show `shown`.
    pub(super) fn when(&self, shown: Instant) -> Instant {
        match self.skew.gain_per_mille {
            0 => shown,
            _ => self.scaled(shown, 1000, self.speed()),
        }
    }

    fn shown_at(&self, time: Instant) -> Instant {
        match self.skew.gain_per_mille {
            0 => time,
            _ => self.scaled(time, self.speed(), 1000),
        }
    }

    /// In thousandths.
    fn speed(&self) -> u32 {
        1000_u32.saturating_add_signed(self.skew.gain_per_mille).max(1)
    }

    fn scaled(&self, time: Instant, by: u32, of: u32) -> Instant {
        let since = time.saturating_duration_since(self.origin).as_nanos();
        // Rounded up: who sleeps until then must find that it is then.
        let scaled = (since * u128::from(by)).div_ceil(u128::from(of));
        self.origin + Duration::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_gains_a_tenth_shows_eleven_seconds_after_ten() {
        let skew = |gain_per_mille| ClockSkew {
            gain_per_mille,
            ..ClockSkew::default()
        };
        let (fast, right, begin) = (Clock::new(skew(100)), Clock::new(skew(0)), Instant::now());
        let eleven = begin + Duration::from_secs(11);
        assert_eq!(fast.when(eleven), begin + Duration::from_secs(10));
        assert_eq!(right.when(eleven), eleven);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(fast.now().instant, eleven);
    }
}
