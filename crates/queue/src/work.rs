//! A key in a worker's hands, and what became of it.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::config::Priority;
use crate::queue::Queue;
use crate::shared::Begun;

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; earlier failures are forgotten.
    Done,
    /// It is done, and wants to run again after this time; a change in between comes first.
    RequeueAfter(Duration),
    /// It could not be begun with, and is handed out again after this time as if nothing had happened: with its priority
    /// and its failures. A change in between comes first. It takes nothing from the rate limit, and is no work in the
    /// metrics.
    PutOff(Duration),
    /// It failed for this reason, and is tried again after its backoff.
    Failed(String),
    /// It failed for this reason, and trying again is of no use: it becomes a dead letter.
    Terminal(String),
}

/// A key that was handed out. Nobody else has the same key until this is finished or dropped.
///
/// Dropped without an outcome, as by a panic or a cancelled task, it counts as failed and is tried again.
#[must_use = "dropping work counts as a failure"]
pub struct Work<K: Clone + Eq + Hash> {
    queue: Queue<K>,
    begun: Begun<K>,
    finished: bool,
}

impl<K: Clone + Eq + Hash> Work<K> {
    pub(crate) fn new(queue: Queue<K>, begun: Begun<K>) -> Self {
        Self {
            queue,
            begun,
            finished: false,
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.begun.handed.key
    }

    /// Which attempt this is, from 1; more than 1 after failures.
    pub fn attempt(&self) -> u32 {
        self.begun.handed.failed_attempts.saturating_add(1)
    }

    /// With which priority it was handed out.
    pub fn priority(&self) -> Priority {
        self.begun.handed.priority
    }

    /// How long it was ready before it was handed out, in a queue that keeps times:
    /// see [`Queue::observe`].
    pub fn waited(&self) -> Option<Duration> {
        let since = self.begun.handed.since?;
        Some(self.begun.at.since(since))
    }

    /// Whether it becomes a [`DeadLetter`](crate::DeadLetter) if this is said of it now.
    ///
    /// It does not if it was added since it was handed out, if its run is a change's ahead of a retry that is still due, or if there
    /// is no room for dead letters.
    pub fn is_given_up_after(&self, outcome: &Outcome) -> bool {
        let inner = self.queue.shared().lock_to_tell();
        inner.state.is_given_up_after(self.begun.handed.id, outcome)
    }

    /// Says what became of it.
    pub fn finish(mut self, outcome: Outcome) {
        self.finished = true;
        let id = self.begun.handed.id;
        match outcome {
            Outcome::Done => self.queue.done(id, self.begun.tray),
            other => self.queue.finish(id, other),
        }
    }

    /// It is done: [`Outcome::Done`].
    pub fn done(self) {
        self.finish(Outcome::Done);
    }

    /// It is done until `delay` has passed: [`Outcome::RequeueAfter`].
    pub fn requeue_after(self, delay: Duration) {
        self.finish(Outcome::RequeueAfter(delay));
    }

    /// It could not be begun with: [`Outcome::PutOff`].
    pub fn put_off(self, delay: Duration) {
        self.finish(Outcome::PutOff(delay));
    }

    /// It failed: [`Outcome::Failed`].
    pub fn failed(self, error: impl fmt::Display) {
        self.finish(Outcome::Failed(error.to_string()));
    }

    /// It failed for good: [`Outcome::Terminal`].
    pub fn failed_for_good(self, error: impl fmt::Display) {
        self.finish(Outcome::Terminal(error.to_string()));
    }
}

impl<K: Clone + Eq + Hash> Drop for Work<K> {
    fn drop(&mut self) {
        if !self.finished {
            self.queue.abandon(self.begun.handed.id);
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.begun.handed.key)
            .field("attempt", &self.attempt())
            .field("priority", &self.begun.handed.priority)
            .finish_non_exhaustive()
    }
}
