//! What is on disk becomes what is known.

use std::{
    io::{self, Read as _},
    sync::Arc,
};

use skopos_disk::{Disk, write_all};

use crate::{
    Seq,
    bytes::{In, Malformed},
    checkpoint,
    commit::Tail,
    header::{self, Found, Headless},
    record::{FILE_HEADER, Meta, RecordKind, file_header},
    scan::Item,
    segment::{Location, Places, Segment, SegmentId},
    sidecar,
    state::{About, Position, State, read_hole},
};

/// What was found.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) tail: Tail,
    pub(crate) damage: Vec<Damage>,
}

/// A part of the log that cannot be read. What is before and after it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// Reads what is on disk, cuts off what was never committed, and opens the end for writing.
pub(crate) fn recover(disk: &dyn Disk) -> io::Result<Recovered> {
    let names = disk.names()?;
    // Before anything is changed: a newer version may have written here.
    let segments = header::segments(disk, &names)?;
    for name in names.iter().filter(|name| name.ends_with(".part")) {
        disk.remove(name)?;
    }
    let (state, from) = newest_checkpoint(disk, &names, segments.first().map(|found| found.id))?;
    let mut recovering = Recovering {
        disk,
        from,
        newest: segments.last().map(|found| found.id),
        state,
        damage: Vec::new(),
        headless: Vec::new(),
    };
    for found in segments {
        recovering.take_in(found)?;
    }
    recovering.finish()
}

/// What is known from the segments so far.
struct Recovering<'a> {
    disk: &'a dyn Disk,
    /// The segments from this one on are read over the checkpoint.
    from: SegmentId,
    newest: Option<SegmentId>,
    state: State,
    damage: Vec<Damage>,
    /// Those without a sound header.
    headless: Vec<SegmentId>,
}

impl Recovering<'_> {
    fn take_in(&mut self, found: Found) -> io::Result<()> {
        let is_last = Some(found.id) == self.newest;
        let Some(first) = found.first else {
            return self.take_in_headless(found, is_last);
        };
        let Found { id, len, .. } = found;
        let (state, damage) = (&mut self.state, &mut self.damage);
        // The changes before it may be gone; their numbers are not used again.
        state.head = state.head.max(Seq(first.0.saturating_sub(1)));
        let segment = match id < self.from && !is_last {
            true => complete_segment(self.disk, id, first, len, damage)?,
            false => read_segment(self.disk, id, first, len, Some(state), is_last, damage)?,
        };
        state.segments.insert(id, Arc::new(segment));
        Ok(())
    }

    /// Reads what can be read of a segment whose header is damaged.
    fn take_in_headless(&mut self, found: Found, is_last: bool) -> io::Result<()> {
        let Found { id, len, .. } = found;
        let (first, may_cut) = match header::headless(self.disk, found, &self.state, is_last)? {
            Headless::Unfinished => return self.disk.remove(&id.name()),
            Headless::Records(first) => (first, is_last),
            // It may be of somebody else: it is left as it is.
            Headless::Nothing(first) => {
                if is_last {
                    self.state.head.0 += header::most_changes(len);
                }
                (first, false)
            }
        };
        self.headless.push(id);
        let (state, damage) = (&mut self.state, &mut self.damage);
        state.head = state.head.max(Seq(first.0.saturating_sub(1)));
        let over = (id >= self.from || is_last).then_some(&mut *state);
        let segment = read_segment(self.disk, id, first, len, over, may_cut, damage)?;
        state.segments.insert(id, Arc::new(segment));
        Ok(())
    }

    fn finish(mut self) -> io::Result<Recovered> {
        let is_lost = |id: &SegmentId| self.state.segments.get(id).is_none_or(|one| one.is_empty());
        let is_missing = self.damage.iter().any(|one| one.is_in(self.from))
            || self.headless.iter().any(|id| *id >= self.from && is_lost(id));
        if is_missing {
            // Changes may be missing: a list must tell what is there now.
            for collection in &mut self.state.collections {
                if let Some(position) = &mut collection.position {
                    position.version = "".into();
                }
            }
        }
        // What a damaged header stands before is left as it is.
        let goes_on = self.newest.filter(|id| !self.headless.contains(id));
        let tail = match goes_on.and_then(|id| self.state.segments.get(&id)) {
            Some(segment) => Tail {
                segment: segment.clone(),
                file: self.disk.append(&segment.id.name())?,
            },
            None => new_tail(self.disk, &mut self.state, self.newest)?,
        };
        let damaged_ids = self
            .damage
            .iter()
            .filter_map(|damage| SegmentId::parse(&damage.file));
        for id in damaged_ids {
            header::keep_numbers(&self.state, id);
            self.state
                .segments
                .get(&id)
                .inspect(|segment| segment.note_damaged());
        }
        for id in &self.headless {
            header::keep_numbers(&self.state, *id);
            header::declare_hole(&mut self.state, *id);
            self.damage.push(damaged(*id, 0, &Malformed("file header")));
        }
        Ok(Recovered {
            state: self.state,
            tail,
            damage: self.damage,
        })
    }
}

