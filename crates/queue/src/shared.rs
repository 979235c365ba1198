//! What all handles of a queue share: the state, what was told to it, and what lies on trays.

use std::collections::VecDeque;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Config;
use crate::intake::{Intake, Kept, News};
use crate::metrics::Observed;
use crate::moment::Moment;
use crate::sleepers::Sleepers;
use crate::state::{Added, Handed, Snapshot, State};
use crate::tray::{FRESH, N_TRAYS, Notes, SHARE, Tray, seat};

/// How often a worker tries to lock before it sleeps.
const N_TRIES: u32 = 300;

/// Of how many news the keys are looked up at once.
const N_NEAR: usize = 16;

/// In cache lines of its own, so that cores that change it do not hinder those that use its neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

pub(crate) struct Shared<K> {
    pub(crate) hasher: DefaultHashBuilder,
    begun: Instant,
    /// Whether all news have to be told with their time.
    pub(crate) timed: AtomicBool,
    pub(crate) drained: Notify,
    /// Never held while a waker or anything else outside is called.
    inner: Apart<Mutex<Inner<K>>>,
    intake: Apart<Told<K>>,
    /// Locked for moments, alone or while `inner` is locked; never the other way round.
    trays: [Apart<Mutex<Tray<K>>>; N_TRAYS],
}

struct Told<K> {
    /// Locked for moments, alone or while `inner` is locked; never the other way round.
    intake: Mutex<Intake<K>>,
    /// Whether there may be something in `intake`; changed only while that is locked.
    any: AtomicBool,
}

pub(crate) struct Inner<K> {
    pub(crate) state: State<K>,
    pub(crate) sleepers: Sleepers,
    /// When the last change was, as far as it matters.
    latest: Moment,
    /// Empty; kept for its memory.
    news: Vec<News<K>>,
    /// For those who tell to drop.
    spent: Vec<K>,
    /// What `intake` was last told of the urgency of news.
    urgent: bool,
    /// The trays that have to be asked what was begun and done. None while a worker sleeps.
    out: Out,
    /// When each tray was last filled.
    filled: [Moment; N_TRAYS],
    /// Empty; kept for its memory.
    notes: Notes,
    /// Empty; kept for its memory.
    given_back: VecDeque<Handed<K>>,
}

/// Numbers of trays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Out(u32);

impl Out {
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn set(&mut self, tray: usize, is_out: bool) {
        self.0 = self.0 & !(1 << tray) | u32::from(is_out) << tray;
    }
}

impl Iterator for Out {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let first = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.set(first, false);
        Some(first)
    }
}

/// Which keys that were laid out go back to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recall {
    /// None; the state only hears what was begun and done.
    None,
    /// Those that lie there for too long.
    Stale(Moment),
    All,
}

/// A key for a worker.
#[derive(Debug)]
pub(crate) struct Begun<K> {
    pub(crate) handed: Handed<K>,
    pub(crate) at: Moment,
    /// The tray it lay on.
    pub(crate) tray: Option<usize>,
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

    /// The trays whose keys lie there for too long, and a worker's own.
    fn to_be_asked(&self, own: usize, now: Moment) -> Out {
        let mut asked = self.out;
        for number in self.out {
            let is_stale = now.since(self.filled[number]) >= FRESH;
            asked.set(number, number == own || is_stale);
        }
        asked
    }

    /// Whether so many keys are ready that some may be laid out.
    fn has_plenty(&self) -> bool {
        self.state.n_ready() >= SHARE && self.sleepers.is_empty() && !self.state.is_limited()
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    pub(crate) fn new(config: Config<K>) -> Self {
        let timed = config.debounce.is_some();
        let inner = Inner {
            state: State::new(config),
            sleepers: Sleepers::default(),
            latest: Moment::BEGINNING,
            news: Vec::new(),
            spent: Vec::new(),
            urgent: false,
            out: Out::default(),
            filled: [Moment::BEGINNING; N_TRAYS],
            notes: Notes::default(),
            given_back: VecDeque::new(),
        };
        let told = Told {
            intake: Mutex::default(),
            any: AtomicBool::new(false),
        };
        Self {
            hasher: DefaultHashBuilder::default(),
            begun: Instant::now(),
            timed: AtomicBool::new(timed),
            drained: Notify::new(),
            inner: Apart(Mutex::new(inner)),
            intake: Apart(told),
            trays: Default::default(),
        }
    }

    /// The state as all that was told has made it, with nothing on any tray.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        let mut inner = self.lock_to_tell();
        let out = inner.out;
        self.gather(&mut inner, out, Recall::All);
        inner
    }

