//! What the queue knows of one key.

use std::time::Duration;

use slab::Slab;

use super::ready::Place;
use crate::config::{Debounce, Priority};
use crate::list::{Arena, Links};
use crate::moment::Moment;

/// One key.
///
/// With a key as small as an `Arc` all of it is in one cache line: where many keys wait, reading them from
/// memory is most of the work. So what belongs together is put together only by the methods.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry<K> {
    pub(crate) key: K,
    pub(crate) hash: u64,
    /// In the line of its tenant when ready, among the running, the dead or the resting when it is one of those.
    pub(crate) links: Links,
    pub(crate) failures: Option<Box<Failures>>,
    /// The earliest time asked for outright.
    wish_at: Option<Moment>,
    /// The adds that are waiting for a quiet time.
    debounced: Option<Box<Debounced>>,
    /// The highest priority asked for.
    wish_priority: Option<Priority>,
    /// Of the phase.
    at: Moment,
    stage: Stage,
    priority: Priority,
    tenant: u32,
}

impl<K> Arena for Slab<Entry<K>> {
    #[inline]
    fn links(&mut self, id: u32) -> &mut Links {
        &mut self[id as usize].links
    }

    #[inline]
    fn neighbours(&self, id: u32) -> Links {
        self[id as usize].links
    }
}

/// Where a key is. Every entry is in exactly one phase, and `Waiting` iff it has a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between two phases; no entry stays here.
    Settling,
    /// Nothing is wanted of it.
    Resting,
    /// Until then.
    Waiting(Moment),
    /// Since then.
    Ready(Moment),
    /// Ready since then, and on a worker's tray; whether it was begun is not known here yet.
    LaidOut(Moment),
    /// Since then.
    Running(Moment),
    Dead,
}

/// A [`Phase`] without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Settling,
    Resting,
    Waiting,
    Ready,
    LaidOut,
    Running,
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Debounced {
    first: Moment,
    until: Moment,
}

impl<K> Entry<K> {
    /// A key about which nothing is known.
    pub(crate) fn new(key: K, hash: u64, place: Place) -> Self {
        Self {
            key,
            hash,
            links: Links::default(),
            failures: None,
            wish_at: None,
            debounced: None,
            wish_priority: None,
            at: Moment::BEGINNING,
            stage: Stage::Settling,
            priority: place.priority,
            tenant: place.tenant,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Settling => Phase::Settling,
            Stage::Resting => Phase::Resting,
            Stage::Waiting => Phase::Waiting(self.at),
            Stage::Ready => Phase::Ready(self.at),
            Stage::LaidOut => Phase::LaidOut(self.at),
            Stage::Running => Phase::Running(self.at),
            Stage::Dead => Phase::Dead,
        }
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        (self.stage, self.at) = match phase {
            Phase::Settling => (Stage::Settling, self.at),
            Phase::Resting => (Stage::Resting, self.at),
            Phase::Waiting(until) => (Stage::Waiting, until),
            Phase::Ready(since) => (Stage::Ready, since),
            Phase::LaidOut(since) => (Stage::LaidOut, since),
            Phase::Running(since) => (Stage::Running, since),
            Phase::Dead => (Stage::Dead, self.at),
        };
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            tenant: self.tenant,
            priority: self.priority,
        }
    }

    pub(crate) fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// When it should run next, as far as its adds say: of a waiting key, or of a running one for afterwards.
    pub(crate) fn wish(&self) -> Option<Moment> {
        let quiet = self.debounced.as_deref().map(|debounced| debounced.until);
        match (self.wish_at, quiet) {
            (Some(at), Some(quiet)) => Some(at.min(quiet)),
            (at, quiet) => at.or(quiet),
        }
    }

    /// Its wish comes true: forgets it, and gives the priority that was asked for.
    pub(crate) fn take_wish(&mut self) -> Option<Priority> {
        self.wish_at = None;
        self.debounced = None;
        self.wish_priority.take()
    }

    /// Asks for a run at `at`, unless an earlier one is due.
    pub(crate) fn want(&mut self, at: Moment, priority: Priority) {
        self.wish_at = Some(self.wish_at.map_or(at, |earlier| earlier.min(at)));
        self.wish_priority = self.wish_priority.max(Some(priority));
    }

    /// Asks for a run once nothing more is asked for a while.
    pub(crate) fn want_when_quiet(&mut self, debounce: Debounce, now: Moment, priority: Priority) {
        let first = self.debounced.as_deref().map_or(now, |debounced| debounced.first);
        let until = now.after(debounce.quiet).min(first.after(debounce.max_wait));
        match &mut self.debounced {
            Some(debounced) => debounced.until = until,
            None => self.debounced = Some(Box::new(Debounced { first, until })),
        }
        self.wish_priority = self.wish_priority.max(Some(priority));
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
    /// Whether the run under way is a change's, ahead of the scheduled retry.
    pub(crate) ahead_of_retry: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_key_fits_in_one_cache_line_with_all_that_is_known_of_it() {
        assert_eq!(size_of::<Entry<std::sync::Arc<u8>>>(), 64);
    }
}
