//! The queue as a state machine: no clock, no runtime; chance comes from a seed.
//!
//! ```text
//!            add            take             done
//!   (nothing) ──► Ready ───────────► Running ─────► Resting ── add ──► as if there had been nothing
//!      │            ▲                   │ │
//!      │ later      │ due               │ │ failed for good, or too often
//!      └────────► Waiting ◄─────────────┘ └────────► Dead ── add, put back ──► Waiting, Ready
//!                           failed, requeue after, put off
//! ```
//!
//! [`State::settle`] is the one place that decides where a key goes that is neither running nor dead.

mod entry;
mod failure;
mod hand_out;
mod limiter;
mod ready;
mod rest;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashTable;
use slab::Slab;

pub use self::failure::DeadLetter;
pub(crate) use self::stats::{BOUNDS, Histogram, Snapshot, Waits};

use self::entry::{Entry, Phase};
use self::limiter::Limiter;
use self::ready::{Place, Ready, Turn};
use self::rest::MAX_RESTING;
use self::stats::Stats;
use crate::config::{AddOptions, Config, Leftovers, Priority};
use crate::list::List;
use crate::moment::Moment;
use crate::work::Outcome;

/// All keys of one queue.
#[derive(Debug)]
pub(crate) struct State<K> {
    config: Config<K>,
    entries: Slab<Entry<K>>,
    /// Slots of `entries` by the hash of their key.
    index: HashTable<u32>,
    ready: Ready,
    /// The waiting keys, the earliest first.
    timers: BTreeSet<(Moment, u32)>,
    running: List,
    n_running: usize,
    /// Keys on workers' trays, begun or not.
    n_laid_out: usize,
    /// Empty; kept for its memory.
    turns: Vec<Turn>,
    dead: List,
    n_dead: usize,
    /// The one that rests longest first.
    resting: List,
    n_resting: usize,
    max_resting: usize,
    /// Entries that have failed and not succeeded since.
    n_failing: usize,
    limiter: Option<Limiter>,
    random: fastrand::Rng,
    closed: Option<Leftovers>,
    stats: Stats,
}

/// Answer to a worker that asks for a key.
#[derive(Debug)]
pub(crate) enum Taken<K> {
    Key(Handed<K>),
    /// Nothing now; look again at this time, if there is one.
    Nothing(Option<Moment>),
    /// Nothing any more.
    Closed,
}

/// What an add came to.
#[derive(Debug)]
pub(crate) enum Added<K> {
    /// The key is kept.
    New,
    /// An equal key was here already; this one is of no more use.
    Known(K),
    /// The queue takes no more keys.
    Refused,
}

/// A key that was handed out.
#[derive(Debug)]
pub(crate) struct Handed<K> {
    pub(crate) id: u32,
    pub(crate) key: K,
    pub(crate) priority: Priority,
    pub(crate) failed_attempts: u32,
    /// Since when it was ready; only known when the times are kept.
    pub(crate) since: Option<Moment>,
    /// What its turn changed, for [`State::unlay`].
    passed_over: u32,
}

impl<K: Clone + Eq> State<K> {
    pub(crate) fn new(config: Config<K>) -> Self {
        Self {
            entries: Slab::new(),
            index: HashTable::new(),
            ready: Ready::new(config.patience),
            timers: BTreeSet::new(),
            running: List::default(),
            n_running: 0,
            n_laid_out: 0,
            turns: Vec::new(),
            dead: List::default(),
            n_dead: 0,
            resting: List::default(),
            n_resting: 0,
            max_resting: MAX_RESTING,
            n_failing: 0,
            limiter: config.rate_limit.map(Limiter::new),
            random: config
                .seed
                .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
            closed: None,
            stats: Stats::default(),
            config,
        }
    }

    /// Asks for a run of `key`.
    pub(crate) fn add(&mut self, key: K, hash: u64, options: AddOptions, now: Moment) -> Added<K> {
        if self.closed.is_some() {
            self.stats.refused += 1;
            return Added::Refused;
        }
        let known = self.find(hash, &key);
        let (id, added) = match known {
            Some(id) => (id, Added::Known(key)),
            None => (self.insert(key, hash, options.priority), Added::New),
        };
        let entry = &self.entries[id as usize];
        let phase = entry.phase();
        match phase {
            Phase::Ready(_) => {
                self.stats.coalesced += 1;
                self.raise(id, options.priority);
                return added;
            }
            Phase::LaidOut(_) => {
                self.stats.coalesced += 1;
                self.raise_laid_out(id, options.priority);
                return added;
            }
            Phase::Running(_) | Phase::Waiting(_) if entry.wish().is_some() => {
                self.stats.coalesced += 1;
            }
            _ => self.stats.adds += 1,
        }
        self.wish(id, options, now);
        match phase {
            Phase::Running(_) => {}
            Phase::Dead => self.revive(id, now),
            Phase::Resting => {
                self.rouse(id);
                self.settle(id, now);
            }
            _ => self.settle(id, now),
        }
        added
    }

