//! Objects by key, in pieces that snapshots share.

use std::{fmt, sync::Arc};

use hashbrown::HashTable;
use skopos_object::Object;

use super::body::{Body, Key, KeyHasher, Packer};

/// Objects by namespace and name. The keys are those in the objects; nothing is kept twice.
#[derive(Clone)]
pub(crate) struct Table {
    hasher: KeyHasher,
    /// Where in `pieces` a key's entry stands.
    places: HashTable<u32>,
    pieces: Vec<Arc<Piece>>,
    free: Vec<u32>,
    size: usize,
    /// Only in a compressed table.
    packer: Option<Packer>,
}

/// Entries that are copied together when a snapshot still reads them.
type Piece = Vec<Option<Entry>>;

const PIECE: usize = 256;

/// Before a compressed table has so many objects they are kept as they are.
const SAMPLES: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    /// Which part of the collection it came from.
    pub(crate) part: u16,
    pub(crate) body: Body,
}

impl Table {
    pub(crate) fn new(hasher: KeyHasher, packer: Option<Packer>) -> Self {
        Self {
            hasher,
            places: HashTable::new(),
            pieces: Vec::new(),
            free: Vec::new(),
            size: 0,
            packer,
        }
    }

    /// An empty table that hashes and packs as this one does.
    pub(crate) fn like(&self) -> Self {
        Self::new(self.hasher.clone(), self.packer.clone())
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How much memory the objects take, nearly.
    pub(crate) fn size(&self) -> usize {
        let pieces = self.pieces.len() * PIECE * size_of::<Option<Entry>>();
        self.size + pieces + self.places.allocation_size()
    }

    pub(crate) fn find(&self, key: &Key<'_>) -> Option<u32> {
        let is_key = |place: &u32| {
            let entry = entry(&self.pieces, *place);
            entry.is_some_and(|entry| entry.hash == key.hash.place && entry.body.is_key(key))
        };
        self.places.find(key.hash.place, is_key).copied()
    }

    pub(crate) fn get(&self, key: &Key<'_>) -> Option<&Entry> {
        entry(&self.pieces, self.find(key)?)
    }

    pub(crate) fn at(&self, place: u32) -> Option<&Entry> {
        entry(&self.pieces, place)
    }

    /// Adds an object that is not there.
    pub(crate) fn insert(&mut self, key: &Key<'_>, part: u16, body: Body) -> u32 {
        let body = self.pack(key, body);
        self.size += body.size();
        let place = self.free.pop().unwrap_or_else(|| self.grow());
        let hash = key.hash.place;
        *self.slot(place) = Some(Entry { hash, part, body });
        let pieces = &self.pieces;
        let rehash = |place: &u32| entry(pieces, *place).map_or(0, |entry| entry.hash);
        self.places.insert_unique(hash, place, rehash);
        self.learn();
        place
    }

    /// Puts an object in the place of an older one.
    pub(crate) fn replace(&mut self, place: u32, key: &Key<'_>, part: u16, body: Body) {
        let body = self.pack(key, body);
        self.size += body.size();
        let hash = key.hash.place;
        let old = self.slot(place).replace(Entry { hash, part, body });
        self.size -= old.map_or(0, |old| old.body.size());
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<Entry> {
        let old = self.slot(place).take()?;
        self.size -= old.body.size();
        if let Ok(found) = self.places.find_entry(old.hash, |other| *other == place) {
            found.remove();
        }
        self.free.push(place);
        if self.places.is_empty() {
            *self = self.like();
        }
        Some(old)
    }

    /// All entries with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let entries = self.pieces.iter().flat_map(|piece| piece.iter());
        entries
            .enumerate()
            .filter_map(|(place, entry)| Some((u32::try_from(place).ok()?, entry.as_ref()?)))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            pieces: self.pieces.clone(),
            len: self.len(),
        }
    }

    fn pack(&self, key: &Key<'_>, body: Body) -> Body {
        match &self.packer {
            Some(packer) => packer.pack(body, key, &self.hasher),
            None => body,
        }
    }

    /// Makes the dictionary once there are objects enough, and packs those.
    fn learn(&mut self) {
        let waiting = self.packer.as_ref().is_some_and(|packer| !packer.is_ready());
        if !waiting || self.len() < SAMPLES {
            return;
        }
        let samples: Vec<_> = self.iter().map(|(place, entry)| (place, entry.clone())).collect();
        let objects: Vec<_> = samples.iter().map(|(_, entry)| entry.body.object()).collect();
        if let Some(packer) = &mut self.packer {
            packer.learn(objects.iter());
        }
        for ((place, entry), object) in samples.into_iter().zip(&objects) {
            let key = self.hasher.clone();
            self.replace(place, &key.key_of(object), entry.part, entry.body);
        }
    }

    fn grow(&mut self) -> u32 {
        let first = self.pieces.len() * PIECE;
        self.pieces.push(Arc::new(vec![None; PIECE]));
        let first = u32::try_from(first).expect("four thousand million objects do not fit in memory");
        let rest = first + 1..first + PIECE as u32;
        self.free.extend(rest.rev());
        first
    }

    fn slot(&mut self, place: u32) -> &mut Option<Entry> {
        let piece = Arc::make_mut(&mut self.pieces[place as usize / PIECE]);
        &mut piece[place as usize % PIECE]
    }
}

fn entry(pieces: &[Arc<Piece>], place: u32) -> Option<&Entry> {
    pieces.get(place as usize / PIECE)?[place as usize % PIECE].as_ref()
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} objects)", self.len())
    }
}

/// All objects of a store at one moment. Later changes do not show, and no lock is held.
///
/// It shares its memory with the store; only what changes while it lives is copied.
#[derive(Clone)]
pub struct Snapshot {
    pieces: Vec<Arc<Piece>>,
    len: usize,
}

impl Snapshot {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Object> {
        let entries = self.pieces.iter().flat_map(|piece| piece.iter().flatten());
        entries.map(|entry| entry.body.object())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.pieces.iter().flat_map(|piece| piece.iter().flatten())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} objects)", self.len)
    }
}
