//! A list that is being read, aside from what the store shows.

use std::sync::Arc;

use skopos_object::{Object, ObjectKey};

use super::{body::Body, table::Table};

/// What a list has so far, compared with what the store shows: of unchanged objects only a mark is kept, so
/// that a relist takes no second copy.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) part: u16,
    /// One bit for each place in the store's table whose object is in the list as it is.
    unchanged: Vec<u64>,
    /// The objects that are new or changed.
    pub(crate) fresh: Table,
    /// Whether what is known of an object that cannot be read is still about that object.
    keeps_unread: bool,
}

impl Staging {
    pub(crate) fn new(part: u16, shown: &Table) -> Self {
        Self {
            part,
            unchanged: Vec::new(),
            fresh: shown.like(),
            keeps_unread: true,
        }
    }

    /// A list of a source that lost its data: nothing in it is what was known under that name, and versions known
    /// would hide what comes.
    pub(crate) fn of_other_history(part: u16, shown: &Table) -> Self {
        Self {
            keeps_unread: false,
            ..Self::new(part, shown)
        }
    }

    /// Takes an object of the list.
    pub(crate) fn add(&mut self, object: Object, shown: &Table) {
        let hasher = shown.hasher().clone();
        let object = Arc::new(object);
        let key = hasher.key_of(&object);
        let (known, earlier) = (shown.find(&key), self.fresh.find(&key));
        let is_known = |place: u32| {
            let entry = shown.at(place);
            entry.is_some_and(|entry| entry.body.is_version_of(&object, &hasher))
        };
        let unchanged = known.is_some_and(is_known);
        if let Some(place) = known {
            self.mark(place, unchanged);
        }
        let body = Body::Plain(object.clone());
        match (unchanged, earlier) {
            (true, None) => {}
            (true, Some(earlier)) => {
                self.fresh.remove(earlier);
            }
            (false, None) => {
                self.fresh.insert(&key, self.part, body);
            }
            (false, Some(earlier)) => self.fresh.replace(earlier, &key, self.part, body),
        }
    }

    /// Takes an object out again that went while the list was read.
    pub(crate) fn remove(&mut self, object: &ObjectKey, shown: &Table) {
        let hasher = shown.hasher().clone();
        let key = hasher.key(&object.namespace, &object.name);
        if let Some(place) = self.fresh.find(&key) {
            self.fresh.remove(place);
        }
        if let Some(place) = shown.find(&key) {
            self.mark(place, false);
        }
    }

    /// An object is in the list but cannot be read: what is known of it stays.
    pub(crate) fn keep(&mut self, object: &ObjectKey, shown: &Table) {
        if !self.keeps_unread {
            return;
        }
        let hasher = shown.hasher().clone();
        let key = hasher.key(&object.namespace, &object.name);
        if let (Some(place), None) = (shown.find(&key), self.fresh.find(&key)) {
            self.mark(place, true);
        }
    }

    /// The places in the store's table whose objects are not in the list.
    pub(crate) fn gone(&self, shown: &Table) -> impl Iterator<Item = u32> {
        let ours = shown.iter().filter(|(_, entry)| entry.part == self.part);
        let gone = ours.filter(|(place, entry)| {
            let in_list = self.is_unchanged(*place) || {
                let object = entry.body.object();
                self.fresh.find(&shown.hasher().key_of(&object)).is_some()
            };
            !in_list
        });
        gone.map(|(place, _)| place)
    }

    fn is_unchanged(&self, place: u32) -> bool {
        let word = self
            .unchanged
            .get(place as usize / 64)
            .copied()
            .unwrap_or_default();
        word & (1 << (place % 64)) != 0
    }

    fn mark(&mut self, place: u32, unchanged: bool) {
        let word = place as usize / 64;
        if word >= self.unchanged.len() {
            self.unchanged.resize(word + 1, 0);
        }
        let bit = 1 << (place % 64);
        if unchanged {
            self.unchanged[word] |= bit;
        } else {
            self.unchanged[word] &= !bit;
        }
    }
}