    /// The next key for a worker.
    pub(crate) fn take(&mut self, now: Moment) -> Taken<K> {
        self.tick(now);
        if self.ready.is_empty() {
            return match self.closed {
                // A running key may become ready once more.
                Some(_) if self.n_running + self.n_laid_out == 0 => Taken::Closed,
                Some(Leftovers::LetGo) => Taken::Closed,
                _ => Taken::Nothing(self.next_timer()),
            };
        }
        if let Some(limiter) = &mut self.limiter {
            let next = limiter.next(now);
            if next > now {
                return Taken::Nothing(Some(next));
            }
            limiter.spend();
        }
        let turn = self
            .ready
            .pop(&mut self.entries)
            .expect("not empty: checked above");
        let handed = self.handed(turn);
        self.begin(handed.id, now);
        Taken::Key(handed)
    }

    /// A worker is through with the key in slot `id`.
    pub(crate) fn finish(&mut self, id: u32, outcome: Outcome, now: Moment) {
        self.finish_earlier(id, outcome, now, now);
    }

    /// As [`finish`](Self::finish), of a worker that was through with it at `ended`.
    pub(crate) fn finish_earlier(&mut self, id: u32, outcome: Outcome, ended: Moment, now: Moment) {
        self.running.remove(&mut self.entries, id);
        self.n_running -= 1;
        let entry = &mut self.entries[id as usize];
        let is_begun = !matches!(outcome, Outcome::PutOff(_));
        if let (Some(times), Phase::Running(since)) = (&mut self.stats.times, entry.phase())
            && is_begun
        {
            times.worked.record(ended.since(since));
        }
        match outcome {
            Outcome::Done => return self.succeed(id, now),
            Outcome::RequeueAfter(delay) => {
                let again = entry.place().priority.min(Priority::Normal);
                // One that always asks for another run at once would keep a closed queue from draining.
                if self.closed.is_none() {
                    entry.want(now.after(delay), again);
                }
                self.absolve(id);
            }
            Outcome::PutOff(delay) => self.put_off(id, delay, now),
            Outcome::Failed(error) => {
                let exhausted = self.fail(id, error, now);
                if exhausted && self.give_up(id, now) {
                    return;
                }
                self.stats.retries += 1;
            }
            Outcome::Terminal(error) => {
                self.fail(id, error, now);
                if self.give_up(id, now) {
                    return;
                }
            }
        }
        self.settle(id, now);
    }

    /// A key that was done rests, unless it was added once more.
    fn succeed(&mut self, id: u32, now: Moment) {
        let entry = &mut self.entries[id as usize];
        if entry.failures.is_none() && entry.wish().is_none() {
            self.rest(id);
            return;
        }
        self.absolve(id);
        self.settle(id, now);
    }

