//! The queue that workers and producers hold.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::{AddOptions, Config, Leftovers};
use crate::intake::{Intake, News, What};
use crate::metrics::{Metrics, Observed};
use crate::moment::Moment;
use crate::sleepers::Sleepers;
use crate::state::{DeadLetter, Snapshot, State};
use crate::take::Take;
use crate::work::Outcome;

/// How often a worker tries to lock: longer than anybody keeps it locked, if it is not one after the other.
const N_TRIES: u32 = 100;

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
    /// Never held while a waker or anything else outside is called.
    inner: Mutex<Inner<K>>,
    /// Locked for moments, alone or while `inner` is locked; never the other way round.
    intake: Mutex<Intake<K>>,
    /// Whether there may be something in `intake`; changed only while that is locked.
    told: AtomicBool,
    hasher: DefaultHashBuilder,
    begun: Instant,
    /// Whether all news have to be told with their time.
    timed: AtomicBool,
    drained: Notify,
}

pub(crate) struct Inner<K> {
    pub(crate) state: State<K>,
    pub(crate) sleepers: Sleepers,
    /// When the last change was, as far as it matters.
    latest: Moment,
    /// Empty; kept for its memory.
    news: Vec<News<K>>,
    /// What `intake` was last told of the urgency of news.
    urgent: bool,
}

impl<K: Clone + Eq + Hash> Inner<K> {
    /// The time of a change: that of the last one if it does not matter. Never earlier than the last.
    pub(crate) fn time(&mut self, at: Option<Moment>) -> Moment {
        if let Some(at) = at {
            self.latest = self.latest.max(at);
        }
        self.latest
    }

    /// The worker to wake after a change, if one is needed.
    pub(crate) fn next_sleeper(&mut self, now: Moment) -> Option<Waker> {
        if self.sleepers.is_empty() {
            return None;
        }
        let due = self.state.next_wake(now);
        let n_ready = match due {
            Some(due) if due <= now => self.state.n_ready(),
            _ => 0,
        };
        self.sleepers.next(n_ready, due)
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// The state as all that was told has made it.
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        // The state machine leaves no half-made change behind that a reader could not live with, and the
        // only foreign code under the lock is the key's own `clone`, `eq` and `drop`.
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.caught_up(inner)
    }

    /// As [`lock`](Self::lock), unless others keep it locked.
    fn lock_soon(&self) -> Option<MutexGuard<'_, Inner<K>>> {
        for _ in 0..N_TRIES {
            match self.try_lock() {
                Some(inner) => return Some(self.caught_up(inner)),
                None => std::hint::spin_loop(),
            }
        }
        None
    }

    fn caught_up<'a>(&self, mut inner: MutexGuard<'a, Inner<K>>) -> MutexGuard<'a, Inner<K>> {
        let urgent = inner.state.is_closed() || !inner.sleepers.is_empty();
        // While many keys drain there are no news, and each look would lock for nothing.
        if urgent != inner.urgent || self.told.load(Ordering::Acquire) {
            self.hear(&mut inner, urgent);
        }
        inner
    }

    /// Locks if nobody else has, without hearing what was told.
    fn try_lock(&self) -> Option<MutexGuard<'_, Inner<K>>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Applies what was told; whether there was something. From now on news are urgent, or are not.
    fn hear(&self, inner: &mut Inner<K>, urgent: bool) -> bool {
        let mut news = std::mem::take(&mut inner.news);
        let mut intake = self.intake();
        intake.swap(&mut news, urgent);
        self.told.store(false, Ordering::Relaxed);
        drop(intake);
        inner.urgent = urgent;
        let heard = !news.is_empty();
        for news in news.drain(..) {
            let now = inner.time(news.at);
            news.apply(&mut inner.state, now);
        }
        inner.news = news;
        heard
    }

    /// Keeps news for whoever looks next; gives it back if it has to be applied at once.
    fn leave_word(&self, news: News<K>) -> Option<News<K>> {
        let mut intake = self.intake();
        let refused = intake.keep(news);
        if refused.is_none() {
            self.told.store(true, Ordering::Release);
        }
        refused
    }

    fn intake(&self) -> MutexGuard<'_, Intake<K>> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
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
        let timed = config.debounce.is_some();
        let inner = Inner {
            state: State::new(config),
            sleepers: Sleepers::default(),
            latest: Moment::BEGINNING,
            news: Vec::new(),
            urgent: false,
        };
        Self {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                intake: Mutex::default(),
                told: AtomicBool::new(false),
                hasher: DefaultHashBuilder::default(),
                begun: Instant::now(),
                timed: AtomicBool::new(timed),
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
        let timed = options.after.is_some();
        self.tell(What::Added { key, hash, options }, timed)
    }

    /// Waits for a key to work on; none once the queue is shut down and handed out.
    ///
    /// May be cancelled at any await point: no key is lost. Needs a runtime with time enabled.
    pub fn take(&self) -> Take<K> {
        Take::new(self.clone())
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
        let now = self.now();
        self.lock().state.dead_letters(now)
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
    /// those ready too. After this nothing is retried or requeued.
    pub fn shut_down(&self, leftovers: Leftovers) -> usize {
        let mut inner = self.lock();
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
        let done = outcome == Outcome::Done;
        // Often it was this worker who locked last, and will be next: nothing has to move between cores.
        // Of a success the order in which it and the news come is without effect.
        if done && let Some(mut inner) = self.shared.try_lock() {
            let now = self.time(&mut inner);
            inner.state.finish(id, outcome, now);
            self.wake(inner, now);
            return;
        }
        self.tell(What::Finished { id, outcome }, !done);
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
            at: timed.then(|| self.now()),
        };
        let Some(news) = self.shared.leave_word(news) else {
            return true;
        };
        let mut inner = self.lock();
        let now = inner.time(news.at);
        let answer = news.apply(&mut inner.state, now);
        self.wake(inner, now);
        answer
    }

    /// Changes the state, then wakes whoever the change concerns.
    fn change<T>(&self, change: impl FnOnce(&mut State<K>, Moment) -> T) -> T {
        let mut inner = self.lock();
        let now = inner.time(Some(self.now()));
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

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.shared.lock()
    }

    pub(crate) fn lock_soon(&self) -> Option<MutexGuard<'_, Inner<K>>> {
        self.shared.lock_soon()
    }

    pub(crate) fn hear(&self, inner: &mut Inner<K>, urgent: bool) -> bool {
        self.shared.hear(inner, urgent)
    }

    /// The time, if it matters to the state; otherwise an earlier one.
    ///
    /// Reading the clock takes as long as adding a key.
    pub(crate) fn time(&self, inner: &mut Inner<K>) -> Moment {
        let read = inner.state.is_timed().then(|| self.now());
        inner.time(read)
    }

    fn now(&self) -> Moment {
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
        self.shared.timed.store(true, Ordering::Relaxed);
        self.change(State::observe);
        metrics.watch(Arc::downgrade(&self.shared) as _);
    }
}

impl<K: Clone + Eq + Hash + Send> Observed for Shared<K> {
    fn snapshot(&self) -> Snapshot {
        let now = Moment::at(self.begun.elapsed());
        self.lock().state.snapshot(now)
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