impl Damage {
    pub(crate) fn new(id: SegmentId, offset: u64, what: &dyn std::fmt::Display) -> Self {
        Self {
            file: id.name(),
            offset,
            what: what.to_string(),
        }
    }

    fn is_in(&self, from: SegmentId) -> bool {
        SegmentId::parse(&self.file).is_some_and(|id| id >= from)
    }
}

fn damaged(id: SegmentId, offset: u64, what: &Malformed) -> Damage {
    let damage = Damage::new(id, offset, what);
    tracing::error!(
        file = damage.file,
        offset,
        what = damage.what,
        "the journal is damaged, and goes on without this part"
    );
    damage
}

/// The newest checkpoint that is sound, and from which segment on the log is to be read over it.
fn newest_checkpoint(
    disk: &dyn Disk,
    names: &[String],
    oldest: Option<SegmentId>,
) -> io::Result<(State, SegmentId)> {
    let mut ids: Vec<SegmentId> = names
        .iter()
        .filter_map(|name| checkpoint::parse_checkpoint_name(name))
        .collect();
    ids.sort_unstable();
    for id in ids.into_iter().rev() {
        let mut bytes = Vec::new();
        disk.read(&checkpoint::checkpoint_name(id))?
            .read_to_end(&mut bytes)?;
        match checkpoint::read(&bytes) {
            Ok(state) => return Ok((state, id)),
            Err(what) => {
                tracing::warn!(checkpoint = id.0, %what, "a checkpoint cannot be used, an older one is");
            }
        }
    }
    Ok((State::default(), oldest.unwrap_or_default()))
}

/// A segment whose places stand beside it, or are found by reading it.
fn complete_segment(
    disk: &dyn Disk,
    id: SegmentId,
    first: Seq,
    len: u64,
    damage: &mut Vec<Damage>,
) -> io::Result<Segment> {
    match sidecar::read(disk, id, len) {
        Ok(places) => Segment::open(disk, id, first, len, places),
        Err(error) => {
            tracing::warn!(segment = id.0, %error, "an index of the journal is made anew");
            let n_damaged = damage.len();
            let segment = read_segment(disk, id, first, len, None, false, damage)?;
            // Without what is damaged it would say that nothing was there.
            if damage.len() > n_damaged {
                return Ok(segment);
            }
            sidecar::write(disk, id, len, &segment.places())?;
            // Where nothing can be written they stay in memory.
            if disk.len(&sidecar::sidecar_name(id)).is_ok() {
                segment.places_mut().keys = Vec::new();
            }
            Ok(segment)
        }
    }
}

