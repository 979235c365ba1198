//! Which segments there are, and what is to be made of one whose header is damaged.

use std::io;

use skopos_disk::Disk;

use crate::{
    Hole, Seq,
    bytes::In,
    commit::start_records,
    record::{BadHeader, FILE_HEADER, FORMAT_VERSION, Meta, RecordKind, parse_file_header},
    scan::Item,
    segment::{Places, Segment, SegmentId},
    state::State,
};

/// A segment as its name and its header tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: SegmentId,
    pub(crate) len: u64,
    /// The number of its first change; nothing if the header is damaged or not whole.
    pub(crate) first: Option<Seq>,
}

/// The segments, in order.
///
/// # Errors
/// If one is of a format that is not known here: whoever wrote it must go on with it, and nothing may be changed.
pub(crate) fn segments(disk: &dyn Disk, names: &[String]) -> io::Result<Vec<Found>> {
    let mut ids: Vec<SegmentId> = names.iter().filter_map(|name| SegmentId::parse(name)).collect();
    ids.sort_unstable();
    ids.into_iter().map(|id| find(disk, id)).collect()
}

fn find(disk: &dyn Disk, id: SegmentId) -> io::Result<Found> {
    let len = disk.len(&id.name())?;
    let mut header = [0; FILE_HEADER];
    if len < FILE_HEADER as u64 {
        return Ok(Found { id, len, first: None });
    }
    disk.open(&id.name())?.read_exact_at(&mut header, 0)?;
    match parse_file_header(&header) {
        Ok(first) => Ok(Found {
            id,
            len,
            first: Some(first),
        }),
        Err(BadHeader::Damaged) => Ok(Found { id, len, first: None }),
        Err(BadHeader::OtherFormat(format)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "{} is of format {format}, and this version of Skopos knows up to {FORMAT_VERSION}: start the version \
                 that wrote it, or give another data directory; nothing was changed",
                id.name()
            ),
        )),
    }
}

/// What is in a segment whose header is damaged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Headless {
    /// Nothing that was ever committed: it was being made when the machine went down.
    Unfinished,
    /// Records. Its first change has this number, or would have.
    Records(Seq),
    /// Nothing that can be read; what it held began with this number.
    Nothing(Seq),
}

/// Finds out what to make of a segment without a header, `state` being what is known from those before it.
pub(crate) fn headless(disk: &dyn Disk, found: Found, state: &State, is_last: bool) -> io::Result<Headless> {
    let records = match found.len > FILE_HEADER as u64 {
        true => first_record(disk, found)?,
        false => Records::None,
    };
    let start = (FILE_HEADER + start_records(state).len()) as u64;
    let before = state.segments.values().next_back();
    let next = before.map(|before| Seq(before.last().0 + 1));
    Ok(match records {
        Records::None if is_last && found.len <= start => Headless::Unfinished,
        Records::None => Headless::Nothing(next.unwrap_or(Seq(1))),
        Records::Others => Headless::Records(next.unwrap_or(Seq(1))),
        Records::Changes(first) => Headless::Records(next.unwrap_or(first)),
    })
}

enum Records {
    None,
    /// Only others than changes.
    Others,
    /// Changes from this number on.
    Changes(Seq),
}

fn first_record(disk: &dyn Disk, found: Found) -> io::Result<Records> {
    let segment = Segment::open(disk, found.id, Seq(1), found.len, Places::new(Seq(1)))?;
    let mut scan = segment.scan(0);
    let mut records = Records::None;
    while let Some(item) = scan.next()? {
        let Item::Record { head, body, .. } = item else {
            continue;
        };
        records = Records::Others;
        if head.kind == RecordKind::Entry
            && let Ok(meta) = Meta::read(&mut In(body))
        {
            return Ok(Records::Changes(meta.seq));
        }
    }
    Ok(records)
}

/// How many changes a file of this length can have held. Their numbers must not be used again: who reads may have been told
/// of them.
pub(crate) fn most_changes(len: u64) -> u64 {
    /// No change takes less: it names its object, with a UID and a version.
    const LEAST_BYTES: u64 = 64;
    len / LEAST_BYTES
}

/// Changes that cannot be read keep their numbers: who reads past them is told.
pub(crate) fn keep_numbers(state: &State, id: SegmentId) {
    let next = state.segments.range(id.next()..).next();
    let (Some(segment), Some((_, next))) = (state.segments.get(&id), next) else {
        return;
    };
    let mut places = segment.places_mut();
    places.last = places.last.max(Seq(next.first.0.saturating_sub(1)));
}

/// A segment of which nothing is left is a hole in each collection, between what is known before and after it.
pub(crate) fn declare_hole(state: &mut State, id: SegmentId) {
    let Some(segment) = state.segments.get(&id) else {
        return;
    };
    let is_lost = segment.is_empty() && segment.first <= segment.last();
    let newest = |(_, segment): (_, &std::sync::Arc<Segment>)| segment.newest();
    let before = state.segments.range(..id).rev().find_map(newest);
    let (true, Some(from)) = (is_lost, before) else {
        return;
    };
    let later = state.segments.range(id.next()..);
    let after = later.filter_map(|(_, segment)| segment.places().sparse.first().map(|place| place.at));
    let to = after.min().unwrap_or(state.newest);
    let seq = segment.first;
    let collections = state.collections.iter().map(|one| one.about.name.clone());
    let holes: Vec<Hole> = collections
        .map(|collection| Hole {
            collection,
            from,
            to,
            reason: "damaged".into(),
            seq,
        })
        .collect();
    for hole in holes {
        let is_same = |known: &Hole| {
            known.collection == hole.collection && known.seq == hole.seq && known.reason == hole.reason
        };
        if !state.holes.iter().any(is_same) {
            state.apply_hole(hole);
        }
    }
}
