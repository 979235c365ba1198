//! The overall rate limit: a token bucket.

use std::time::Duration;

use crate::config::RateLimit;
use crate::moment::Moment;

#[derive(Debug)]
pub(crate) struct Limiter {
    per_second: f64,
    burst: f64,
    tokens: f64,
    counted_at: Moment,
}

impl Limiter {
    pub(crate) fn new(limit: RateLimit) -> Self {
        let burst = f64::from(limit.burst.max(1));
        Self {
            // `max` also turns a NaN into the floor.
            per_second: limit.per_second.max(0.001),
            burst,
            tokens: burst,
            counted_at: Moment::BEGINNING,
        }
    }

    /// When the next key may be handed out; not later than `now` if it may at once.
    pub(crate) fn next(&mut self, now: Moment) -> Moment {
        let gained = now.since(self.counted_at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.counted_at = self.counted_at.max(now);
        if self.tokens >= 1.0 {
            return now;
        }
        let wait = (1.0 - self.tokens) / self.per_second;
        // At least a microsecond: a wait that rounds to nothing would never bring the missing token.
        now.after(Duration::from_secs_f64(wait).max(Duration::from_micros(1)))
    }

    pub(crate) fn spend(&mut self) {
        self.tokens -= 1.0;
    }

    /// Nothing was done with what was handed out.
    pub(crate) fn refund(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }
}
