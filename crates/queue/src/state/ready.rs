//! The keys that may be handed out now: levels of priority, in each a ring of tenants, of each a line of keys.
//!
//! Handing out one key per turn makes deficit round robin plain round robin: every key costs the same.
//! Ageing is counted in turns, not seconds. Promoting what has waited for some seconds would, when a large
//! initial list drains slowly, lift all of it above the changes that came later; a share of the turns keeps
//! both moving at any speed.

use std::hash::BuildHasher;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

use super::stats::Waits;
use crate::config::Priority;
use crate::list::{Arena, Links, List, Ring};

const LEVELS: usize = Priority::ALL.len();

/// Keys in the order they are handed out.
#[derive(Debug)]
pub(crate) struct Ready {
    levels: [Level; LEVELS],
    /// In all levels.
    n_keys: usize,
    tenants: Slab<Tenant>,
    /// Tenants that have an entry that does not rest.
    n_awake: usize,
    names: HashTable<u32>,
    hasher: DefaultHashBuilder,
    patience: u32,
}

#[derive(Debug, Default)]
struct Level {
    /// The tenants that have keys here.
    ring: Ring,
    n_keys: usize,
    /// How often this level had keys and another was served, since it was served last.
    passed_over: u32,
}

#[derive(Debug)]
struct Tenant {
    name: Box<str>,
    hash: u64,
    /// Entries of this tenant, ready or not; the tenant goes with the last of them.
    n_entries: usize,
    /// Entries of which something is wanted.
    n_awake: usize,
    lines: [List; LEVELS],
    rings: [Links; LEVELS],
    /// How long its keys waited, where that is kept.
    waits: Waits,
}

/// The tenants of one ring.
struct Circle<'a> {
    tenants: &'a mut Slab<Tenant>,
    level: usize,
}

impl Arena for Circle<'_> {
    #[inline]
    fn links(&mut self, id: u32) -> &mut Links {
        &mut self.tenants[id as usize].rings[self.level]
    }

    #[inline]
    fn neighbours(&self, id: u32) -> Links {
        self.tenants[id as usize].rings[self.level]
    }
}

/// A place in the order: whose key, and of which priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tenant: u32,
    pub(crate) priority: Priority,
}

/// A key that was taken out in its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) id: u32,
    /// How often its level had been passed over before, for [`Ready::undo`].
    pub(crate) passed_over: u32,
}

impl Ready {
    pub(crate) fn new(patience: u32) -> Self {
        Self {
            levels: Default::default(),
            n_keys: 0,
            tenants: Slab::new(),
            n_awake: 0,
            names: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            patience,
        }
    }

    /// The tenant of this name, with one entry more.
    pub(crate) fn enter(&mut self, name: &str) -> u32 {
        let hash = self.hasher.hash_one(name);
        let tenants = &mut self.tenants;
        let found = self.names.find(hash, |id| &*tenants[*id as usize].name == name);
        if let Some(&id) = found {
            tenants[id as usize].n_entries += 1;
            self.rouse(id);
            return id;
        }
        let id = tenants.insert(Tenant {
            name: name.into(),
            hash,
            n_entries: 1,
            n_awake: 1,
            lines: Default::default(),
            rings: Default::default(),
            waits: Waits::default(),
        });
        let id = u32::try_from(id).expect("fewer tenants than 2^32");
        self.names
            .insert_unique(hash, id, |id| tenants[*id as usize].hash);
        self.n_awake += 1;
        id
    }

    /// Nothing is wanted of one entry of the tenant any more.
    pub(crate) fn rest(&mut self, tenant: u32) {
        let tenant = &mut self.tenants[tenant as usize];
        tenant.n_awake -= 1;
        self.n_awake -= usize::from(tenant.n_awake == 0);
    }

    /// An entry of the tenant no longer rests.
    pub(crate) fn rouse(&mut self, tenant: u32) {
        let tenant = &mut self.tenants[tenant as usize];
        self.n_awake += usize::from(tenant.n_awake == 0);
        tenant.n_awake += 1;
    }

    /// One entry of the tenant is gone, that did not rest. With the last one goes the tenant: its name, and how long its keys waited.
    pub(crate) fn leave(&mut self, tenant: u32) -> Option<(Box<str>, Waits)> {
        self.rest(tenant);
        let entry = &mut self.tenants[tenant as usize];
        entry.n_entries -= 1;
        if entry.n_entries > 0 {
            return None;
        }
        let gone = self.tenants.remove(tenant as usize);
        if let Ok(name) = self.names.find_entry(gone.hash, |id| *id == tenant) {
            name.remove();
        }
        Some((gone.name, gone.waits))
    }

    /// Counts how long a key waited, with its tenant: to search a map by name for each key would take longer. The
    /// tenant's name, if this is the first that is counted since it came.
    pub(crate) fn count_wait(&mut self, tenant: u32, waited: Duration) -> Option<&str> {
        let tenant = &mut self.tenants[tenant as usize];
        tenant.waits.record(waited);
        (tenant.waits.count == 1).then_some(&*tenant.name)
    }

