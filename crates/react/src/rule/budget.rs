//! How much a rule may do.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use skopos_api::{Limits, OnExceed};

/// The window over which actions are counted.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// Counts what a rule does in a sliding minute, and says when it is too much.
#[derive(Clone, Debug)]
pub struct Budget {
    max: usize,
    on_exceed: OnExceed,
    /// When the last ones were admitted, the oldest first; never more than `max`.
    admitted: VecDeque<Timestamp>,
}

/// Whether something may be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may, and is counted.
    Go,
    /// Not before this time.
    At(Timestamp),
    /// The rule is to be suspended until someone says to go on.
    Suspend,
}

impl Budget {
    /// A budget that nothing has been taken from.
    pub fn new(limits: &Limits) -> Self {
        Self {
            max: usize::try_from(limits.max_actions_per_minute)
                .unwrap_or(usize::MAX)
                .max(1),
            on_exceed: limits.on_exceed,
            admitted: VecDeque::new(),
        }
    }

    /// Asks to do one thing. Times that go backwards count as the latest one.
    pub fn take(&mut self, now: Timestamp) -> Admission {
        let now = self.admitted.back().map_or(now, |last| now.max(*last));
        let free_at = |taken: &Timestamp| taken.saturating_add(WINDOW).unwrap_or(Timestamp::MAX);
        while self.admitted.front().is_some_and(|taken| free_at(taken) <= now) {
            self.admitted.pop_front();
        }
        match (self.admitted.front(), self.on_exceed) {
            (Some(oldest), OnExceed::Delay) if self.admitted.len() >= self.max => {
                Admission::At(free_at(oldest))
            }
            (Some(_), OnExceed::Suspend) if self.admitted.len() >= self.max => Admission::Suspend,
            _ => {
                self.admitted.push_back(now);
                Admission::Go
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn budget(max: u32, on_exceed: OnExceed) -> Budget {
        Budget::new(&Limits {
            max_actions_per_minute: max,
            on_exceed,
        })
    }

    #[test]
    fn no_minute_holds_more_than_allowed() {
        let mut budget = budget(3, OnExceed::Delay);
        let answers: Vec<Admission> = [0, 10, 20, 30, 59, 60, 61, 70].map(|s| budget.take(at(s))).into();
        use Admission::{At, Go};
        assert_eq!(answers, [Go, Go, Go, At(at(60)), At(at(60)), Go, At(at(70)), Go]);
    }

    #[test]
    fn what_is_too_much_suspends_if_asked_to() {
        let mut budget = budget(1, OnExceed::Suspend);
        assert_eq!(budget.take(at(5)), Admission::Go);
        assert_eq!(budget.take(at(0)), Admission::Suspend);
        assert_eq!(budget.take(at(65)), Admission::Go);
    }
}
