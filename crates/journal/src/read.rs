//! How the journal on disk is read.

use std::{io, sync::Arc};

use futures_core::future::BoxFuture;
use skopos_object::ObjectKey;
use tokio::sync::watch;

use crate::{
    Damage, Entry, Hole, Journal, Log, ReadError, Seq, Wanted,
    bytes::{In, Malformed},
    existing::current,
    journal::Shared,
    record::{Bodies, Meta, RecordKind, Unpacked, peek},
    scan::Item,
    segment::{Location, Places, Segment, key_hash},
    sidecar,
    state::{About, State},
};

/// After looking at so many changes a read answers with what it has, so that others get their turn.
const MOST_LOOKED_AT: usize = 20_000;
/// The same after so many bytes of states, so that few large objects do not take the memory of many small ones.
const MOST_BYTES: usize = 8 << 20;

impl Log for Journal {
    fn first(&self) -> Seq {
        self.shared.read().first()
    }

    fn head(&self) -> Seq {
        self.shared.read().head
    }

    fn advanced(&self) -> watch::Receiver<Seq> {
        self.shared.advanced.subscribe()
    }

    fn read<'a>(
        &'a self,
        after: Seq,
        wanted: &'a Wanted,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, Seq), ReadError>> {
        let wanted = wanted.clone();
        self.blocking(move |shared| read(shared, after, &wanted, limit))
    }

    fn get(&self, seq: Seq) -> BoxFuture<'_, Result<Option<Entry>, ReadError>> {
        self.blocking(move |shared| {
            let before = Seq(seq.0.saturating_sub(1));
            if seq.0 == 0 || seq < shared.read().first() {
                return Ok(None);
            }
            let (found, _) = read(shared, before, &Wanted::default(), 1)?;
            Ok(found.into_iter().find(|entry| entry.seq == seq))
        })
    }

    fn current<'a>(
        &'a self,
        wanted: &'a Wanted,
        after: Option<&'a ObjectKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Entry>, ReadError>> {
        let (wanted, after) = (wanted.clone(), after.cloned());
        self.blocking(move |shared| current(shared, &wanted, after.as_ref(), limit))
    }

    fn holes(&self) -> Vec<Hole> {
        self.shared.read().holes.iter().cloned().collect()
    }

    fn hold(&self, name: &str, seq: Option<Seq>) {
        let mut holds = self
            .shared
            .holds
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match seq {
            Some(seq) => holds.insert(name.to_owned(), seq),
            None => holds.remove(name),
        };
    }
}

impl Journal {
    /// Reads on a thread that may wait for the disk.
    fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || read(&shared)).await;
            done.unwrap_or_else(|error| Err(ReadError::Storage(error.into())))
        })
    }
}

/// What is wanted, with collections by number.
struct Filter<'a> {
    wanted: &'a Wanted,
    /// Whether a collection is wanted, and what it is.
    collections: Vec<Option<About>>,
    /// The objects by hash, if only few objects can be meant.
    hashes: Option<Vec<u64>>,
}

impl<'a> Filter<'a> {
    fn new(state: &State, wanted: &'a Wanted) -> Self {
        let collections: Vec<Option<About>> = state
            .collections
            .iter()
            .map(|one| is_wanted(&one.about, wanted).then(|| one.about.clone()))
            .collect();
        // Without a namespace the name may be that of a cluster-scoped object, or of one in any namespace.
        let key = wanted.name.as_ref().zip(wanted.namespace.as_ref());
        let hashes = key.map(|(name, namespace)| {
            let key = ObjectKey::namespaced(namespace.as_str(), name.as_str());
            let numbers = (0..).zip(&collections).filter(|(_, about)| about.is_some());
            numbers.map(|(number, _)| key_hash(number, &key)).collect()
        });
        Self {
            wanted,
            collections,
            hashes,
        }
    }

    fn takes(&self, meta: &Meta) -> bool {
        let wanted = self.wanted;
        self.about(meta).is_some()
            && wanted
                .namespace
                .as_ref()
                .is_none_or(|one| *one == meta.key.namespace)
            && wanted.name.as_ref().is_none_or(|one| *one == meta.key.name)
            && (wanted.ops.is_empty() || wanted.ops.contains(&meta.op))
            && wanted.since.is_none_or(|since| meta.at >= since)
            && wanted.until.is_none_or(|until| meta.at < until)
    }

    fn about(&self, meta: &Meta) -> Option<&About> {
        self.collections.get(meta.collection as usize)?.as_ref()
    }
}

pub(crate) fn is_wanted(about: &About, wanted: &Wanted) -> bool {
    let is_kind = |(group, kind): &(String, String)| {
        *group == about.kind.group && (*kind == about.kind.kind || *kind == about.plural)
    };
    wanted.kind.as_ref().is_none_or(is_kind)
        && wanted
            .source
            .as_ref()
            .is_none_or(|source| *source == about.source)
}

