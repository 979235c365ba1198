//! The queue that workers and producers hold.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::{AddOptions, Config, Leftovers};
use crate::metrics::{Metrics, Observed};
use crate::moment::Moment;
use crate::sleepers::Sleepers;
use crate::state::{DeadLetter, Snapshot, State};
use crate::take::Take;
use crate::work::Outcome;

/// A handle to a work queue; clones are the same queue.
///
/// Keys are cloned when they are handed out: for keys with strings in them an `Arc` saves the copying.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

struct Shared<K> {
    /// The only lock. Never held while a waker, a key's owner or anything else outside is called.
    inner: Mutex<Inner<K>>,
    hasher: RandomState,
    begun: Instant,
    drained: Notify,
}

pub(crate) struct Inner<K> {
    pub(crate) state: State<K>,
    pub(crate) sleepers: Sleepers,
}

impl<K: Clone + Eq + Hash> Inner<K> {
    /// The worker to wake after a change, if one is needed.
    pub(crate) fn next_sleeper(&mut self, now: Moment) -> Option<Waker> {
        let due = self.state.next_wake(now);
        let n_ready = match due {
            Some(due) if due <= now => self.state.n_ready(),
            _ => 0,
        };
        self.sleepers.next(n_ready, due)
    }
}

/// What was going on when the time to drain a queue was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Keys still in the hands of workers.
    pub running: usize,
    /// Keys ready and not handed out.
    pub ready: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "queue not drained in time: {} running, {} ready",
            self.running, self.ready
        )
    }
}

impl std::error::Error for Unfinished {}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue. Needs no runtime; [`take`](Self::take) does.
    pub fn new(config: Config<K>) -> Self {
        let inner = Inner {
            state: State::new(config),
            sleepers: Sleepers::default(),
        };
        Self {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                hasher: RandomState::new(),
                begun: Instant::now(),
                drained: Notify::new(),
            }),
        }
    }

    /// Adds a key that somebody changed: with high priority, after the quiet time if there is one.
    ///
    /// A key that waits already is not added twice; one that is being worked on runs once more afterwards.
    /// False if the queue is shut down and the key was not taken.
    pub fn add(&self, key: K) -> bool {
        self.add_with(key, AddOptions::default())
    }

    /// Adds a key with its own priority or after some time.
    pub fn add_with(&self, key: K, options: AddOptions) -> bool {
        let hash = self.shared.hasher.hash_one(&key);
        let now = self.now();
        self.change(now, |state| state.add(key, hash, options, now))
    }

    /// Waits for a key to work on; none once the queue is shut down and handed out.
    ///
    /// May be cancelled at any await point: no key is lost.
    pub fn take(&self) -> Take<K> {
        Take::new(self.clone())
    }

    /// Forgets that a key has failed, for one that is another object now, deleted and made anew.
    ///
    /// Its retry, if it waits for one, is due at once. A dead letter is dropped.
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hasher.hash_one(key);
        let now = self.now();
        self.change(now, |state| state.forget(hash, key, now));
    }

    /// The keys that were given up, the first first.
    pub fn dead_letters(&self) -> Vec<DeadLetter<K>> {
        let now = self.now();
        self.lock().state.dead_letters(now)
    }

    /// Tries a dead letter again, at once and as if it had never failed; false if there is none of this key.
    pub fn put_back(&self, key: &K) -> bool {
        let hash = self.shared.hasher.hash_one(key);
        let now = self.now();
        self.change(now, |state| state.put_back(hash, key, now))
    }

    /// Drops a dead letter and gives what it was.
    pub fn discard(&self, key: &K) -> Option<DeadLetter<K>> {
        let hash = self.shared.hasher.hash_one(key);
        let now = self.now();
        self.change(now, |state| state.discard(hash, key, now))
    }

    /// How many keys are ready to be handed out.
    pub fn len(&self) -> usize {
        self.lock().state.n_ready()
    }

    /// Whether no key is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait for a time: a delay, a backoff, a quiet time.
    pub fn n_waiting(&self) -> usize {
        self.lock().state.n_waiting()
    }

    /// How many keys workers have in their hands.
    pub fn n_running(&self) -> usize {
        self.lock().state.n_running()
    }

    /// Takes no more adds from now on. Waiting workers hear of it; running ones are let finish.
    ///
    /// Tells how many keys were let go: those waiting for a later time, and with [`Leftovers::LetGo`]
    /// those ready too. Failures after this are not retried.
    pub fn shut_down(&self, leftovers: Leftovers) -> usize {
        let now = self.now();
        self.change(now, |state| state.close(leftovers))
    }

    /// Waits until the queue is shut down, all is handed out and nothing runs.
    pub async fn drained(&self) {
        loop {
            let drained = self.shared.drained.notified();
            // Registered before looking, so that no notice falls in between.
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.lock().state.is_drained() {
                return;
            }
            drained.await;
        }
    }

    /// Shuts down and waits for the running keys, at most this long.
    pub async fn drain(&self, leftovers: Leftovers, at_most: Duration) -> Result<(), Unfinished> {
        self.shut_down(leftovers);
        let in_time = tokio::time::timeout(at_most, self.drained()).await;
        in_time.map_err(|_| {
            let inner = self.lock();
            Unfinished {
                running: inner.state.n_running(),
                ready: inner.state.n_ready(),
            }
        })
    }

    pub(crate) fn finish(&self, id: u32, outcome: Outcome) {
        let now = self.now();
        self.change(now, |state| state.finish(id, outcome, now));
    }

    pub(crate) fn abandon(&self, id: u32) {
        let now = self.now();
        let error = "dropped without an outcome: a panic, or a cancelled task".to_owned();
        self.change(now, |state| {
            state.count_abandoned();
            state.finish(id, Outcome::Failed(error), now);
        });
    }

    /// Changes the state, then wakes whoever the change concerns.
    fn change<T>(&self, now: Moment, change: impl FnOnce(&mut State<K>) -> T) -> T {
        let mut inner = self.lock();
        let answer = change(&mut inner.state);
        if inner.state.is_closed() {
            self.wake_for_closing(inner);
            return answer;
        }
        let waker = inner.next_sleeper(now);
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        answer
    }

    fn wake_for_closing(&self, mut inner: MutexGuard<'_, Inner<K>>) {
        let drained = inner.state.is_drained();
        let wakers = inner.sleepers.all();
        drop(inner);
        for waker in wakers {
            waker.wake();
        }
        if drained {
            self.shared.drained.notify_waiters();
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        // The state machine leaves no half-made change behind that a reader could not live with, and the
        // only foreign code under the lock is the key's own `clone` and `eq`.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::at(self.shared.begun.elapsed())
    }

    pub(crate) fn time_of(&self, moment: Moment) -> Instant {
        // A moment too far away for the clock's type is not awaited in earnest either.
        let far = Duration::from_secs(365 * 24 * 3600);
        self.shared
            .begun
            .checked_add(moment.elapsed())
            .unwrap_or_else(|| Instant::now() + far)
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// Shows the queue in `metrics` for as long as it lives.
    pub fn observe(&self, metrics: &Metrics) {
        self.lock().state.observe();
        metrics.watch(Arc::downgrade(&self.shared) as _);
    }
}

impl<K: Clone + Eq + Hash + Send> Observed for Shared<K> {
    fn snapshot(&self) -> Snapshot {
        let now = Moment::at(self.begun.elapsed());
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.state.snapshot(now)
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