    /// Whether there is a rate limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.limiter.is_some()
    }

    /// Whether the time plays a part in what comes next. If not, any time will do that is not before the last.
    pub(crate) fn is_timed(&self) -> bool {
        !self.timers.is_empty()
            || self.n_failing > 0
            || self.stats.times.is_some()
            || self.limiter.is_some()
            || self.config.debounce.is_some()
    }

    /// Makes ready what has become due.
    pub(crate) fn tick(&mut self, now: Moment) {
        while let Some((due, id)) = self.timers.first().copied()
            && due <= now
        {
            self.settle(id, now);
        }
    }

    /// When a worker should look next, if no key is added: at once if one is ready.
    pub(crate) fn next_wake(&mut self, now: Moment) -> Option<Moment> {
        if self.ready.is_empty() {
            return self.next_timer();
        }
        match &mut self.limiter {
            Some(limiter) => Some(limiter.next(now)),
            None => Some(now),
        }
    }

    /// How many keys may be handed out now, the rate limit aside.
    pub(crate) fn n_ready(&self) -> usize {
        self.ready.n_keys()
    }

    pub(crate) fn n_running(&self) -> usize {
        self.n_running
    }

    /// How many keys lie on trays, as far as is known here: some of them may have been begun.
    #[cfg(test)]
    pub(crate) fn n_laid_out(&self) -> usize {
        self.n_laid_out
    }

    pub(crate) fn n_waiting(&self) -> usize {
        self.timers.len()
    }

    /// Takes no more adds, and lets go of what will not be handed out; tells how many keys that were.
    pub(crate) fn close(&mut self, leftovers: Leftovers) -> usize {
        // Closing twice can only become stricter.
        self.closed = match self.closed {
            Some(Leftovers::LetGo) => Some(Leftovers::LetGo),
            _ => Some(leftovers),
        };
        while self.forget_resting() {}
        let mut n_gone = self.timers.len();
        for (_, id) in std::mem::take(&mut self.timers) {
            self.entries[id as usize].enter(Phase::Settling);
            self.remove(id);
        }
        if leftovers == Leftovers::LetGo {
            while let Some(turn) = self.ready.pop(&mut self.entries) {
                self.remove(turn.id);
                n_gone += 1;
            }
        }
        n_gone
    }

    /// Whether nothing runs and nothing will be handed out.
    pub(crate) fn is_drained(&self) -> bool {
        self.closed.is_some() && self.n_running + self.n_laid_out == 0 && self.ready.is_empty()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Starts to keep the times that metrics show.
    pub(crate) fn observe(&mut self, now: Moment) {
        if self.stats.times.is_some() {
            return;
        }
        self.stats.times = Some(Box::default());
        // Until now nobody may have looked at the clock when these came.
        for (_, entry) in &mut self.entries {
            match entry.phase() {
                Phase::Ready(_) => entry.enter(Phase::Ready(now)),
                Phase::Running(_) => entry.enter(Phase::Running(now)),
                _ => {}
            }
        }
    }

    pub(crate) fn count_abandoned(&mut self) {
        self.stats.abandoned += 1;
    }

    pub(crate) fn snapshot(&self, now: Moment) -> Snapshot {
        let age = |id: u32| match self.entries[id as usize].phase() {
            Phase::Ready(since) | Phase::LaidOut(since) | Phase::Running(since) => now.since(since),
            _ => Duration::ZERO,
        };
        let run_times = || self.running.items(&self.entries).map(age);
        let waits = self.ready.firsts().map(age);
        let mut stats = self.stats.clone();
        if let Some(times) = &mut stats.times {
            for (tenant, waits) in self.ready.waits().filter(|(_, waits)| waits.count > 0) {
                times.add(tenant, waits);
            }
        }
        Snapshot {
            name: self.config.name.clone(),
            stats,
            depth: Priority::ALL.map(|level| self.ready.len(level)),
            delayed: self.timers.len(),
            running: self.n_running,
            dead_letters: self.n_dead,
            tenants: self.ready.n_awake(),
            oldest: waits.max().unwrap_or_default(),
            unfinished: run_times().sum(),
            longest_running: run_times().max().unwrap_or_default(),
        }
    }

    fn next_timer(&self) -> Option<Moment> {
        self.timers.first().map(|(due, _)| *due)
    }

    fn find(&self, hash: u64, key: &K) -> Option<u32> {
        let same = |id: &u32| self.entries[*id as usize].key == *key;
        self.index.find(hash, same).copied()
    }

    fn insert(&mut self, key: K, hash: u64, priority: Priority) -> u32 {
        let tenant = self.ready.enter((self.config.tenant)(&key));
        let entries = &mut self.entries;
        let place = Place { tenant, priority };
        let id = entries.insert(Entry::new(key, hash, place));
        let id = u32::try_from(id).expect("fewer keys than 2^32");
        self.index
            .insert_unique(hash, id, |id| entries[*id as usize].hash);
        id
    }

    /// Forgets a key that is in no list and has no timer.
    fn remove(&mut self, id: u32) -> Entry<K> {
        let entry = self.entries.remove(id as usize);
        if let Ok(slot) = self.index.find_entry(entry.hash, |slot| *slot == id) {
            slot.remove();
        }
        let gone = self.ready.leave(entry.place().tenant);
        if let (Some((tenant, waits)), Some(times)) = (gone, &mut self.stats.times)
            && waits.count > 0
        {
            times.add(&tenant, waits);
        }
        self.n_failing -= usize::from(entry.failures.is_some());
        entry
    }

    /// Notes what an add asks for.
    fn wish(&mut self, id: u32, options: AddOptions, now: Moment) {
        let entry = &mut self.entries[id as usize];
        match (options.after, self.config.debounce) {
            (Some(delay), _) => entry.want(now.after(delay), options.priority),
            (None, Some(debounce)) => entry.want_when_quiet(debounce, now, options.priority),
            (None, None) => entry.want(now, options.priority),
        }
    }

    /// Decides where a key goes: ready, waiting, or away.
    fn settle(&mut self, id: u32, now: Moment) {
        let entry = &mut self.entries[id as usize];
        if let Phase::Waiting(due) = entry.phase() {
            self.timers.remove(&(due, id));
            entry.enter(Phase::Settling);
        }
        let due = match &entry.failures {
            Some(failures) => Some(failures.due(entry.wish(), self.config.change_spacing)),
            None => entry.wish(),
        };
        match due {
            Some(due) if due <= now => self.make_ready(id, now),
            Some(due) if self.closed.is_none() => {
                entry.enter(Phase::Waiting(due));
                self.timers.insert((due, id));
            }
            _ => {
                self.remove(id);
            }
        }
    }

    fn make_ready(&mut self, id: u32, now: Moment) {
        let entry = &mut self.entries[id as usize];
        let wished = entry.take_wish();
        let retry = entry.place().priority.min(Priority::Normal);
        entry.set_priority(wished.unwrap_or(retry));
        entry.enter(Phase::Ready(now));
        let place = entry.place();
        if self.closed == Some(Leftovers::LetGo) {
            entry.enter(Phase::Settling);
            self.remove(id);
            return;
        }
        self.ready.push(&mut self.entries, id, place);
    }

    /// Moves a ready key to the end of the line of a higher priority.
    fn raise(&mut self, id: u32, priority: Priority) {
        let place = self.entries[id as usize].place();
        if priority <= place.priority {
            return;
        }
        self.ready.remove(&mut self.entries, id, place);
        let place = Place { priority, ..place };
        self.entries[id as usize].set_priority(priority);
        self.ready.push(&mut self.entries, id, place);
    }
}
