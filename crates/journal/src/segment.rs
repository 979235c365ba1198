//! One file of the log: its records, and where in it what stands.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use skopos_disk::{Disk, ReadAt};
use skopos_object::ObjectKey;

use crate::{
    Seq,
    record::{FILE_HEADER, Meta, RECORD_HEADER},
    scan::Scan,
};

/// One place in so many entries is remembered, so that any is found after reading few.
const SPARSE: u64 = 64;

/// The number of a segment: they count up, and a number is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u64);

impl SegmentId {
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The name of its file.
    pub(crate) fn name(self) -> String {
        format!("segment-{:012}", self.0)
    }

    /// The number in the name of a segment; `None` if it is none.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        name.strip_prefix("segment-")?.parse().ok().map(Self)
    }
}

/// One file of the log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    /// The number its first change has, or would have.
    pub(crate) first: Seq,
    file: Box<dyn ReadAt>,
    /// What is durable; nothing beyond it is ever read.
    len: AtomicU64,
    places: RwLock<Places>,
    /// Whether this process wrote it anew.
    rewritten: AtomicBool,
    /// Whether a part of it was found that cannot be read.
    damaged: AtomicBool,
}

/// Where in a segment what stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The last change in it; one less than the first if there is none.
    pub(crate) last: Seq,
    /// Some of its changes, in order.
    pub(crate) sparse: Vec<Place>,
    /// How many changes of which collection.
    pub(crate) counts: BTreeMap<u32, Count>,
    /// The hash of each change's object, and where it stands. Empty once the segment is complete: then it is on disk.
    pub(crate) keys: Vec<(u64, u32)>,
    pub(crate) n_entries: u64,
}

/// Where a change stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) offset: u32,
}

/// Changes of one collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) n: u64,
    pub(crate) bytes: u64,
    pub(crate) newest: Timestamp,
}

impl Segment {
    pub(crate) fn open(
        disk: &dyn Disk,
        id: SegmentId,
        first: Seq,
        len: u64,
        places: Places,
    ) -> io::Result<Self> {
        Ok(Self {
            id,
            first,
            file: disk.open(&id.name())?,
            len: AtomicU64::new(len),
            places: RwLock::new(places),
            rewritten: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn grow(&self, len: u64) {
        self.len.store(len, Ordering::Release);
    }

    pub(crate) fn note_rewritten(&self) {
        self.rewritten.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_rewritten(&self) -> bool {
        self.rewritten.load(Ordering::Relaxed)
    }

    pub(crate) fn note_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    pub(crate) fn places(&self) -> RwLockReadGuard<'_, Places> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn places_mut(&self) -> RwLockWriteGuard<'_, Places> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.places().n_entries == 0
    }

    /// Its last change; one less than the first if there is none.
    pub(crate) fn last(&self) -> Seq {
        self.places().last
    }

    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Reads records from an offset on.
    pub(crate) fn scan(&self, offset: u64) -> Scan<'_> {
        Scan::new(self, offset.max(FILE_HEADER as u64), self.len())
    }

    /// Where to begin to read so as to meet a change.
    pub(crate) fn offset_before(&self, seq: Seq) -> u64 {
        let places = self.places();
        let after = places.sparse.partition_point(|place| place.seq <= seq);
        let before = after.checked_sub(1).and_then(|i| places.sparse.get(i));
        before.map_or(FILE_HEADER as u64, |place| place.offset.into())
    }

    /// Where to begin to read so as to meet the first change at or after a time.
    pub(crate) fn offset_before_time(&self, at: Timestamp) -> u64 {
        let places = self.places();
        let after = places.sparse.partition_point(|place| place.at < at);
        let before = after.checked_sub(1).and_then(|i| places.sparse.get(i));
        before.map_or(FILE_HEADER as u64, |place| place.offset.into())
    }

    /// When its newest change was written down.
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        self.places().counts.values().map(|count| count.newest).max()
    }
}

impl Places {
    pub(crate) fn new(first: Seq) -> Self {
        Self {
            last: Seq(first.0.saturating_sub(1)),
            ..Self::default()
        }
    }

    /// Notes an entry that stands at `offset`, with a body so long.
    pub(crate) fn note(&mut self, meta: &Meta, offset: u64, body_len: usize) {
        // Segments are closed long before they are so long.
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        if self.n_entries.is_multiple_of(SPARSE) {
            self.sparse.push(Place {
                seq: meta.seq,
                at: meta.at,
                offset,
            });
        }
        self.n_entries += 1;
        self.last = self.last.max(meta.seq);
        let count = self.counts.entry(meta.collection).or_insert(Count {
            n: 0,
            bytes: 0,
            newest: meta.at,
        });
        count.n += 1;
        count.bytes += (RECORD_HEADER + body_len) as u64;
        count.newest = count.newest.max(meta.at);
        self.keys.push((key_hash(meta.collection, &meta.key), offset));
    }
}

/// Which object, as a number that stays the same for ever (FNV-1a): it stands on disk.
pub(crate) fn key_hash(collection: u32, key: &ObjectKey) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let collection = collection.to_le_bytes();
    let parts = [
        &collection[..],
        key.namespace.as_bytes(),
        b"/",
        key.name.as_bytes(),
    ];
    for byte in parts.into_iter().flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u32,
    /// Of its body.
    pub(crate) len: u32,
}

impl Location {
    pub(crate) fn new(segment: SegmentId, offset: u64, body_len: usize) -> Self {
        Self {
            segment,
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            len: u32::try_from(body_len).unwrap_or(u32::MAX),
        }
    }
}
