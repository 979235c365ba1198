//! What one subscriber has not looked at yet: per object at most one entry, however much happened to it.

use std::fmt;

use hashbrown::HashTable;
use skopos_object::{Change, Op};
use tokio::time::Instant;

use super::{Notification, Origin};
use crate::store::{Body, Delta, Key, KeyHasher, Snapshot};

/// Changes in the order in which their objects first changed, coalesced per object.
pub(super) struct Pending {
    hasher: KeyHasher,
    places: HashTable<Place>,
    initial: Initial,
    /// A list through `next` and `prev`, so that an entry in the middle can go at once.
    entries: Vec<Option<Waiting>>,
    free: Vec<u32>,
    first: Option<u32>,
    last: Option<u32>,
    /// How many entries are of what was there when the subscriber came. Those in `initial` are not among them.
    n_initial: usize,
}

/// Where something that waits is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Initial(u32),
    Entry(u32),
}

/// What was there at first and did not change since. It comes before everything else, and is all there is to remember
/// of most objects, so that the first list of a large collection takes little memory twice.
#[derive(Default)]
struct Initial {
    bodies: Vec<Option<(u64, Body)>>,
    /// How many of them were taken or have become entries.
    n_taken: usize,
    /// All before this were taken.
    next: usize,
    since: Option<Instant>,
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
    /// It was there when the subscriber came, whatever happened to it since.
    is_initial: bool,
    since: Instant,
    next: Option<u32>,
    prev: Option<u32>,
}

impl Pending {
    pub(super) fn new(hasher: KeyHasher) -> Self {
        Self {
            hasher,
            places: HashTable::new(),
            initial: Initial::default(),
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
        self.n_initial > 0 || self.initial.len() > 0
    }

    /// Since when the oldest change waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        if self.initial.len() > 0 {
            return self.initial.since;
        }
        self.first
            .and_then(|first| self.entry(first))
            .map(|entry| entry.since)
    }

    /// Adds objects that are there all at once.
    pub(super) fn fill(&mut self, present: &Snapshot, origin: Origin, since: Instant) {
        if self.len() > 0 || origin != Origin::Initial {
            for entry in present.entries() {
                let hash = self.hasher.key_of(&entry.body.unpacked()).hash;
                self.push(&Delta::created(hash, entry.body.clone()), origin, since);
            }
            return;
        }
        let entries = present.entries();
        let mut bodies = Vec::with_capacity(present.len());
        bodies.extend(entries.map(|entry| Some((entry.hash, entry.body.clone()))));
        let hash_at = |place: &Place| match place {
            Place::Initial(place) => bodies[*place as usize].as_ref().map_or(0, |(hash, _)| *hash),
            Place::Entry(_) => 0,
        };
        self.places.reserve(bodies.len(), hash_at);
        for (place, (hash, _)) in (0u32..).zip(bodies.iter().flatten()) {
            self.places.insert_unique(*hash, Place::Initial(place), hash_at);
        }
        self.initial = Initial {
            bodies,
            n_taken: 0,
            next: 0,
            since: Some(since),
        };
    }

    /// Adds a change, which becomes one with what waits for the same object.
    pub(super) fn push(&mut self, delta: &Delta, origin: Origin, since: Instant) {
        let Some(body) = delta.new.as_ref().or(delta.old.as_ref()) else {
            return;
        };
        let named = body.unpacked();
        let key = Key::hashed(delta.hash, &named);
        let is_key = |place: &Place| {
            let found = self.at(*place);
            found.is_some_and(|(hash, body)| hash == key.hash.place && body.is_key(&key))
        };
        match self.places.find(key.hash.place, is_key).copied() {
            Some(Place::Entry(place)) => self.merge(place, delta, origin),
            Some(Place::Initial(place)) => {
                if let Some(place) = self.initial_to_entry(place) {
                    self.merge(place, delta, origin);
                }
            }
            None => {
                self.append(Waiting::new(key.hash.place, delta, origin, since));
            }
        }
    }

    /// What waits at a place: its hash and one of its states.
    fn at(&self, place: Place) -> Option<(u64, &Body)> {
        match place {
            Place::Initial(place) => {
                let (hash, body) = self.initial.bodies[place as usize].as_ref()?;
                Some((*hash, body))
            }
            Place::Entry(place) => {
                let entry = self.entry(place)?;
                Some((entry.hash, entry.any()?))
            }
        }
    }

    /// Makes an entry of an object that was there at first and changes now.
    fn initial_to_entry(&mut self, place: u32) -> Option<u32> {
        let since = self.initial.since?;
        let (hash, body) = self.take_initial(place as usize)?;
        Some(self.append(Waiting {
            hash,
            seen: None,
            gone: None,
            now: Some(body),
            origin: Origin::Initial,
            is_initial: true,
            since,
            next: None,
            prev: None,
        }))
    }

    fn take_initial(&mut self, place: usize) -> Option<(u64, Body)> {
        let (hash, body) = self.initial.bodies[place].take()?;
        self.initial.n_taken += 1;
        let here = u32::try_from(place).map(Place::Initial);
        if let Ok(found) = self.places.find_entry(hash, |other| Ok(*other) == here) {
            found.remove();
        }
        if self.initial.len() == 0 {
            self.initial = Initial::default();
        }
        Some((hash, body))
    }

    fn pop_initial(&mut self) -> Option<Notification> {
        while self.initial.next < self.initial.bodies.len() {
            self.initial.next += 1;
            if let Some((_, body)) = self.take_initial(self.initial.next - 1) {
                let change = Change::created(body.into_object());
                let origin = Origin::Initial;
                return Some(Notification { change, origin });
            }
        }
        None
    }

    fn merge(&mut self, place: u32, delta: &Delta, origin: Origin) {
        let Some(entry) = &mut self.entries[place as usize] else {
            return;
        };
        // What happened counts for more than that it was there, and that for more than being told again.
        if origin == Origin::Live || entry.origin == Origin::Resync {
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
        if let Some(initial) = self.pop_initial() {
            return Some(initial);
        }
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

    fn append(&mut self, mut entry: Waiting) -> u32 {
        entry.prev = self.last;
        let hash = entry.hash;
        self.n_initial += usize::from(entry.is_initial);
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("there are fewer objects than places")
        });
        self.entries[place as usize] = Some(entry);
        match self.last.replace(place) {
            Some(last) => self.link(last).next = Some(place),
            None => self.first = Some(place),
        }
        let (entries, initial) = (&self.entries, &self.initial.bodies);
        let rehash = |place: &Place| match place {
            Place::Initial(place) => initial[*place as usize].as_ref().map_or(0, |(hash, _)| *hash),
            Place::Entry(place) => entries[*place as usize].as_ref().map_or(0, |entry| entry.hash),
        };
        self.places.insert_unique(hash, Place::Entry(place), rehash);
        place
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
        if let Ok(found) = self
            .places
            .find_entry(entry.hash, |other| *other == Place::Entry(place))
        {
            found.remove();
        }
        self.free.push(place);
        self.n_initial -= usize::from(entry.is_initial);
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

impl Initial {
    fn len(&self) -> usize {
        self.bodies.len() - self.n_taken
    }
}

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
            is_initial: origin == Origin::Initial,
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