    /// The state as all that was told has made it; keys may lie on trays.
    pub(crate) fn lock_to_tell(&self) -> MutexGuard<'_, Inner<K>> {
        let mut inner = self.lock_inner();
        self.catch_up(&mut inner);
        self.hear_of_begun(&mut inner);
        inner
    }

    /// The state as a worker needs it to take a key, and the time.
    pub(crate) fn lock_to_take(&self) -> (MutexGuard<'_, Inner<K>>, Moment) {
        let mut inner = self.lock_soon();
        if inner.out.is_empty() && !inner.has_plenty() {
            self.catch_up(&mut inner);
            let now = self.time(&mut inner);
            return (inner, now);
        }
        let now = inner.time(Some(self.now()));
        // The last keys do not wait on trays, and who is done with one of them tells the state.
        let (which, recall) = match inner.has_plenty() {
            true => (inner.to_be_asked(seat(), now), Recall::Stale(now)),
            false => (inner.out, Recall::All),
        };
        self.gather(&mut inner, which, recall);
        self.catch_up(&mut inner);
        (inner, now)
    }

    /// Locks if nobody else has, without hearing what was told.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner<K>>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_inner(&self) -> MutexGuard<'_, Inner<K>> {
        // The state machine leaves no half-made change behind that a reader could not live with, and the
        // only foreign code under the lock is the key's own `clone`, `eq` and `drop`.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody keeps it locked for long where many come: to sleep and be woken would take longer.
    fn lock_soon(&self) -> MutexGuard<'_, Inner<K>> {
        for _ in 0..N_TRIES {
            match self.try_lock() {
                Some(inner) => return inner,
                None => std::hint::spin_loop(),
            }
        }
        self.lock_inner()
    }

    /// Hears what was told, unless somebody else is at the queue, who will.
    pub(crate) fn catch_up_if_free(&self) -> Option<MutexGuard<'_, Inner<K>>> {
        let mut inner = self.try_lock()?;
        self.catch_up(&mut inner);
        Some(inner)
    }

    fn catch_up(&self, inner: &mut Inner<K>) {
        let urgent = inner.state.is_closed() || !inner.sleepers.is_empty();
        // While many keys drain there are no news, and each look would lock for nothing.
        if urgent != inner.urgent || self.intake.any.load(Ordering::Acquire) {
            self.hear(inner, urgent);
        }
    }

    /// Applies all that was told, and takes back all that lies on trays; whether that was anything.
    ///
    /// For a worker that will sleep: from now on who tells something has to look itself.
    pub(crate) fn hear_all(&self, inner: &mut Inner<K>) -> bool {
        let heard = self.hear(inner, true);
        let out = inner.out;
        self.gather(inner, out, Recall::All);
        heard || !out.is_empty()
    }

    /// Applies what was told; whether there was something. From now on news are urgent, or are not.
    pub(crate) fn hear(&self, inner: &mut Inner<K>, urgent: bool) -> bool {
        let mut news = std::mem::take(&mut inner.news);
        let mut intake = self.intake();
        intake.swap(&mut news, &mut inner.spent, urgent);
        self.intake.any.store(false, Ordering::Relaxed);
        drop(intake);
        inner.urgent = urgent;
        // After the news were taken and before they are applied: a key that was begun before it was added is
        // known to run by then, and is not taken for one that waits.
        self.hear_of_begun(inner);
        let heard = !news.is_empty();
        let mut told = news.drain(..);
        while !told.as_slice().is_empty() {
            inner.state.bring_near_told(told.as_slice().iter().take(N_NEAR));
            for news in told.by_ref().take(N_NEAR) {
                let now = inner.time(news.at);
                if let Added::Known(key) = news.apply(&mut inner.state, now) {
                    inner.spent.push(key);
                }
            }
        }
        drop(told);
        inner.news = news;
        if urgent {
            inner.spent.clear();
        }
        heard
    }

    /// Keeps news for whoever looks next, if it may wait.
    pub(crate) fn leave_word(&self, news: News<K>) -> Kept<K> {
        let mut intake = self.intake();
        let kept = intake.keep(news);
        if !matches!(kept, Kept::Refused(_)) {
            self.intake.any.store(true, Ordering::Release);
        }
        let spent = intake.spent();
        drop(intake);
        drop(spent);
        kept
    }

    fn intake(&self) -> MutexGuard<'_, Intake<K>> {
        self.intake.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key from this thread's tray.
    pub(crate) fn begin(&self) -> Option<Begun<K>> {
        let seat = seat();
        let mut tray = self.tray(seat);
        if tray.is_empty() {
            return None;
        }
        let at = self.now();
        let handed = tray.begin(at)?;
        Some(Begun {
            handed,
            at,
            tray: Some(seat),
        })
    }

    /// Fills this thread's tray, if it is empty and there is plenty. The tray, if something lies on it.
    pub(crate) fn lay_out(&self, inner: &mut Inner<K>, now: Moment) -> Option<usize> {
        if !inner.has_plenty() {
            return None;
        }
        let seat = seat();
        let mut tray = self.tray(seat);
        if tray.is_empty() {
            let is_out = tray.fill(&mut inner.state, now);
            inner.out.set(seat, is_out);
            inner.filled[seat] = now;
        }
        (!tray.is_empty()).then_some(seat)
    }

    /// Notes on its tray that a key was done; false if the state has to be told at once.
    pub(crate) fn note_done(&self, tray: usize, id: u32) -> bool {
        let timed = self.timed.load(Ordering::Relaxed);
        let ended = timed.then(|| self.now());
        self.tray(tray).note_done(id, ended)
    }

    /// Tells the state what was begun and done from trays.
    pub(crate) fn hear_of_begun(&self, inner: &mut Inner<K>) {
        let out = inner.out;
        self.gather(inner, out, Recall::None);
    }

    /// Tells the state what was begun and done from trays, and takes keys back.
    fn gather(&self, inner: &mut Inner<K>, which: Out, recall: Recall) {
        for number in which {
            let mut tray = self.tray(number);
            tray.hand_in(&mut inner.notes);
            let back = match recall {
                Recall::None => false,
                Recall::Stale(now) => tray.is_stale(now),
                Recall::All => true,
            };
            if back {
                tray.give_back(&mut inner.given_back);
            }
            inner.out.set(number, !tray.is_empty());
            drop(tray);
            inner.notes.tell(&mut inner.state, inner.latest);
            while let Some(handed) = inner.given_back.pop_back() {
                inner.state.unlay(&handed);
            }
        }
    }

    fn tray(&self, number: usize) -> MutexGuard<'_, Tray<K>> {
        self.trays[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, if it matters to the state; otherwise an earlier one.
    ///
    /// Reading the clock takes as long as adding a key.
    pub(crate) fn time(&self, inner: &mut Inner<K>) -> Moment {
        let read = inner.state.is_timed().then(|| self.now());
        inner.time(read)
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::at(self.begun.elapsed())
    }

    pub(crate) fn time_of(&self, moment: Moment) -> Instant {
        // A moment too far away for the clock's type is not awaited in earnest either.
        let far = Duration::from_secs(365 * 24 * 3600);
        self.begun
            .checked_add(moment.elapsed())
            .unwrap_or_else(|| Instant::now() + far)
    }
}

impl<K: Clone + Eq + Hash + Send> Observed for Shared<K> {
    fn snapshot(&self) -> Snapshot {
        let now = self.now();
        self.lock().state.snapshot(now)
    }
}

#[cfg(test)]
mod tests;
