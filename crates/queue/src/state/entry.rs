//! What the queue knows of one key.

use std::time::Duration;

use slab::Slab;

use super::ready::Place;
use crate::config::{Debounce, Priority};
use crate::list::{Arena, Links};
use crate::moment::Moment;

/// One key.
#[derive(Debug)]
pub(crate) struct Entry<K> {
    pub(crate) key: K,
    pub(crate) hash: u64,
    pub(crate) place: Place,
    pub(crate) phase: Phase,
    /// In the line of its tenant when ready, among the dead when it is one of those.
    pub(crate) links: Links,
    /// What was asked for and not begun: of a waiting key, or of a running one for afterwards.
    pub(crate) wish: Wish,
    pub(crate) failures: Option<Box<Failures>>,
    /// Whether the run under way was a change's, ahead of the scheduled retry.
    pub(crate) ahead_of_retry: bool,
}

impl<K> Arena for Slab<Entry<K>> {
    fn links(&mut self, id: u32) -> &mut Links {
        &mut self[id as usize].links
    }
}

/// Where a key is. Every entry is in exactly one phase, and `Waiting` iff it has a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between two phases; no entry rests here.
    Settling,
    /// Until then.
    Waiting(Moment),
    /// Since then.
    Ready(Moment),
    /// Since then.
    Running(Moment),
    Dead,
}

/// When a key should run next, as far as its adds say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    /// The earliest time asked for outright.
    at: Option<Moment>,
    /// The adds that are waiting for a quiet time.
    debounced: Option<Debounced>,
    priority: Option<Priority>,
}

#[derive(Clone, Copy, Debug)]
struct Debounced {
    first: Moment,
    until: Moment,
}

impl Wish {
    pub(crate) fn due(&self) -> Option<Moment> {
        let quiet = self.debounced.map(|debounced| debounced.until);
        match (self.at, quiet) {
            (Some(at), Some(quiet)) => Some(at.min(quiet)),
            (at, quiet) => at.or(quiet),
        }
    }

    pub(crate) fn priority(&self) -> Option<Priority> {
        self.priority
    }

    /// Asks for a run at `at`, unless an earlier one is due.
    pub(crate) fn want(&mut self, at: Moment, priority: Priority) {
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
        self.priority = self.priority.max(Some(priority));
    }

    /// Asks for a run once nothing more is asked for a while.
    pub(crate) fn want_when_quiet(&mut self, debounce: Debounce, now: Moment, priority: Priority) {
        let first = self.debounced.map_or(now, |debounced| debounced.first);
        let until = now.after(debounce.quiet).min(first.after(debounce.max_wait));
        self.debounced = Some(Debounced { first, until });
        self.priority = self.priority.max(Some(priority));
    }
}

/// How a key has failed since it last succeeded.
#[derive(Debug)]
pub(crate) struct Failures {
    /// Scheduled attempts that failed; what a change brings about does not count.
    pub(crate) attempts: u32,
    pub(crate) first: Moment,
    pub(crate) last: Moment,
    /// The backoff it is in.
    pub(crate) delay: Duration,
    /// The scheduled retry; [`Moment::NEVER`] if there is none.
    pub(crate) retry_at: Moment,
    pub(crate) error: String,
}

impl Failures {
    /// When the key runs next, given what its adds ask for.
    ///
    /// A change goes ahead of the retry, but not at once after a failure: a key that keeps failing and
    /// keeps changing, perhaps because of its own failing, would take a worker for itself.
    pub(crate) fn due(&self, wish: Option<Moment>, spacing: Duration) -> Moment {
        let pause = match self.retry_at {
            Moment::NEVER => spacing,
            _ => self.delay.min(spacing),
        };
        let change = wish.map(|at| at.max(self.last.after(pause)));
        change.map_or(self.retry_at, |change| change.min(self.retry_at))
    }
}
