//! Keys of which nothing is wanted, kept for a while: most of them come again.
//!
//! To forget a key and to get to know it anew takes longer than to hand it out: it has to be entered in the index and
//! with its tenant, and left again.

use super::State;
use super::entry::Phase;

/// How many keys rest at most; for more the one that rests longest is forgotten.
pub(super) const MAX_RESTING: usize = 1 << 16;

impl<K: Clone + Eq> State<K> {
    /// Lets a key rest that is in no list and has no timer.
    pub(super) fn rest(&mut self, id: u32) {
        if self.closed.is_some() {
            self.remove(id);
            return;
        }
        let entry = &mut self.entries[id as usize];
        entry.enter(Phase::Resting);
        self.ready.rest(entry.place().tenant);
        self.resting.push_back(&mut self.entries, id);
        self.n_resting += 1;
        if self.n_resting > self.max_resting {
            self.forget_resting();
        }
    }

    /// A key that rests is wanted.
    pub(super) fn rouse(&mut self, id: u32) {
        self.resting.remove(&mut self.entries, id);
        self.n_resting -= 1;
        let entry = &mut self.entries[id as usize];
        entry.enter(Phase::Settling);
        self.ready.rouse(entry.place().tenant);
    }

    /// Forgets the key that rests longest; whether there was one.
    pub(super) fn forget_resting(&mut self) -> bool {
        let Some(id) = self.resting.first() else {
            return false;
        };
        self.rouse(id);
        self.remove(id);
        true
    }
}