    /// How long the keys of the tenants that are here waited since they came.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (&str, Waits)> {
        self.tenants
            .iter()
            .map(|(_, tenant)| (&*tenant.name, tenant.waits))
    }

    /// How many tenants have entries of which something is wanted.
    pub(crate) fn n_awake(&self) -> usize {
        self.n_awake
    }

    pub(crate) fn len(&self, priority: Priority) -> usize {
        self.levels[priority.index()].n_keys
    }

    pub(crate) fn n_keys(&self) -> usize {
        self.n_keys
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n_keys == 0
    }

    /// The first key of every line: the longest waiting of each.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = u32> {
        let lines = self.tenants.iter().flat_map(|(_, tenant)| &tenant.lines);
        lines.filter_map(List::first)
    }

    /// Puts a key at the end of its line.
    pub(crate) fn push(&mut self, entries: &mut impl Arena, id: u32, place: Place) {
        let at = place.priority.index();
        let level = &mut self.levels[at];
        if level.n_keys == 0 {
            level.passed_over = 0;
        }
        level.n_keys += 1;
        self.n_keys += 1;
        let line = &mut self.tenants[place.tenant as usize].lines[at];
        let was_empty = line.is_empty();
        line.push_back(entries, id);
        if was_empty {
            let mut circle = Circle {
                tenants: &mut self.tenants,
                level: at,
            };
            level.ring.push_back(&mut circle, place.tenant);
        }
    }

    /// Takes a key out of its line, wherever in it.
    pub(crate) fn remove(&mut self, entries: &mut impl Arena, id: u32, place: Place) {
        let at = place.priority.index();
        let level = &mut self.levels[at];
        level.n_keys -= 1;
        self.n_keys -= 1;
        let line = &mut self.tenants[place.tenant as usize].lines[at];
        line.remove(entries, id);
        if line.is_empty() {
            let mut circle = Circle {
                tenants: &mut self.tenants,
                level: at,
            };
            level.ring.remove(&mut circle, place.tenant);
        }
    }

    /// Takes the next key.
    pub(crate) fn pop(&mut self, entries: &mut impl Arena) -> Option<Turn> {
        let at = self.next_level()?;
        let passed_over = std::mem::take(&mut self.levels[at].passed_over);
        if self.levels[at].n_keys < self.n_keys {
            self.pass_over_others(at);
        }
        let level = &mut self.levels[at];
        let tenant = level.ring.next()?;
        let line = &mut self.tenants[tenant as usize].lines[at];
        let id = line.pop_front(entries)?;
        level.n_keys -= 1;
        self.n_keys -= 1;
        let more = !line.is_empty();
        let mut circle = Circle {
            tenants: &mut self.tenants,
            level: at,
        };
        if more {
            level.ring.rotate(&circle);
        } else {
            level.ring.remove(&mut circle, tenant);
        }
        Some(Turn { id, passed_over })
    }

    /// Looks at what the next `n` turns will touch.
    ///
    /// Where very many keys wait, each is somewhere else in memory. A turn would wait for its key; here nothing
    /// depends on what was found, and the processor reads many at once.
    pub(crate) fn bring_near(&mut self, entries: &impl Arena, n: usize) {
        for (at, level) in self.levels.iter().enumerate() {
            let circle = Circle {
                tenants: &mut self.tenants,
                level: at,
            };
            let mut ring = level.ring;
            for _ in 0..n.min(level.n_keys) {
                let Some(tenant) = ring.next() else {
                    break;
                };
                if let Some(id) = circle.tenants[tenant as usize].lines[at].second(entries) {
                    std::hint::black_box(entries.neighbours(id));
                }
                ring.rotate(&circle);
            }
        }
    }

    fn pass_over_others(&mut self, served: usize) {
        for (at, level) in self.levels.iter_mut().enumerate() {
            if at != served && level.n_keys > 0 {
                level.passed_over = level.passed_over.saturating_add(1);
            }
        }
    }

    /// Makes a key that was taken out the next one again, as if nobody had had this turn.
    ///
    /// Of several that were taken, the last has to come first.
    pub(crate) fn undo(&mut self, entries: &mut impl Arena, turn: Turn, place: Place) {
        let at = place.priority.index();
        for (other, level) in self.levels.iter_mut().enumerate() {
            if other == at {
                level.passed_over = level.passed_over.max(turn.passed_over);
            } else {
                level.passed_over = level.passed_over.saturating_sub(1);
            }
        }
        let level = &mut self.levels[at];
        level.n_keys += 1;
        self.n_keys += 1;
        let line = &mut self.tenants[place.tenant as usize].lines[at];
        let was_empty = line.is_empty();
        line.push_front(entries, turn.id);
        let mut circle = Circle {
            tenants: &mut self.tenants,
            level: at,
        };
        if !was_empty {
            level.ring.remove(&mut circle, place.tenant);
        }
        level.ring.push_front(&mut circle, place.tenant);
    }

    /// The highest level with keys, unless a lower one has been passed over too often.
    fn next_level(&self) -> Option<usize> {
        let waiting = |at: &usize| self.levels[*at].n_keys > 0;
        let highest = (0..LEVELS).rev().find(waiting)?;
        let impatient = (0..highest).find(|at| waiting(at) && self.levels[*at].passed_over >= self.patience);
        Some(impatient.unwrap_or(highest))
    }
}
