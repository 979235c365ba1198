//! Writes a complete segment anew, without what need not be kept.
//!
//! The numbers of the changes stay. The new file gets the name of the old one only when it is complete and on disk, so
//! a crash leaves one or the other. What the mirror needs was copied to the end of the log before.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, PoisonError},
};

use skopos_disk::write_all;
use skopos_object::Op;

use crate::{
    Seq,
    bytes::{In, Malformed},
    journal::Shared,
    record::{self, Bodies, FILE_HEADER, Meta, RecordKind, file_header},
    retain::{Dropping, forget_checkpoints},
    scan::Item,
    segment::{Places, Segment},
    sidecar,
    state::Position,
};

/// What of a segment stays.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    buffer: Vec<u8>,
    /// The changes, where in the buffer, and how long.
    entries: Vec<(Meta, usize, usize)>,
    /// The last position of each collection, with its record.
    positions: BTreeMap<u32, Vec<u8>>,
    n_gone: usize,
}

impl Rest {
    /// Whether nothing of it is needed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.entries.is_empty() && self.n_gone == 0
    }

    /// Each record counts alone: the file is there whole or not at all.
    fn push(&mut self, kind: RecordKind, body: &[u8]) -> usize {
        let range = record::push(&mut self.buffer, kind, |out| out.extend_from_slice(body));
        record::mark_last(&mut self.buffer, range.start);
        range.start
    }

    /// A change that goes. That its object is gone must stay known as long as earlier files may speak of it.
    fn drop_entry(&mut self, meta: &Meta, is_oldest: bool) {
        if meta.op == Op::Deleted && !is_oldest {
            let mut body = Vec::new();
            meta.write(&Bodies::pack(None, None), &mut body);
            self.push(RecordKind::Carried, &body);
            self.n_gone += 1;
        }
    }

    fn take(
        &mut self,
        kind: RecordKind,
        body: &[u8],
        dropping: &mut Dropping,
        is_oldest: bool,
    ) -> Result<(), Malformed> {
        match kind {
            RecordKind::Entry => {
                let meta = Meta::read(&mut In(body))?;
                if dropping.takes(&meta, body.len()) {
                    self.drop_entry(&meta, is_oldest);
                } else {
                    let start = self.push(RecordKind::Entry, body);
                    self.entries.push((meta, start, body.len()));
                }
            }
            // The states of objects that exist were copied before; what is left says that one is gone.
            RecordKind::Carried => {
                let meta = Meta::read(&mut In(body))?;
                self.drop_entry(&meta, is_oldest);
            }
            RecordKind::Collection | RecordKind::Hole => {
                self.push(kind, body);
            }
            RecordKind::Position => {
                let (collection, _) = Position::read(&mut In(body))?;
                self.positions.insert(collection, body.to_vec());
            }
        }
        Ok(())
    }
}

/// Reads what stays of a segment; nothing if a part of it is damaged, unless all of it goes and nothing is before it: what
/// cannot be read may say that an object is gone.
pub(crate) fn rest(segment: &Segment, dropping: &mut Dropping, is_oldest: bool) -> io::Result<Option<Rest>> {
    let mut rest = Rest::default();
    let mut is_damaged = false;
    let mut scan = segment.scan(0);
    while let Some(item) = scan.next()? {
        is_damaged |= match item {
            Item::Record { head, body, .. } => rest.take(head.kind, body, dropping, is_oldest).is_err(),
            Item::Damage { .. } => true,
        };
    }
    if is_damaged && !(is_oldest && rest.is_nothing()) {
        return Ok(None);
    }
    for (_, body) in std::mem::take(&mut rest.positions) {
        rest.push(RecordKind::Position, &body);
    }
    Ok(Some(rest))
}

/// Puts what stays in the place of a segment.
pub(crate) fn replace(shared: &Shared, segment: &Segment, rest: &Rest) -> io::Result<()> {
    let disk = &*shared.disk;
    let first = rest.entries.first().map_or(segment.first, |(meta, ..)| meta.seq);
    let mut places = Places::new(first);
    for (meta, start, body_len) in &rest.entries {
        places.note(meta, (FILE_HEADER + start) as u64, *body_len);
    }
    // Up to its old end it was looked at, whatever is left.
    places.last = segment.last();
    forget_checkpoints(shared, segment)?;
    let name = segment.id.name();
    let part = format!("{name}.part");
    let written = write_part(shared, &part, first, rest);
    if let Err(error) = written.and_then(|()| disk.rename(&part, &name)) {
        // It would be removed at the next start.
        let _ = disk.remove(&part);
        return Err(error);
    }
    disk.sync_names()?;
    let len = (FILE_HEADER + rest.buffer.len()) as u64;
    sidecar::write(disk, segment.id, len, &places)?;
    places.keys = Vec::new();
    let new = Segment::open(disk, segment.id, first, len, places)?;
    new.note_rewritten();
    let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
    state.segments.insert(segment.id, Arc::new(new));
    Ok(())
}

fn write_part(shared: &Shared, part: &str, first: Seq, rest: &Rest) -> io::Result<()> {
    let mut file = shared.disk.create(part)?;
    write_all(&mut *file, &file_header(first))?;
    write_all(&mut *file, &rest.buffer)?;
    file.sync()
}
