//! Keys laid out for the workers of one thread.
//!
//! Where many keys wait and workers are quick, they would spend most of their time meeting at the queue. So a
//! worker that looks for a key takes some more with it and leaves them on its thread's tray, where the next look
//! finds them; what was done is noted there too, and told with the next look at the queue. A tray is nobody's
//! own: who finds nothing in the queue takes back what lies on all of them, and what has lain for more than a
//! moment is taken back by anybody who looks. So workers that are slow never have more than they work on, and no
//! change waits for keys that somebody merely might begin.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::moment::Moment;
use crate::state::{Handed, State};
use crate::work::Outcome;

/// How long keys lie on a tray at most, if anybody looks: also how late workers may hear of a change.
pub(crate) const FRESH: Duration = Duration::from_micros(100);

/// How many keys are laid out at most.
const MAX_SIZE: usize = 32;

/// Of so many keys that are ready one is laid out.
pub(crate) const SHARE: usize = 64;

/// How many trays a queue has. If there are more threads, some share one.
pub(crate) const N_TRAYS: usize = 16;

/// What lies on a tray.
#[derive(Debug)]
pub(crate) struct Tray<K> {
    /// Not begun; the next first.
    keys: VecDeque<Handed<K>>,
    /// Since when they lie there.
    since: Moment,
    /// How many are laid out next time.
    size: usize,
    notes: Notes,
    /// Whether somebody will come to hear what is noted here.
    is_out: bool,
}

/// What became of keys from a tray, as far as the state has not heard of it.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Begun and not done.
    begun: Vec<(u32, Moment)>,
    done: Vec<Done>,
}

/// A key that was done.
#[derive(Debug)]
struct Done {
    id: u32,
    /// When it was begun, if the state has not heard of that either.
    begun: Option<Moment>,
    /// Where that matters.
    ended: Option<Moment>,
}

impl<K> Default for Tray<K> {
    fn default() -> Self {
        Self {
            keys: VecDeque::new(),
            since: Moment::BEGINNING,
            size: 1,
            notes: Notes::default(),
            is_out: false,
        }
    }
}

impl<K> Tray<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The next key, unless they lie there for too long: what has changed meanwhile may go first.
    pub(crate) fn begin(&mut self, now: Moment) -> Option<Handed<K>> {
        if self.is_stale(now) {
            return None;
        }
        let handed = self.keys.pop_front()?;
        self.notes.begun.push((handed.id, now));
        Some(handed)
    }

    /// Notes that a key from this tray was done; false if the state has to be told at once.
    pub(crate) fn note_done(&mut self, id: u32, ended: Option<Moment>) -> bool {
        if !self.is_out {
            return false;
        }
        let notes = &mut self.notes;
        let at = notes.begun.iter().rposition(|(other, _)| *other == id);
        let begun = at.map(|at| notes.begun.swap_remove(at).1);
        notes.done.push(Done { id, begun, ended });
        true
    }

    /// Exchanges what is noted here for empty notes.
    ///
    /// So the tray is locked for a moment only, and its worker need not wait while the state is told.
    pub(crate) fn hand_in(&mut self, empty: &mut Notes) {
        std::mem::swap(&mut self.notes, empty);
        self.is_out = !self.keys.is_empty();
    }

    /// Exchanges the keys that were not begun for an empty line.
    pub(crate) fn give_back(&mut self, empty: &mut VecDeque<Handed<K>>) {
        std::mem::swap(&mut self.keys, empty);
        self.is_out = false;
    }

    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        now.since(self.since) >= FRESH
    }
}

impl<K: Clone + Eq> Tray<K> {
    /// Lays out what workers will probably begin in a moment; whether that was anything.
    pub(crate) fn fill(&mut self, state: &mut State<K>, now: Moment) -> bool {
        self.notes.tell(state, now);
        // It was used up in time, or it was not.
        self.size = match self.is_stale(now) {
            false => (self.size * 2).min(MAX_SIZE),
            true => 1,
        };
        self.since = now;
        if self.size > 1 {
            let n = self.size.min(state.n_ready() / SHARE);
            state.lay_out(n, &mut self.keys);
        }
        self.is_out = !self.keys.is_empty();
        self.is_out
    }
}

impl Notes {
    /// Tells the state; `latest` is the time of what was noted without one.
    pub(crate) fn tell<K: Clone + Eq>(&mut self, state: &mut State<K>, latest: Moment) {
        for (id, at) in self.begun.drain(..) {
            state.begin(id, at);
        }
        state.bring_near(self.done.iter().map(|done| done.id));
        for Done { id, begun, ended } in self.done.drain(..) {
            let ended = ended.unwrap_or(latest);
            match begun {
                Some(begun) => state.begin_and_end(id, begun, ended, latest),
                None => state.finish_earlier(id, Outcome::Done, ended, latest),
            }
        }
    }
}

/// The number of this thread's tray.
pub(crate) fn seat() -> usize {
    static N_THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SEAT: Cell<Option<usize>> = const { Cell::new(None) };
    }
    SEAT.with(|seat| {
        seat.get().unwrap_or_else(|| {
            let number = N_THREADS.fetch_add(1, Ordering::Relaxed) % N_TRAYS;
            seat.set(Some(number));
            number
        })
    })
}
