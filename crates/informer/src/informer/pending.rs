//! What one subscriber has not looked at yet: per object at most one entry, however much happened to it.

use std::fmt;

use hashbrown::HashTable;
use skopos_object::{Change, Op};
use tokio::time::Instant;

use super::{Notification, Origin};
use crate::store::{Body, Delta, KeyHasher};

/// Changes in the order in which their objects first changed, coalesced per object.
pub(super) struct Pending {
    hasher: KeyHasher,
    places: HashTable<u32>,
    /// A list through `next` and `prev`, so that an entry in the middle can go at once.
    entries: Vec<Option<Waiting>>,
    free: Vec<u32>,
    first: Option<u32>,
    last: Option<u32>,
    /// How many entries are of what was there when the subscriber came.
    n_initial: usize,
}

struct Waiting {
    hash: u64,
    /// What the subscriber saw last.
    seen: Option<Body>,
    /// That this went, and whether this is its last state.
    gone: Option<(Body, bool)>,
    /// What there is now.
    now: Option<Body>,
    origin: Origin,
    since: Instant,
    next: Option<u32>,
    prev: Option<u32>,
}

impl Pending {
    pub(super) fn new(hasher: KeyHasher) -> Self {
        Self {
            hasher,
            places: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            first: None,
            last: None,
            n_initial: 0,
        }
    }

    /// How many objects have something to look at.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether something is left of what was there at first.
    pub(super) fn has_initial(&self) -> bool {
        self.n_initial > 0
    }

    /// Since when the oldest change waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.first
            .and_then(|first| self.entry(first))
            .map(|entry| entry.since)
    }

    /// Adds an object that is there when the subscriber comes.
    pub(super) fn add_initial(&mut self, hash: u64, body: Body, since: Instant) {
        self.append(Waiting {
            hash,
            seen: None,
            gone: None,
            now: Some(body),
            origin: Origin::Initial,
            since,
            next: None,
            prev: None,
        });
    }

    /// Adds a change, which becomes one with what waits for the same object.
    pub(super) fn push(&mut self, delta: &Delta, origin: Origin, since: Instant) {
        let Some(Body::Plain(named)) = delta.new.as_ref().or(delta.old.as_ref()).map(Body::unpacked) else {
            return;
        };
        let key = self.hasher.key_of(&named);
        let is_key = |place: &u32| {
            let entry = self.entries[*place as usize].as_ref();
            entry.is_some_and(|entry| {
                entry.hash == key.hash && entry.any().is_some_and(|body| body.is_key(&key))
            })
        };
        match self.places.find(key.hash, is_key).copied() {
            Some(place) => self.merge(place, delta, origin),
            None => self.append(Waiting::new(key.hash, delta, origin, since)),
        }
    }

    fn merge(&mut self, place: u32, delta: &Delta, origin: Origin) {
        let Some(entry) = &mut self.entries[place as usize] else {
            return;
        };
        if entry.origin == Origin::Resync {
            entry.origin = origin;
        }
        entry.now.clone_from(&delta.new);
        if delta.op == Op::Deleted
            && let (Some(_), None, Some(last)) = (&entry.seen, &entry.gone, &delta.old)
        {
            entry.gone = Some((last.clone(), delta.is_final));
        }
        if entry.now.is_none() && entry.gone.is_none() {
            self.remove(place);
        }
    }

    /// Takes the next change.
    pub(super) fn pop(&mut self) -> Option<Notification> {
        let place = self.first?;
        let entry = self.entries[place as usize].as_mut()?;
        // An object that went and came again gives two changes; the second stays at the front.
        let gone = entry.gone.take();
        if let (Some((last, is_final)), true) = (&gone, entry.now.is_some()) {
            entry.seen = None;
            let change = Change {
                is_final: *is_final,
                ..Change::deleted(last.object())
            };
            let origin = Origin::Live;
            return Some(Notification { change, origin });
        }
        let entry = self.remove(place)?;
        let origin = entry.origin;
        let change = match (entry.seen, gone, entry.now) {
            (_, Some((last, is_final)), _) => Change {
                is_final,
                ..Change::deleted(last.into_object())
            },
            (Some(old), None, Some(new)) => Change::updated(old.into_object(), new.into_object()),
            (None, None, Some(new)) => Change::created(new.into_object()),
            (_, None, None) => return None,
        };
        Some(Notification { change, origin })
    }

    fn append(&mut self, mut entry: Waiting) {
        entry.prev = self.last;
        let hash = entry.hash;
        self.n_initial += usize::from(entry.origin == Origin::Initial);
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("there are fewer objects than places")
        });
        self.entries[place as usize] = Some(entry);
        match self.last.replace(place) {
            Some(last) => self.link(last).next = Some(place),
            None => self.first = Some(place),
        }
        let entries = &self.entries;
        let rehash = |place: &u32| entries[*place as usize].as_ref().map_or(0, |entry| entry.hash);
        self.places.insert_unique(hash, place, rehash);
    }

    fn remove(&mut self, place: u32) -> Option<Waiting> {
        let entry = self.entries[place as usize].take()?;
        match entry.prev {
            Some(prev) => self.link(prev).next = entry.next,
            None => self.first = entry.next,
        }
        match entry.next {
            Some(next) => self.link(next).prev = entry.prev,
            None => self.last = entry.prev,
        }
        if let Ok(found) = self.places.find_entry(entry.hash, |other| *other == place) {
            found.remove();
        }
        self.free.push(place);
        self.n_initial -= usize::from(entry.origin == Origin::Initial);
        if self.places.is_empty() && self.entries.len() > KEPT {
            *self = Self::new(self.hasher.clone());
        }
        Some(entry)
    }

    fn entry(&self, place: u32) -> Option<&Waiting> {
        self.entries[place as usize].as_ref()
    }

    fn link(&mut self, place: u32) -> &mut Waiting {
        self.entries[place as usize]
            .as_mut()
            .expect("neighbours in the list are there: append and remove keep this")
    }
}

/// After a burst of more than this the memory for it is given back.
const KEPT: usize = 4096;

impl Waiting {
    fn new(hash: u64, delta: &Delta, origin: Origin, since: Instant) -> Self {
        let gone = match (delta.op, &delta.old) {
            (Op::Deleted, Some(last)) => Some((last.clone(), delta.is_final)),
            _ => None,
        };
        Self {
            hash,
            seen: delta.old.clone(),
            gone,
            now: delta.new.clone(),
            origin,
            since,
            next: None,
            prev: None,
        }
    }

    fn any(&self) -> Option<&Body> {
        let gone = self.gone.as_ref().map(|(body, _)| body);
        self.now.as_ref().or(gone).or(self.seen.as_ref())
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({} objects)", self.len())
    }
}