fn read(shared: &Shared, after: Seq, wanted: &Wanted, limit: usize) -> Result<(Vec<Entry>, Seq), ReadError> {
    let (filter, segments, head) = {
        let state = shared.read();
        if after.0 + 1 < state.first().0 && after.0 > 0 {
            return Err(ReadError::Removed(Seq(state.first().0 - 1)));
        }
        (
            Filter::new(&state, wanted),
            state.segments_from(Seq(after.0 + 1)),
            state.head,
        )
    };
    let mut reading = Reading {
        shared,
        filter,
        found: Vec::new(),
        looked: after,
        n_looked: 0,
        n_bytes: 0,
        limit: limit.max(1),
    };
    for segment in &segments {
        if !reading.read_segment(segment)? {
            return Ok((reading.found, reading.looked));
        }
    }
    Ok((reading.found, head.max(after)))
}

struct Reading<'a> {
    shared: &'a Shared,
    filter: Filter<'a>,
    found: Vec<Entry>,
    /// Everything up to this was looked at.
    looked: Seq,
    n_looked: usize,
    /// Of the states that were found.
    n_bytes: usize,
    limit: usize,
}

impl Reading<'_> {
    /// Reads what is wanted of a segment, and says whether to go on.
    fn read_segment(&mut self, segment: &Arc<Segment>) -> Result<bool, ReadError> {
        let wanted = self.filter.wanted;
        let last = segment.last();
        let is_too_old = wanted
            .since
            .is_some_and(|since| segment.newest().is_some_and(|newest| newest < since));
        if is_too_old || self.filter.collections.iter().all(Option::is_none) {
            self.looked = last;
            return Ok(true);
        }
        if let Some(hashes) = self.filter.hashes.clone()
            && let Some(offsets) = self.offsets(segment, &hashes)?
        {
            return self.read_places(segment, offsets);
        }
        let mut offset = segment.offset_before(Seq(self.looked.0 + 1));
        if let Some(since) = wanted.since {
            offset = offset.max(segment.offset_before_time(since));
        }
        let mut scan = segment.scan(offset);
        loop {
            let item = scan.next().map_err(|error| ReadError::Storage(error.into()))?;
            let (offset, what) = match item {
                None => {
                    self.looked = last;
                    return Ok(true);
                }
                Some(Item::Damage { offset, what }) => (offset, what),
                Some(Item::Record { head, .. }) if head.kind != RecordKind::Entry => continue,
                Some(Item::Record { offset, body, .. }) => match self.look_at(body) {
                    Ok(true) => continue,
                    Ok(false) => return Ok(false),
                    Err(what) => (offset, what),
                },
            };
            if !self.pass_over(segment, offset, &what, scan.offset())? {
                return Ok(false);
            }
        }
    }

    /// Passes over damage that ends at `end`, and says whether to go on. Whoever reads is told, after what was found before
    /// it.
    fn pass_over(
        &mut self,
        segment: &Segment,
        offset: u64,
        what: &Malformed,
        end: u64,
    ) -> Result<bool, ReadError> {
        self.shared.note_damage(Damage::new(segment.id, offset, what));
        let to = number_after(segment, end).unwrap_or(Seq(segment.last().0 + 1));
        if to.0 <= self.looked.0 + 1 {
            return Ok(true);
        }
        if !self.found.is_empty() {
            return Ok(false);
        }
        Err(ReadError::Damaged {
            seq: Seq(self.looked.0 + 1),
            to: Seq(to.0 - 1),
            what: format!("{what} (in {} at {offset})", segment.id.name()),
        })
    }

    /// Looks at one change, and says whether to go on.
    fn look_at(&mut self, body: &[u8]) -> Result<bool, Malformed> {
        let (seq, at) = peek(body)?;
        if seq <= self.looked {
            return Ok(true);
        }
        if self.filter.wanted.until.is_some_and(|until| at >= until) {
            return Ok(false);
        }
        let mut input = In(body);
        let meta = Meta::read(&mut input)?;
        if self.filter.takes(&meta) {
            if self.found.len() == self.limit {
                return Ok(false);
            }
            let about = self.filter.about(&meta).cloned().unwrap_or_default();
            let found = entry(meta, &about, input)?;
            self.n_bytes += found.n_bytes();
            self.found.push(found);
        }
        self.looked = seq;
        self.n_looked += 1;
        Ok(self.n_looked < MOST_LOOKED_AT && self.n_bytes < MOST_BYTES)
    }

    /// Where the changes of few objects stand; nothing if the segment was written anew meanwhile, and must be read through.
    fn offsets(&self, segment: &Segment, hashes: &[u64]) -> Result<Option<Vec<u32>>, ReadError> {
        let mut offsets = Vec::new();
        for hash in hashes {
            let found = find(self.shared, segment, *hash);
            match found.map_err(|error| ReadError::Storage(error.into()))? {
                Some(found) => offsets.extend(found),
                None => return Ok(None),
            }
        }
        offsets.sort_unstable();
        Ok(Some(offsets))
    }

    /// Reads the changes of few objects, found by their hashes.
    fn read_places(&mut self, segment: &Arc<Segment>, offsets: Vec<u32>) -> Result<bool, ReadError> {
        let storage = |error: io::Error| ReadError::Storage(error.into());
        let last = segment.last();
        for offset in offsets {
            let mut scan = segment.scan(offset.into());
            let looked = match scan.next().map_err(storage)? {
                Some(Item::Record { offset, body, .. }) => self.look_at(body).map_err(|what| (offset, what)),
                Some(Item::Damage { offset, what }) => Err((offset, what)),
                None => Ok(true),
            };
            match looked {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err((offset, what)) => self.shared.note_damage(Damage::new(segment.id, offset, &what)),
            }
        }
        self.looked = last;
        Ok(true)
    }
}

