//! Who writes the log: takes transactions, makes them durable together, and only then takes them in.

use std::{
    io,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
};

use jiff::Timestamp;
use skopos_disk::{DiskFile, is_no_space, write_all};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Hole, Seq, checkpoint, compact,
    journal::Shared,
    record::{self, Bodies, FILE_HEADER, Meta, RECORD_HEADER, RecordKind, file_header},
    retain::{self, Candidate},
    segment::{Location, Places, Segment, SegmentId},
    sidecar,
    state::{About, Position, State, write_hole},
};

/// Commits that wait; who commits waits for room. Each is one batch of a reflector.
pub(crate) const WAITING: usize = 256;
/// So many bytes are made durable at once.
const GROUP_BYTES: usize = 4 << 20;
/// So many segments are written anew before changes get their turn again.
const REWRITES_AT_ONCE: usize = 8;

/// What becomes durable together, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// When.
    pub(crate) at: Timestamp,
    pub(crate) drafts: Vec<Draft>,
}

/// One record to be.
#[derive(Clone, Debug)]
pub(crate) enum Draft {
    /// A change; its number and time are filled in.
    Change(Meta, Bodies),
    /// A collection; if it has no number yet it gets one.
    Collection(About),
    Position(u32, Position),
    Hole(Hole),
}

/// Nothing of a transaction was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// There is no room. It may be tried again when there is.
    #[error("no room for the journal: {0}")]
    NoSpace(String),
    /// What is on disk is not known any more; only a restart helps.
    #[error("the journal takes no more changes until a restart: {0}")]
    Failed(String),
    /// It was closed.
    #[error("the journal is closed")]
    Closed,
}

pub(crate) enum Job {
    Commit(Transaction, oneshot::Sender<Result<Seq, CommitError>>),
    /// Remove what need not be kept.
    Retain(Timestamp),
    Close,
}

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Box<dyn DiskFile>,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    tail: Tail,
    len: u64,
    n_collections: usize,
    /// The file is longer than `len` and could not be cut yet.
    overhang: bool,
    failed: Option<String>,
    buffer: Vec<u8>,
    behind: Option<JoinHandle<()>>,
}

/// A record that was put into the buffer.
struct Placed {
    start: usize,
    end: usize,
    what: Effect,
}

