//! Opening a directory: newest snapshot, then the log after it, then a clean end to go on from.

use std::{io, path::PathBuf, sync::Arc};

use bytes::Bytes;

use skopos_disk::{Disk, TakeError};

use crate::{
    entry::{Entry, Event, EventOp, Revision},
    frame::{Damage, FILE_HEADER, FileKind, FrameReader, Record, RecordKind, holds_frame},
    log::{Ends, Log, Sizes, log_name, parse_log_name},
    snapshot,
    space::History,
    state::{Change, State},
};

/// Why a store could not be opened. What is on disk is left as it was, for a human to look at.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory could not be created, locked or written to.
    #[error("use the directory {path}: is it there, writable and not full?")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Another store has the directory open.
    #[error("the directory {path} is in use by process {holder}: stop it, or use another directory")]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process id that the lock file names.
        holder: String,
    },
    /// A file could not be read or written.
    #[error("open {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A file is damaged where no crash can have damaged it. Going on would lose acknowledged writes.
    #[error(
        "{path} is damaged at byte {offset} ({reason}): restore the directory from a backup, or move it \
         away to start empty"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Part of the log is missing.
    #[error(
        "{path} goes on at revision {found} where {expected} should follow: a file of the log is missing; \
         restore the directory from a backup, or move it away to start empty"
    )]
    Gap {
        /// The file.
        path: PathBuf,
        /// The revision that should come.
        expected: Revision,
        /// The one that is there.
        found: Revision,
    },
    /// The files were written by a version with another format.
    #[error("{path} has format version {found}: use the version of the program that wrote it")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
    },
    /// The committer thread could not be started.
    #[error("start the committer thread")]
    Thread(#[source] io::Error),
}

impl OpenError {
    pub(crate) fn take(path: PathBuf, error: TakeError) -> Self {
        match error {
            TakeError::Locked { holder } => Self::Locked { path, holder },
            TakeError::Io(source) => Self::Directory { path, source },
        }
    }

    fn damage(path: PathBuf, offset: u64, damage: Damage) -> Self {
        match damage {
            Damage::Io(source) => Self::Io { path, source },
            Damage::Version(found) => Self::Version { path, found },
            damage => Self::Damaged {
                path,
                offset,
                reason: damage.to_string(),
            },
        }
    }
}

/// A store as it was before it was closed or killed.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) log: Log,
    /// Bytes of log since the snapshot.
    pub(crate) log_bytes: u64,
    /// Bytes of the snapshot.
    pub(crate) snapshot_bytes: u64,
}

/// Reads what the directory holds and makes it ready for writes.
pub(crate) fn recover(disk: &Arc<dyn Disk>, history: &History, sizes: Sizes) -> Result<Recovered, OpenError> {
    let io_error = |source| OpenError::Io {
        path: disk.path(),
        source,
    };
    let names = disk.names().map_err(io_error)?;
    let segments = segments(&**disk, &names).map_err(io_error)?;
    let (state, snapshot_bytes) = load_base(&**disk, &names, &segments, history)?;
    let mut replay = Replay {
        disk: &**disk,
        state,
        last: None,
        is_torn: false,
    };
    let (end, log_bytes) = replay.segments(&segments)?;
    let Replay {
        state, last, is_torn, ..
    } = replay;
    // Before a new file may take the name of an old one.
    tidy(&**disk, &names, &segments);
    let next = Revision(state.revision().0 + 1);
    let log = match end {
        Some((name, len)) => {
            let mut log = reopen(disk, &name, len, is_torn, sizes).map_err(io_error)?;
            if last != Some(state.revision()) {
                // Someone cut the log to before the snapshot. Leave no gap inside a file.
                log.rotate(next).map_err(io_error)?;
            }
            log
        }
        None => Log::create(disk.clone(), next, sizes).map_err(|source| OpenError::Directory {
            path: disk.path(),
            source,
        })?,
    };
    Ok(Recovered {
        state,
        log,
        log_bytes,
        snapshot_bytes,
    })
}

#[derive(Debug)]
struct Segment {
    first: Revision,
}

/// The log files that hold records, in order.
fn segments(disk: &dyn Disk, names: &[String]) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for name in names {
        let Some(first) = parse_log_name(name) else {
            continue;
        };
        // Without records it is left over from a crash or a full disk at the start of a new file.
        if disk.len(name)? > FILE_HEADER as u64 {
            segments.push(Segment { first });
        }
    }
    segments.sort_unstable_by_key(|segment| segment.first);
    Ok(segments)
}