/// Where changes of an object may stand in a segment; nothing if its index is of another time.
fn find(shared: &Shared, segment: &Segment, hash: u64) -> io::Result<Option<Vec<u32>>> {
    if let Some(found) = find_in_memory(segment, hash) {
        return Ok(Some(found));
    }
    match sidecar::find(&*shared.disk, segment.id, segment.len(), hash)? {
        sidecar::Found::Places(found) => Ok(Some(found)),
        sidecar::Found::OfAnother => Ok(None),
        sidecar::Found::Damaged => {
            tracing::warn!(
                segment = segment.id.0,
                "an index of the journal cannot be read; the segment tells what it held"
            );
            remember_keys(segment)?;
            Ok(find_in_memory(segment, hash))
        }
    }
}

/// The same without the disk; nothing if the keys are there.
fn find_in_memory(segment: &Segment, hash: u64) -> Option<Vec<u32>> {
    let places = segment.places();
    let is_here = !places.keys.is_empty() || places.n_entries == 0;
    is_here.then(|| {
        let found = places.keys.iter().filter(|(key, _)| *key == hash);
        found.map(|(_, offset)| *offset).collect()
    })
}

/// Reads a complete segment for the keys that its index should hold. They stay in memory.
fn remember_keys(segment: &Segment) -> io::Result<()> {
    let mut found = Places::new(segment.first);
    let mut scan = segment.scan(0);
    while let Some(item) = scan.next()? {
        if let Item::Record { offset, head, body } = item
            && head.kind == RecordKind::Entry
            && let Ok(meta) = Meta::read(&mut In(body))
        {
            found.note(&meta, offset, body.len());
        }
    }
    segment.places_mut().keys = found.keys;
    Ok(())
}

/// The number of the next change after an offset.
fn number_after(segment: &Segment, offset: u64) -> Option<Seq> {
    let mut scan = segment.scan(offset);
    while let Some(item) = scan.next().ok()? {
        match item {
            Item::Record { head, body, .. } if head.kind == RecordKind::Entry => {
                return peek(body).ok().map(|(seq, _)| seq);
            }
            _ => {}
        }
    }
    None
}

fn entry(meta: Meta, about: &About, objects: In<'_>) -> Result<Entry, Malformed> {
    let unpacked = Bodies::read(objects)?;
    Ok(Entry {
        seq: meta.seq,
        at: meta.at,
        op: meta.op,
        source: about.source.clone(),
        kind: about.kind.clone(),
        plural: about.plural.clone(),
        key: meta.key,
        uid: meta.uid,
        version: meta.version,
        observed: meta.observed,
        by: unpacked.writers.took_part(),
        before: unpacked.before,
        after: unpacked.after,
    })
}

/// The change at a place. [`is_damage`] tells what can never be read.
pub(crate) fn read_at(
    shared: &Shared,
    segment: &Segment,
    location: Location,
    about: &About,
) -> io::Result<Entry> {
    at(shared, segment, location, |meta, objects| {
        entry(meta, about, objects)
    })
}

/// Only the states of the change at a place, and who wrote.
pub(crate) fn states_at(shared: &Shared, segment: &Segment, location: Location) -> io::Result<Unpacked> {
    at(shared, segment, location, |_, objects| Bodies::read(objects))
}

fn at<T>(
    shared: &Shared,
    segment: &Segment,
    location: Location,
    parse: impl FnOnce(Meta, In<'_>) -> Result<T, Malformed>,
) -> io::Result<T> {
    let read = shared.read_meta(segment, location).and_then(|(_, body)| {
        let mut input = In(&body);
        let parsed = Meta::read(&mut input).and_then(|meta| parse(meta, input));
        parsed.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
    });
    read.inspect_err(|error| {
        if is_damage(error) {
            shared.note_damage(Damage::new(segment.id, location.offset.into(), error));
        }
    })
}

/// Whether what was read makes no sense, and will make none later either.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}
