//! Which objects were seen to go and still await what is to be done then.
//!
//! That the cache does not show an object does not mean that it went: it may be in no selection of ours, or not be there
//! yet, or never have been.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::{HashMap, HashSet};
use skopos_object::ObjectKey;

/// The objects that went. Those of which the queue knows nothing any more are forgotten, so it bounds their number.
#[derive(Debug, Default)]
pub(super) struct Departed {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    n_departures: u64,
    by_key: HashMap<ObjectKey, Departure>,
    n_given_up: usize,
}

/// That an object went, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// Tells it from later ones of the same name.
    number: u64,
    /// It is a dead letter, or was one that somebody discarded.
    is_given_up: bool,
}

impl Departed {
    /// An object was seen to go.
    pub(super) fn note(&self, key: &ObjectKey) {
        let mut state = self.lock();
        state.forget(key);
        state.n_departures += 1;
        let departure = Departure {
            number: state.n_departures,
            is_given_up: false,
        };
        state.by_key.insert(key.clone(), departure);
    }

    /// An object is there, perhaps again.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock().forget(key);
    }

    /// That an object of this name went, if it did.
    pub(super) fn of(&self, key: &ObjectKey) -> Option<Departure> {
        self.lock().by_key.get(key).copied()
    }

    /// All was done that is to be done because of it.
    pub(super) fn settle(&self, key: &ObjectKey, departure: Departure) {
        let mut state = self.lock();
        if state.is_last(key, departure) {
            state.forget(key);
        }
    }

    /// Nothing more is done because of it unless somebody asks for it. `dead_letters` are those that still can be asked
    /// for; looked at if there are more than `max`.
    pub(super) fn give_up(
        &self,
        key: &ObjectKey,
        departure: Departure,
        max: usize,
        dead_letters: impl FnOnce() -> HashSet<ObjectKey>,
    ) {
        let mut state = self.lock();
        if !state.is_last(key, departure) {
            return;
        }
        if state.n_given_up >= max {
            state.keep_given_up(&dead_letters());
        }
        state.set_given_up(key, true);
    }

    /// Something is done about it once more.
    pub(super) fn take_up(&self, key: &ObjectKey) {
        self.lock().set_given_up(key, false);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, key: &ObjectKey) {
        let forgotten = self.by_key.remove(key);
        self.n_given_up -= usize::from(forgotten.is_some_and(|departure| departure.is_given_up));
    }

    fn is_last(&self, key: &ObjectKey, departure: Departure) -> bool {
        let last = self.by_key.get(key);
        last.is_some_and(|last| last.number == departure.number)
    }

    fn set_given_up(&mut self, key: &ObjectKey, is_given_up: bool) {
        if let Some(departure) = self.by_key.get_mut(key)
            && departure.is_given_up != is_given_up
        {
            departure.is_given_up = is_given_up;
            match is_given_up {
                true => self.n_given_up += 1,
                false => self.n_given_up -= 1,
            }
        }
    }

    /// Forgets those that were given up, and discarded since.
    fn keep_given_up(&mut self, dead_letters: &HashSet<ObjectKey>) {
        self.by_key
            .retain(|key, departure| !departure.is_given_up || dead_letters.contains(key));
        let given_up = self.by_key.values().filter(|departure| departure.is_given_up);
        self.n_given_up = given_up.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    fn gone(departed: &Departed, name: &str) -> Departure {
        departed.note(&key(name));
        departed.of(&key(name)).unwrap()
    }

    #[test]
    fn one_that_went_again_is_not_settled_with_the_one_before() {
        let departed = Departed::default();
        let first = gone(&departed, "a");
        let second = gone(&departed, "a");
        departed.settle(&key("a"), first);
        assert_eq!(departed.of(&key("a")), Some(second));
        departed.settle(&key("a"), second);
        assert_eq!(departed.of(&key("a")), None);
    }

    #[test]
    fn those_given_up_are_kept_as_long_as_their_dead_letters() {
        let departed = Departed::default();
        let give_up = |name: &str, dead_letters: &[&str]| {
            let departure = gone(&departed, name);
            let dead_letters = || dead_letters.iter().map(|name| key(name)).collect();
            departed.give_up(&key(name), departure, 2, dead_letters);
        };
        give_up("kept", &[]);
        give_up("discarded", &[]);
        give_up("last", &["kept"]);
        let known = ["kept", "discarded", "last"].map(|name| departed.of(&key(name)).is_some());
        assert_eq!(known, [true, false, true]);
        departed.take_up(&key("kept"));
        assert_eq!(departed.lock().n_given_up, 1);
        departed.forget(&key("last"));
        assert_eq!(departed.lock().n_given_up, 0);
    }
}