/// Reads a whole segment, notes its places, and takes in what it says if there is a state.
fn read_segment(
    disk: &dyn Disk,
    id: SegmentId,
    first: Seq,
    len: u64,
    mut state: Option<&mut State>,
    is_last: bool,
    damage: &mut Vec<Damage>,
) -> io::Result<Segment> {
    let segment = Segment::open(disk, id, first, len, Places::new(first))?;
    let mut places = Places::new(first);
    let mut scan = segment.scan(0);
    let mut open: Vec<Read> = Vec::new();
    let mut committed = scan.offset();
    let mut torn: Option<(u64, Malformed)> = None;
    while let Some(item) = scan.next()? {
        match item {
            Item::Record { offset, head, body } => {
                if let Some((at, what)) = torn.take() {
                    damage.push(damaged(id, at, &what));
                }
                let is_last = head.is_last;
                match Read::new(head.kind, body) {
                    Ok(read) => open.push(Read { offset, ..read }),
                    Err(what) => damage.push(damaged(id, offset, &what)),
                }
                if is_last {
                    for read in open.drain(..) {
                        read.take_in(id, &mut places, state.as_deref_mut());
                    }
                    committed = scan.offset();
                }
            }
            Item::Damage { offset, what } => {
                open.clear();
                torn = Some((offset, what));
            }
        }
    }
    if is_last && committed < len {
        tracing::info!(
            segment = id.0,
            bytes = len - committed,
            "cut off what a crash left unfinished"
        );
        disk.append(&id.name())?.truncate(committed)?;
        segment.grow(committed);
    } else if let Some((at, what)) = torn {
        damage.push(damaged(id, at, &what));
    }
    *segment.places_mut() = places;
    Ok(segment)
}

/// A record that was read.
struct Read {
    offset: u64,
    body_len: usize,
    what: What,
}

enum What {
    Entry(Meta),
    Carried(Meta),
    Collection(u32, About),
    Position(u32, Position),
    Hole(crate::Hole),
}

impl Read {
    fn new(kind: RecordKind, body: &[u8]) -> Result<Self, Malformed> {
        let mut input = In(body);
        let what = match kind {
            RecordKind::Entry => What::Entry(Meta::read(&mut input)?),
            RecordKind::Carried => What::Carried(Meta::read(&mut input)?),
            RecordKind::Collection => {
                let (number, about) = About::read(&mut input)?;
                What::Collection(number, about)
            }
            RecordKind::Position => {
                let (number, position) = Position::read(&mut input)?;
                What::Position(number, position)
            }
            RecordKind::Hole => What::Hole(read_hole(&mut input)?),
        };
        Ok(Self {
            offset: 0,
            body_len: body.len(),
            what,
        })
    }

    fn take_in(self, segment: SegmentId, places: &mut Places, state: Option<&mut State>) {
        let location = Location::new(segment, self.offset, self.body_len);
        if let What::Entry(meta) = &self.what {
            places.note(meta, self.offset, self.body_len);
        }
        let Some(state) = state else {
            return;
        };
        match self.what {
            What::Entry(meta) => state.apply_entry(&meta, location),
            What::Carried(meta) => state.apply_carried(&meta, location),
            What::Collection(number, about) => state.apply_collection(number, about),
            What::Position(number, position) => state.apply_position(number, position),
            What::Hole(hole) => state.apply_hole(hole),
        }
    }
}

/// A new segment for writing, after those there are.
fn new_tail(disk: &dyn Disk, state: &mut State, newest: Option<SegmentId>) -> io::Result<Tail> {
    let id = newest.map_or(SegmentId(1), SegmentId::next);
    let first = Seq(state.head.0 + 1);
    let start = crate::commit::start_records(state);
    let mut file = disk.create(&id.name())?;
    write_all(&mut *file, &file_header(first))?;
    write_all(&mut *file, &start)?;
    file.sync()?;
    disk.sync_names()?;
    let len = (FILE_HEADER + start.len()) as u64;
    let segment = match (
        Segment::open(disk, id, first, len, Places::new(first)),
        state.segments.values().next_back(),
    ) {
        // Nothing can be written here: what would be goes nowhere, whatever it is behind.
        (Err(error), Some(last)) if error.kind() == io::ErrorKind::NotFound => last.clone(),
        (opened, _) => Arc::new(opened?),
    };
    state.segments.insert(segment.id, segment.clone());
    Ok(Tail { segment, file })
}
