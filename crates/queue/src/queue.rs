//! The queue that workers and producers hold.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::config::{AddOptions, Config, Leftovers};
use crate::intake::{Kept, News, What};
use crate::metrics::Metrics;
use crate::moment::Moment;
use crate::shared::{Apart, Inner, Shared};
use crate::state::{Added, DeadLetter, State};
use crate::take::Take;
use crate::work::Outcome;

/// A handle to a work queue; clones are the same queue.
///
/// Keys are cloned when they are handed out: for keys with strings in them an `Arc` saves the copying. Where
/// keys are many and soon done, give each worker a clone of its own.
pub struct Queue<K> {
    /// With a count of its own for each handle: every key that is handed out is counted, and cores that count
    /// on the same would wait for each other.
    shared: Arc<Apart<Arc<Shared<K>>>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared.0);
        Self {
            shared: Arc::new(Apart(shared)),
        }
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
        Self {
            shared: Arc::new(Apart(Arc::new(Shared::new(config)))),
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
        let timed = options.after.is_some();
        self.tell(What::Added { key, hash, options }, timed)
    }

    /// Waits for a key to work on; none once the queue is shut down and handed out.
    ///
    /// May be cancelled at any await point: no key is lost. Needs a runtime with time enabled.
    pub fn take(&self) -> Take<K> {
        Take::new(self.share())
    }

    /// Forgets that a key has failed, for one that is another object now, deleted and made anew.
    ///
    /// Its retry, if it waits for one, is due at once. A dead letter is dropped.
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hasher.hash_one(key);
        self.change(|state, now| state.forget(hash, key, now));
    }

    /// The keys that were given up, the first first.
    pub fn dead_letters(&self) -> Vec<DeadLetter<K>> {
        let now = self.shared.now();
        self.shared.lock().state.dead_letters(now)
    }

    /// Tries a dead letter again, at once and as if it had never failed; false if there is none of this key.
    pub fn put_back(&self, key: &K) -> bool {
        let hash = self.shared.hasher.hash_one(key);
        self.change(|state, now| state.put_back(hash, key, now))
    }

    /// Drops a dead letter and gives what it was.
    pub fn discard(&self, key: &K) -> Option<DeadLetter<K>> {
        let hash = self.shared.hasher.hash_one(key);
        self.change(|state, now| state.discard(hash, key, now))
    }

    /// How many keys are ready to be handed out.
    pub fn len(&self) -> usize {
        self.shared.lock().state.n_ready()
    }

    /// Whether no key is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait for a time: a delay, a backoff, a quiet time.
    pub fn n_waiting(&self) -> usize {
        self.shared.lock().state.n_waiting()
    }

    /// How many keys workers have in their hands.
    pub fn n_running(&self) -> usize {
        self.shared.lock().state.n_running()
    }

    /// Takes no more adds from now on. Waiting workers hear of it; running ones are let finish.
    ///
    /// Tells how many keys were let go: those waiting for a later time, and with [`Leftovers::LetGo`]
    /// those ready too. After this nothing is retried or requeued.
    pub fn shut_down(&self, leftovers: Leftovers) -> usize {
        let mut inner = self.shared.lock();
        // From here on who tells something waits for the lock, and then finds the queue closed.
        self.shared.hear(&mut inner, true);
        let n_gone = inner.state.close(leftovers);
        self.wake_for_closing(inner);
        n_gone
    }

    /// Waits until the queue is shut down, all is handed out and nothing runs.
    pub async fn drained(&self) {
        loop {
            let drained = self.shared.drained.notified();
            // Registered before looking, so that no notice falls in between.
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.shared.lock().state.is_drained() {
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
            let inner = self.shared.lock();
            Unfinished {
                running: inner.state.n_running(),
                ready: inner.state.n_ready(),
            }
        })
    }

    /// Says that a key was done that a worker had.
    pub(crate) fn done(&self, id: u32, tray: Option<usize>) {
        if tray.is_some_and(|tray| self.shared.note_done(tray, id)) {
            return;
        }
        // Often it was this worker who locked last, and will be next: nothing has to move between cores.
        // Of a success the order in which it and the news come is without effect.
        let Some(mut inner) = self.shared.try_lock() else {
            let outcome = Outcome::Done;
            self.tell(What::Finished { id, outcome }, false);
            return;
        };
        self.shared.hear_of_begun(&mut inner);
        let now = self.shared.time(&mut inner);
        inner.state.finish(id, Outcome::Done, now);
        self.wake(inner, now);
    }

    pub(crate) fn finish(&self, id: u32, outcome: Outcome) {
        self.tell(What::Finished { id, outcome }, true);
    }

    pub(crate) fn abandon(&self, id: u32) {
        let error = "dropped without an outcome: a panic, or a cancelled task".to_owned();
        self.change(|state, now| {
            state.count_abandoned();
            state.finish(id, Outcome::Failed(error), now);
        });
    }

    /// Leaves word, or changes the state at once; false if the queue takes no more keys.
    fn tell(&self, what: What<K>, timed: bool) -> bool {
        let timed = timed || self.shared.timed.load(Ordering::Relaxed);
        let news = News {
            what,
            at: timed.then(|| self.shared.now()),
        };
        let news = match self.shared.leave_word(news) {
            Kept::Few => return true,
            Kept::Many => {
                if let Some(mut inner) = self.shared.catch_up_if_free() {
                    let now = self.shared.time(&mut inner);
                    self.wake(inner, now);
                }
                return true;
            }
            Kept::Refused(news) => news,
        };
        let mut inner = self.shared.lock_to_tell();
        let now = inner.time(news.at);
        let added = news.apply(&mut inner.state, now);
        self.wake(inner, now);
        !matches!(added, Added::Refused)
    }

    /// Changes the state, then wakes whoever the change concerns.
    fn change<T>(&self, change: impl FnOnce(&mut State<K>, Moment) -> T) -> T {
        let mut inner = self.shared.lock();
        let now = inner.time(Some(self.shared.now()));
        let answer = change(&mut inner.state, now);
        self.wake(inner, now);
        answer
    }

    fn wake(&self, mut inner: MutexGuard<'_, Inner<K>>, now: Moment) {
        if inner.state.is_closed() {
            self.wake_for_closing(inner);
            return;
        }
        let waker = inner.next_sleeper(now);
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
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

    /// The same handle, for a key that is handed out.
    fn share(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }

    pub(crate) fn shared(&self) -> &Shared<K> {
        &self.shared
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// Shows the queue in `metrics` for as long as it lives.
    pub fn observe(&self, metrics: &Metrics) {
        self.shared.timed.store(true, Ordering::Relaxed);
        self.change(State::observe);
        metrics.watch(Arc::downgrade(&self.shared.0) as _);
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
