//! Keys on their way to workers: at once, or by way of a tray.
//!
//! ```text
//!            lay_out            begin
//!   Ready ─────────────► LaidOut ────► Running
//!     ▲                    │
//!     └────────────────────┘ unlay
//! ```
//!
//! Whoever takes a key from a tray tells later that it has begun. Until then an add of that key is regarded as
//! one of a waiting key, so what was begun has to be told before any add that came afterwards.

use super::entry::Phase;
use super::ready::{Place, Turn};
use super::{Handed, State};
use crate::config::Priority;
use crate::intake::{News, What};
use crate::moment::Moment;

impl<K: Clone + Eq> State<K> {
    /// Takes up to `n` of the keys that come next, for workers that will begin them soon.
    ///
    /// They go around the rate limit: a queue that has one must not lay out.
    pub(crate) fn lay_out(&mut self, n: usize, tray: &mut impl Extend<Handed<K>>) {
        let mut turns = std::mem::take(&mut self.turns);
        self.ready.bring_near(&self.entries, n);
        turns.extend((0..n).map_while(|_| self.ready.pop(&mut self.entries)));
        for turn in &turns {
            let entry = &mut self.entries[turn.id as usize];
            if let Phase::Ready(since) = entry.phase() {
                entry.enter(Phase::LaidOut(since));
            }
            // Brings what the key refers to near: counting an `Arc` would wait for it.
            std::hint::black_box((self.config.tenant)(&entry.key));
        }
        self.n_laid_out += turns.len();
        tray.extend(turns.drain(..).map(|turn| self.handed(turn)));
        self.turns = turns;
    }

    /// Makes a key that was laid out and not begun the next one again. Of several, the last has to come first.
    pub(crate) fn unlay(&mut self, handed: &Handed<K>) {
        let id = handed.id;
        let entry = &mut self.entries[id as usize];
        if let Phase::LaidOut(since) = entry.phase() {
            entry.enter(Phase::Ready(since));
        }
        let place = entry.place();
        self.n_laid_out -= 1;
        let turn = Turn {
            id,
            passed_over: handed.passed_over,
        };
        let before = Place {
            priority: handed.priority,
            ..place
        };
        self.ready.undo(&mut self.entries, turn, before);
        if before != place {
            self.ready.remove(&mut self.entries, id, before);
            self.ready.push(&mut self.entries, id, place);
        }
    }

    /// A worker has begun with a key.
    pub(crate) fn begin(&mut self, id: u32, at: Moment) {
        self.count_begun(id, at);
        let entry = &mut self.entries[id as usize];
        entry.enter(Phase::Running(at));
        if let Some(failures) = &mut entry.failures {
            failures.ahead_of_retry = failures.retry_at != Moment::NEVER && at < failures.retry_at;
        }
        self.running.push_back(&mut self.entries, id);
        self.n_running += 1;
    }

    /// A worker has begun with a key that was laid out, and was done with it at `ended`.
    pub(crate) fn begin_and_end(&mut self, id: u32, begun: Moment, ended: Moment, now: Moment) {
        self.count_begun(id, begun);
        if let Some(times) = &mut self.stats.times {
            times.worked.record(ended.since(begun));
        }
        self.succeed(id, now);
    }

    /// Looks up keys that will be forgotten next.
    ///
    /// Where there are very many, each of them is somewhere else in memory. One after the other, each would be
    /// waited for; here nothing depends on what was found, and the processor reads many at once.
    pub(crate) fn bring_near(&self, ids: impl Iterator<Item = u32>) {
        for id in ids {
            let hash = self.entries[id as usize].hash;
            std::hint::black_box(self.index.find(hash, |slot| *slot == id));
        }
    }

    /// As [`bring_near`](Self::bring_near), of what will be added.
    pub(crate) fn bring_near_told<'a>(&self, news: impl Iterator<Item = &'a News<K>>)
    where
        K: 'a,
    {
        for news in news {
            if let What::Added { hash, .. } = &news.what {
                let same = |id: &u32| self.entries[*id as usize].hash == *hash;
                std::hint::black_box(self.index.find(*hash, same));
            }
        }
    }

    fn count_begun(&mut self, id: u32, at: Moment) {
        self.stats.handed_out += 1;
        let entry = &self.entries[id as usize];
        let since = match entry.phase() {
            Phase::LaidOut(since) => {
                self.n_laid_out -= 1;
                since
            }
            Phase::Ready(since) => since,
            _ => return,
        };
        if let Some(times) = &mut self.stats.times {
            let waited = at.since(since);
            times.queued.record(waited);
            if let Some(tenant) = self.ready.count_wait(entry.place().tenant, waited) {
                times.meet(tenant);
            }
        }
    }

    pub(super) fn handed(&self, turn: Turn) -> Handed<K> {
        let entry = &self.entries[turn.id as usize];
        let since = match (&self.stats.times, entry.phase()) {
            (Some(_), Phase::Ready(since) | Phase::LaidOut(since)) => Some(since),
            _ => None,
        };
        Handed {
            id: turn.id,
            key: entry.key.clone(),
            priority: entry.place().priority,
            failed_attempts: entry.failures.as_deref().map_or(0, |failures| failures.attempts),
            since,
            passed_over: turn.passed_over,
        }
    }

    /// Notes that a key on a tray is more important by now. If it is not begun there, it moves.
    pub(super) fn raise_laid_out(&mut self, id: u32, priority: Priority) {
        let entry = &mut self.entries[id as usize];
        entry.set_priority(entry.place().priority.max(priority));
    }
}