/// What it means for the state.
enum Effect {
    Change(Meta),
    Carried(Meta),
    Collection(u32, About),
    Position(u32, Position),
    Hole(Hole),
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, tail: Tail) -> Self {
        let n_collections = shared.read().collections.len();
        Self {
            len: tail.segment.len(),
            shared,
            tail,
            n_collections,
            overhang: false,
            failed: None,
            buffer: Vec::new(),
            behind: None,
        }
    }

    /// Works until it is told to close.
    pub(crate) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut group = Vec::new();
        while let Some(job) = jobs.blocking_recv() {
            let mut next = Some(job);
            let mut n_bytes = 0;
            let mut last = None;
            while let Some(job) = next.take() {
                match job {
                    Job::Commit(transaction, reply) => {
                        n_bytes += transaction.size();
                        group.push((transaction, reply));
                    }
                    other => {
                        last = Some(other);
                        break;
                    }
                }
                if n_bytes < GROUP_BYTES {
                    next = jobs.try_recv().ok();
                }
            }
            self.commit_group(&mut group);
            match last {
                Some(Job::Retain(now)) => self.retain(now),
                Some(Job::Close) => break,
                _ => {}
            }
        }
        self.close();
    }

    fn commit_group(&mut self, group: &mut Vec<(Transaction, oneshot::Sender<Result<Seq, CommitError>>)>) {
        if group.is_empty() {
            return;
        }
        let (transactions, replies): (Vec<_>, Vec<_>) = group.drain(..).unzip();
        let outcome = self.commit(transactions);
        if let Err(error) = &outcome {
            self.shared.counters.commit_errors.fetch_add(1, Relaxed);
            tracing::debug!(%error, "changes were not written");
        }
        for reply in replies {
            // Whoever asked may have gone.
            let _ = reply.send(outcome.clone());
        }
        if outcome.is_ok() && self.len >= self.shared.config.segment_bytes {
            self.rotate();
        }
    }

    fn commit(&mut self, transactions: Vec<Transaction>) -> Result<Seq, CommitError> {
        self.make_ready()?;
        self.buffer.clear();
        let (mut head, mut newest) = {
            let state = self.shared.read();
            (state.head, state.newest)
        };
        let n_collections = self.n_collections;
        let mut placed = Vec::new();
        for transaction in transactions {
            newest = newest.max(transaction.at);
            for draft in transaction.drafts {
                placed.push(self.place(draft, &mut head, newest));
            }
            if let Some(last) = placed.last() {
                record::mark_last(&mut self.buffer, last.start);
            }
        }
        let written = self.append(placed);
        if written.is_err() {
            self.n_collections = n_collections;
        }
        written.map(|()| head)
    }

    fn place(&mut self, draft: Draft, head: &mut Seq, at: Timestamp) -> Placed {
        let buffer = &mut self.buffer;
        let (range, what) = match draft {
            Draft::Change(mut meta, bodies) => {
                head.0 += 1;
                (meta.seq, meta.at) = (*head, at);
                let range = record::push(buffer, RecordKind::Entry, |out| meta.write(&bodies, out));
                (range, Effect::Change(meta))
            }
            Draft::Collection(about) => {
                let known = self.shared.read().collection(&about.source, &about.name);
                let number = known.unwrap_or_else(|| {
                    self.n_collections += 1;
                    u32::try_from(self.n_collections - 1).unwrap_or(u32::MAX)
                });
                let range = record::push(buffer, RecordKind::Collection, |out| about.write(number, out));
                (range, Effect::Collection(number, about))
            }
            Draft::Position(number, position) => {
                let range = record::push(buffer, RecordKind::Position, |out| position.write(number, out));
                (range, Effect::Position(number, position))
            }
            Draft::Hole(hole) => {
                let range = record::push(buffer, RecordKind::Hole, |out| write_hole(&hole, out));
                (range, Effect::Hole(hole))
            }
        };
        Placed {
            start: range.start,
            end: range.end,
            what,
        }
    }

    /// Makes the buffer durable, then takes in what it means.
    fn append(&mut self, placed: Vec<Placed>) -> Result<(), CommitError> {
        if placed.is_empty() {
            return Ok(());
        }
        if let Err(error) = write_all(&mut *self.tail.file, &self.buffer) {
            return Err(self.write_failed(&error));
        }
        if self.shared.config.sync
            && let Err(error) = self.tail.file.sync()
        {
            // Take it away as far as that works, so that a restart does not bring back what nobody was told of.
            let _ = self.tail.file.truncate(self.len);
            return Err(self.fail("sync", &error));
        }
        let start = self.len;
        self.len += self.buffer.len() as u64;
        self.shared.counters.commits.fetch_add(1, Relaxed);
        self.shared
            .counters
            .bytes
            .fetch_add(self.buffer.len() as u64, Relaxed);
        self.take_in(placed, start);
        Ok(())
    }

    fn take_in(&mut self, placed: Vec<Placed>, start: u64) {
        let segment = &self.tail.segment;
        let mut guard = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut places = segment.places_mut();
        let state: &mut State = &mut guard;
        for placed in placed {
            let offset = start + placed.start as u64;
            let body_len = placed.end - placed.start - RECORD_HEADER;
            let location = Location::new(segment.id, offset, body_len);
            match placed.what {
                Effect::Change(meta) => {
                    places.note(&meta, offset, body_len);
                    state.apply_entry(&meta, location);
                }
                Effect::Carried(meta) => state.apply_carried(&meta, location),
                Effect::Collection(number, about) => state.apply_collection(number, about),
                Effect::Position(number, position) => state.apply_position(number, position),
                Effect::Hole(hole) => state.apply_hole(hole),
            }
        }
        segment.grow(self.len);
        let head = state.head;
        drop(places);
        drop(guard);
        self.shared.advanced.send_if_modified(|known| {
            let is_new = *known != head;
            *known = head;
            is_new
        });
    }

    /// Goes on in a new segment. If that fails the present one stays.
    fn rotate(&mut self) {
        let id = self.tail.segment.id.next();
        match self.start_segment(id) {
            Ok(tail) => {
                let full = std::mem::replace(&mut self.tail, tail);
                self.len = self.tail.segment.len();
                self.write_behind(full.segment);
            }
            Err(error) => {
                tracing::warn!(%error, "could not start a new segment, going on in the old one");
                let _ = self.shared.disk.remove(&id.name());
            }
        }
    }

    /// A new segment, which begins with all that is known of collections: with those before it gone it is complete.
    fn start_segment(&mut self, id: SegmentId) -> io::Result<Tail> {
        let (first, start) = {
            let state = self.shared.read();
            (Seq(state.head.0 + 1), start_records(&state))
        };
        let disk = &*self.shared.disk;
        let mut file = disk.create(&id.name())?;
        write_all(&mut *file, &file_header(first))?;
        write_all(&mut *file, &start)?;
        file.sync()?;
        disk.sync_names()?;
        let len = (FILE_HEADER + start.len()) as u64;
        let segment = Arc::new(Segment::open(disk, id, first, len, Places::new(first))?);
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        state.segments.insert(id, segment.clone());
        drop(state);
        Ok(Tail { segment, file })
    }

    /// Writes the index of a complete segment and a checkpoint, while changes go on.
    fn write_behind(&mut self, full: Arc<Segment>) {
        self.join_behind();
        let shared = self.shared.clone();
        let id = self.tail.segment.id;
        let job = move || {
            if let Err(error) = finish_segment(&shared, &full).and_then(|()| write_checkpoint(&shared, id)) {
                shared.counters.checkpoint_errors.fetch_add(1, Relaxed);
                tracing::warn!(%error, "no checkpoint of the journal was written; the next start takes longer");
            }
        };
        match thread::Builder::new()
            .name("journal-checkpoint".into())
            .spawn(job)
        {
            Ok(handle) => self.behind = Some(handle),
            Err(error) => tracing::warn!(%error, "could not start the checkpoint thread"),
        }
    }

    fn join_behind(&mut self) {
        if let Some(handle) = self.behind.take()
            && handle.join().is_err()
        {
            tracing::error!("writing a checkpoint panicked");
        }
    }

    fn retain(&mut self, now: Timestamp) {
        for _ in 0..REWRITES_AT_ONCE {
            let Some(candidate) = retain::candidate(&self.shared, self.tail.segment.id, now) else {
                return;
            };
            let id = candidate.segment.id.0;
            if let Err(error) = self.thin_out(candidate) {
                tracing::warn!(%error, segment = id, "could not remove old changes");
                return;
            }
        }
    }

    /// Writes a segment anew without what goes, after what still exists was copied out of it.
    fn thin_out(&mut self, mut candidate: Candidate) -> Result<(), CommitError> {
        let segment = candidate.segment;
        self.carry(&segment)?;
        let done = compact::rest(&segment, &mut candidate.dropping, candidate.is_oldest).and_then(|rest| {
            match rest {
                // It is left as it is until all of it goes.
                None => segment.note_damaged(),
                Some(rest) if rest.is_nothing() => retain::forget(&self.shared, &segment)?,
                Some(rest) => compact::replace(&self.shared, &segment, &rest)?,
            }
            Ok(())
        });
        if self.len >= self.shared.config.segment_bytes {
            self.rotate();
        }
        done.map_err(|error| CommitError::NoSpace(error.to_string()))
    }

    /// Copies the last states of objects that exist out of a segment.
    fn carry(&mut self, segment: &Arc<Segment>) -> Result<(), CommitError> {
        // The index of the segment may be being written just now.
        self.join_behind();
        loop {
            self.make_ready()?;
            let bodies = retain::to_carry(&self.shared, segment);
            if bodies.is_empty() {
                break;
            }
            self.buffer.clear();
            let mut placed = Vec::new();
            for (meta, body) in bodies {
                let range = record::carry(&body, &mut self.buffer);
                placed.push(Placed {
                    start: range.start,
                    end: range.end,
                    what: Effect::Carried(meta),
                });
            }
            if let Some(last) = placed.last() {
                record::mark_last(&mut self.buffer, last.start);
            }
            self.append(placed)?;
        }
        Ok(())
    }

    fn close(mut self) {
        self.join_behind();
        if self.failed.is_none() {
            let id = self.tail.segment.id;
            if let Err(error) = write_checkpoint(&self.shared, id) {
                tracing::warn!(%error, "no checkpoint of the journal was written; the next start takes longer");
            }
        }
    }

    fn make_ready(&mut self) -> Result<(), CommitError> {
        if let Some(message) = &self.failed {
            return Err(CommitError::Failed(message.clone()));
        }
        match self.overhang {
            true => self.cut_back(),
            false => Ok(()),
        }
    }

    /// A write that failed left part of a transaction: cut it off, so that a restart finds a clean end.
    fn write_failed(&mut self, error: &io::Error) -> CommitError {
        self.overhang = true;
        let cut = self.cut_back();
        if !is_no_space(error) {
            return self.fail("write", error);
        }
        match cut {
            Err(failed @ CommitError::Failed(_)) => failed,
            _ => CommitError::NoSpace(error.to_string()),
        }
    }

    fn cut_back(&mut self) -> Result<(), CommitError> {
        if let Err(error) = self.tail.file.truncate(self.len) {
            return Err(CommitError::NoSpace(format!("cut back the log: {error}")));
        }
        match self.tail.file.sync() {
            Ok(()) => {
                self.overhang = false;
                Ok(())
            }
            Err(error) => Err(self.fail("sync", &error)),
        }
    }

    fn fail(&mut self, action: &str, error: &io::Error) -> CommitError {
        let path = self.shared.disk.path();
        let message = format!("{action} in {}: {error}", path.display());
        tracing::error!(%message, "the journal takes no more changes until a restart");
        self.failed = Some(message.clone());
        self.shared.failure.send_replace(Some(message.clone()));
        CommitError::Failed(message)
    }
}