/// The newest snapshot that can be read; without one the empty state.
fn load_base(
    disk: &dyn Disk,
    names: &[String],
    segments: &[Segment],
    history: &History,
) -> Result<(State, u64), OpenError> {
    let mut snapshots: Vec<_> = names
        .iter()
        .filter_map(|name| snapshot::parse_snapshot_name(name))
        .collect();
    snapshots.sort_unstable();
    let mut newest_damage = None;
    for &revision in snapshots.iter().rev() {
        let path = disk.path().join(snapshot::snapshot_name(revision));
        match snapshot::load(disk, revision, history) {
            Ok(loaded) => return Ok(loaded),
            Err((offset, damage)) => {
                let error = OpenError::damage(path.clone(), offset, damage);
                if !matches!(error, OpenError::Damaged { .. }) {
                    return Err(error);
                }
                tracing::warn!(%error, "looking for an older snapshot");
                newest_damage.get_or_insert(error);
            }
        }
    }
    let whole_log = segments.first().is_some_and(|segment| segment.first == FIRST);
    match newest_damage {
        Some(error) if !whole_log => Err(error),
        _ => Ok((State::at(EMPTY, *history), 0)),
    }
}

/// The revision of the empty store. Not 0, which means "any" to Kubernetes clients.
pub(crate) const EMPTY: Revision = Revision(1);
const FIRST: Revision = Revision(EMPTY.0 + 1);

/// Applies the log to the state and checks that nothing is missing.
struct Replay<'a> {
    disk: &'a dyn Disk,
    state: State,
    // The last revision read, also of records that the snapshot already had.
    last: Option<Revision>,
    // Whether the last file has more than room behind its sound part.
    is_torn: bool,
}

impl Replay<'_> {
    /// Applies the files that the snapshot does not replace; returns where the last one ends, and how long
    /// they are together.
    fn segments(&mut self, segments: &[Segment]) -> Result<(Option<(String, u64)>, u64), OpenError> {
        let next = self.state.revision().0 + 1;
        let start = segments.partition_point(|segment| segment.first.0 <= next);
        let needed = &segments[start.saturating_sub(1)..];
        let (mut end, mut total) = (None, 0);
        for (i, segment) in needed.iter().enumerate() {
            let len = self.segment(segment.first, i + 1 == needed.len())?;
            total += len;
            end = Some((log_name(segment.first), len));
        }
        Ok((end, total))
    }

    /// Applies one file; returns the length of its sound part.
    fn segment(&mut self, first: Revision, is_last: bool) -> Result<u64, OpenError> {
        let name = log_name(first);
        let path = self.disk.path().join(&name);
        let damaged = |offset, damage| OpenError::damage(path.clone(), offset, damage);
        let input = self.disk.read(&name).map_err(|error| damaged(0, error.into()))?;
        let (mut frames, header) = FrameReader::open(input, FileKind::Log).map_err(|d| damaged(0, d))?;
        if header != first {
            return Err(damaged(0, Damage::Record("revision does not fit the name")));
        }
        loop {
            let at = frames.offset;
            match frames.next() {
                Ok(None) => return Ok(at),
                Ok(Some((first, records))) => {
                    self.expect(first, &path)?;
                    self.frame(first, records).map_err(|damage| damaged(at, damage))?;
                }
                Err(Damage::Io(source)) => return Err(OpenError::Io { path, source }),
                Err(damage) => {
                    let torn =
                        is_last && !self.frames_follow(&name, at).map_err(|e| damaged(at, e.into()))?;
                    if !torn {
                        return Err(damaged(at, damage));
                    }
                    tracing::warn!(path = %path.display(), offset = at, %damage, "cutting off an unfinished write");
                    self.is_torn = true;
                    return Ok(at);
                }
            }
        }
    }

    /// Each frame is synced before the next is written, so a crash leaves at most one unfinished, and
    /// nothing after it.
    fn frames_follow(&self, name: &str, after: u64) -> io::Result<bool> {
        let mut input = self.disk.read(name)?;
        io::copy(&mut io::Read::take(&mut input, after + 1), &mut io::sink())?;
        let mut rest = Vec::new();
        input.read_to_end(&mut rest)?;
        Ok(holds_frame(&rest, self.last.unwrap_or_default()))
    }

    fn expect(&self, found: Revision, path: &std::path::Path) -> Result<(), OpenError> {
        let last = self.last.map_or(0, |last| last.0);
        // What lies between may be missing only where the snapshot has it.
        let expected = self.state.revision().0 + 1;
        let fits = last < found.0 && found.0 <= expected;
        if fits {
            return Ok(());
        }
        Err(OpenError::Gap {
            path: path.to_owned(),
            expected: Revision(expected),
            found,
        })
    }

    fn frame<'a>(
        &mut self,
        first: Revision,
        records: impl Iterator<Item = Result<Record<'a>, Damage>>,
    ) -> Result<(), Damage> {
        for (revision, record) in (first.0..).zip(records) {
            let record = record?;
            if record.modified.0 != revision {
                return Err(Damage::Record("revision out of order"));
            }
            self.last = Some(record.modified);
            if record.modified > self.state.revision() {
                let change = change(&self.state, &record)?;
                self.state.apply(change);
            }
        }
        Ok(())
    }
}

