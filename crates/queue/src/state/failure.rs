//! Failures: backoff, the retry budget, and the keys that have used it up.

use std::time::Duration;

use super::State;
use super::entry::{Failures, Phase};
use crate::config::Priority;
use crate::moment::Moment;
use crate::work::Outcome;

/// Bytes of an error that are kept.
const MAX_ERROR: usize = 4096;

/// A key that is not tried again until somebody changes it or puts it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter<K> {
    /// The key.
    pub key: K,
    /// How many scheduled attempts failed.
    pub attempts: u32,
    /// How long ago it failed first.
    pub first_failed: Duration,
    /// How long ago it failed last.
    pub last_failed: Duration,
    /// What the last attempt said, at most 4 KiB of it.
    pub error: String,
}

impl<K: Clone + Eq> State<K> {
    /// Notes a failure and when to try again; true if the key has had its attempts.
    pub(super) fn fail(&mut self, id: u32, mut error: String, now: Moment) -> bool {
        error.truncate(error.floor_char_boundary(MAX_ERROR));
        let entry = &mut self.entries[id as usize];
        let known = entry.failures.is_some();
        self.n_failing += usize::from(!known);
        let failures = entry.failures.get_or_insert_with(|| {
            Box::new(Failures {
                attempts: 0,
                first: now,
                last: now,
                delay: Duration::ZERO,
                retry_at: Moment::NEVER,
                error: String::new(),
                ahead_of_retry: false,
            })
        });
        failures.last = now;
        failures.error = error;
        if !failures.ahead_of_retry {
            failures.attempts += 1;
            failures.delay = self.config.backoff.delay(failures.attempts, &mut self.random);
            failures.retry_at = now.after(failures.delay);
        }
        self.config
            .max_attempts
            .is_some_and(|most| failures.attempts >= most)
    }

    /// Lets a key become due anew after a while, as what it was: a change, or a scheduled retry.
    pub(super) fn put_off(&mut self, id: u32, delay: Duration, now: Moment) {
        if let Some(limiter) = &mut self.limiter {
            limiter.refund();
        }
        // One that is always put off would keep a closed queue from draining.
        if self.closed.is_some() {
            self.absolve(id);
            return;
        }
        let (entry, again) = (&mut self.entries[id as usize], now.after(delay));
        entry.want(again, entry.place().priority);
        if let Some(failures) = &mut entry.failures
            && !failures.ahead_of_retry
            && failures.retry_at != Moment::NEVER
        {
            failures.retry_at = again;
        }
    }

    /// Whether a running key becomes a dead letter if this is what became of it.
    pub(crate) fn is_given_up_after(&self, id: u32, outcome: &Outcome) -> bool {
        let entry = &self.entries[id as usize];
        let failures = entry.failures.as_deref();
        let is_exhausted = || {
            let attempts = failures.map_or(1, |known| known.attempts + u32::from(!known.ahead_of_retry));
            self.config.max_attempts.is_some_and(|most| attempts >= most)
        };
        let is_final = match outcome {
            Outcome::Terminal(_) => true,
            Outcome::Failed(_) => is_exhausted(),
            Outcome::Done | Outcome::RequeueAfter(_) | Outcome::PutOff(_) => false,
        };
        is_final && entry.wish().is_none() && self.n_dead < self.config.max_dead_letters
    }

    /// Makes a dead letter of a key that will not be retried; false if it has to go on.
    pub(super) fn give_up(&mut self, id: u32, now: Moment) -> bool {
        let entry = &mut self.entries[id as usize];
        if entry.wish().is_some() {
            // It was changed during its last attempt: that change has not been tried yet.
            self.renew(id);
            return false;
        }
        if self.n_dead >= self.config.max_dead_letters {
            self.stats.dead_letters_full += 1;
            if let Some(failures) = &mut entry.failures {
                failures.retry_at = now.after(self.config.backoff.longest);
            }
            return false;
        }
        entry.enter(Phase::Dead);
        self.dead.push_back(&mut self.entries, id);
        self.n_dead += 1;
        self.stats.dead_lettered += 1;
        true
    }

    /// A dead key was added again.
    pub(super) fn revive(&mut self, id: u32, now: Moment) {
        self.exhume(id);
        self.renew(id);
        self.settle(id, now);
    }

    /// The dead letters, the one that died first first.
    pub(crate) fn dead_letters(&self, now: Moment) -> Vec<DeadLetter<K>> {
        let dead = self.dead.items(&self.entries);
        dead.map(|id| self.dead_letter(id, now)).collect()
    }

    /// Tries a dead key again, now and as if it had never failed; false if it is not dead.
    pub(crate) fn put_back(&mut self, hash: u64, key: &K, now: Moment) -> bool {
        let Some(id) = self.find_dead(hash, key) else {
            return false;
        };
        if self.closed.is_some() {
            return false;
        }
        self.exhume(id);
        self.absolve(id);
        self.entries[id as usize].want(now, Priority::High);
        self.settle(id, now);
        true
    }

    /// Forgets a dead key.
    pub(crate) fn discard(&mut self, hash: u64, key: &K, now: Moment) -> Option<DeadLetter<K>> {
        let id = self.find_dead(hash, key)?;
        let letter = self.dead_letter(id, now);
        self.exhume(id);
        self.remove(id);
        Some(letter)
    }

    /// Forgets that a key has failed: what failed under this name is another object now.
    pub(crate) fn forget(&mut self, hash: u64, key: &K, now: Moment) {
        let Some(id) = self.find(hash, key) else {
            return;
        };
        if !self.absolve(id) {
            return;
        }
        let entry = &mut self.entries[id as usize];
        match entry.phase() {
            Phase::Waiting(_) => {
                // A retry that was due some time is not lost, it is not late any more.
                entry.want(now, Priority::Normal);
                self.settle(id, now);
            }
            Phase::Dead => {
                self.exhume(id);
                self.remove(id);
            }
            Phase::Ready(_) | Phase::LaidOut(_) | Phase::Running(_) | Phase::Settling | Phase::Resting => {}
        }
    }

    /// Forgets the failures of a key; whether there were any.
    pub(super) fn absolve(&mut self, id: u32) -> bool {
        let had = self.entries[id as usize].failures.take().is_some();
        self.n_failing -= usize::from(had);
        had
    }

    fn find_dead(&self, hash: u64, key: &K) -> Option<u32> {
        let id = self.find(hash, key)?;
        (self.entries[id as usize].phase() == Phase::Dead).then_some(id)
    }

    /// Gives a key its attempts back, with no retry scheduled.
    fn renew(&mut self, id: u32) {
        if let Some(failures) = &mut self.entries[id as usize].failures {
            failures.attempts = 0;
            failures.retry_at = Moment::NEVER;
        }
    }

    fn exhume(&mut self, id: u32) {
        self.dead.remove(&mut self.entries, id);
        self.n_dead -= 1;
        self.entries[id as usize].enter(Phase::Settling);
    }

    fn dead_letter(&self, id: u32, now: Moment) -> DeadLetter<K> {
        let entry = &self.entries[id as usize];
        let failures = entry.failures.as_deref();
        DeadLetter {
            key: entry.key.clone(),
            attempts: failures.map_or(0, |failures| failures.attempts),
            first_failed: failures.map_or(Duration::ZERO, |failures| now.since(failures.first)),
            last_failed: failures.map_or(Duration::ZERO, |failures| now.since(failures.last)),
            error: failures.map_or(String::new(), |failures| failures.error.clone()),
        }
    }
}