impl Transaction {
    fn size(&self) -> usize {
        let sizes = self.drafts.iter().map(|draft| match draft {
            Draft::Change(_, bodies) => 200 + bodies.len(),
            _ => 200,
        });
        sizes.sum()
    }
}

/// Records of all collections, positions and holes, as one transaction.
pub(crate) fn start_records(state: &State) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut last = None;
    for (number, collection) in (0..).zip(&state.collections) {
        last = Some(record::push(&mut buffer, RecordKind::Collection, |out| {
            collection.about.write(number, out);
        }));
        if let Some(position) = &collection.position {
            last = Some(record::push(&mut buffer, RecordKind::Position, |out| {
                position.write(number, out);
            }));
        }
    }
    for hole in state.holes.iter() {
        last = Some(record::push(&mut buffer, RecordKind::Hole, |out| {
            write_hole(hole, out);
        }));
    }
    if let Some(last) = last {
        record::mark_last(&mut buffer, last.start);
    }
    buffer
}

fn finish_segment(shared: &Shared, segment: &Segment) -> io::Result<()> {
    let places = segment.places().clone();
    sidecar::write(&*shared.disk, segment.id, segment.len(), &places)?;
    segment.places_mut().keys = Vec::new();
    Ok(())
}

/// Writes a checkpoint, and removes those before the one before it.
fn write_checkpoint(shared: &Shared, id: SegmentId) -> io::Result<()> {
    checkpoint::write(&*shared.disk, &shared.state, id)?;
    let mut old: Vec<SegmentId> = shared
        .disk
        .names()?
        .iter()
        .filter_map(|name| checkpoint::parse_checkpoint_name(name))
        .collect();
    old.sort_unstable();
    old.pop();
    old.pop();
    for id in old {
        shared.disk.remove(&checkpoint::checkpoint_name(id))?;
    }
    Ok(())
}