/// The change that a log record stands for, on top of the state before it.
fn change(state: &State, record: &Record<'_>) -> Result<Change, Damage> {
    let op = match record.kind {
        RecordKind::Put => EventOp::Put,
        RecordKind::Delete => EventOp::Delete,
        RecordKind::DropSpace => {
            return Ok(Change::DropSpace {
                space: record.space.into(),
                revision: record.modified,
            });
        }
        RecordKind::Entry | RecordKind::End => return Err(Damage::Record("not a record of a log")),
    };
    let named = state.space_named(record.space);
    let previous = named.and_then(|(_, space)| space.get(record.key)).cloned();
    let space = named.map_or_else(|| record.space.into(), |(name, _)| name.clone());
    let entry = Arc::new(Entry {
        key: record.key.into(),
        value: Bytes::from(Box::<[u8]>::from(record.value)),
        created: record.created,
        modified: record.modified,
    });
    let event = Event {
        op,
        created: previous.is_none(),
        entry,
        previous,
    };
    Ok(Change::Event {
        space,
        event: Arc::new(event),
    })
}

/// Opens the last log file for appending, without what was torn. Synced, because a killed process may
/// have left records that only the page cache knows, and readers are about to see them.
fn reopen(disk: &Arc<dyn Disk>, name: &str, len: u64, is_torn: bool, sizes: Sizes) -> io::Result<Log> {
    let mut file = disk.resume(name, len)?;
    if is_torn {
        file.truncate(len)?;
    }
    file.sync()?;
    disk.sync_names()?;
    let room = disk.len(name)?;
    Ok(Log::resume(disk.clone(), file, Ends { len, room }, sizes))
}

/// Removes temporary files and log files without records. Failure is harmless: the next start tries again.
fn tidy(disk: &dyn Disk, names: &[String], segments: &[Segment]) {
    for name in names {
        let empty_log =
            parse_log_name(name).is_some_and(|first| segments.iter().all(|kept| kept.first != first));
        if empty_log || name.ends_with(".tmp") {
            let _ = disk.remove(name);
        }
    }
}

/// What [`read_log`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSummary {
    /// Records of whole frames.
    pub records: u64,
    /// Where the sound part ends.
    pub sound_bytes: u64,
    /// Why it ends there, if not because the file does.
    pub damage: Option<String>,
}

/// Reads the bytes of one log file and says what is in it. For inspection and for fuzzing: whatever the
/// bytes are, it neither panics nor allocates more than they warrant.
pub fn read_log(bytes: &[u8]) -> LogSummary {
    let mut summary = LogSummary {
        records: 0,
        sound_bytes: 0,
        damage: None,
    };
    if let Err(damage) = read_frames(bytes, &mut summary) {
        summary.damage = Some(damage.to_string());
    }
    summary
}

fn read_frames(bytes: &[u8], summary: &mut LogSummary) -> Result<(), Damage> {
    let (mut frames, _) = FrameReader::open(bytes, FileKind::Log)?;
    summary.sound_bytes = frames.offset;
    while let Some((_, records)) = frames.next()? {
        let mut count = 0;
        for record in records {
            record?;
            count += 1;
        }
        summary.records += count;
        summary.sound_bytes = frames.offset;
    }
    Ok(())
}
