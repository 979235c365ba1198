//! The append side of the log, and what happens when the disk does not do as it is told.

use std::{io, sync::Arc, time::Instant};

use skopos_disk::{Disk, DiskFile, is_no_space, write_all};

use crate::{
    entry::{EventOp, Revision},
    frame::{FILE_HEADER, FileKind, FrameBuffer, Record, RecordKind, file_header},
    state::Change,
    stats::{Counters, add},
    write::StorageError,
};

/// The name of the log file whose first record takes `first`.
pub(crate) fn log_name(first: Revision) -> String {
    format!("log-{:020}", first.0)
}

/// The revision in the name of a log file; `None` if it is none.
pub(crate) fn parse_log_name(name: &str) -> Option<Revision> {
    name.strip_prefix("log-")?.parse().ok().map(Revision)
}

/// Whether the log may be written to.
#[derive(Debug)]
enum Health {
    Good,
    /// The file is longer than `len` and could not be cut yet: cut it before the next write.
    Overhang,
    /// A sync failed: what is on disk is unknown, and asking again could report a success that is none.
    Failed(Arc<str>),
}

/// The log file that is being appended to.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    // The length that is durable; nothing beyond it was acknowledged.
    len: u64,
    // Up to here the file is there already, as zeros. Never less than `len` says, possibly more than is true.
    room: u64,
    health: Health,
    sizes: Sizes,
    frame: FrameBuffer,
}

/// Where the frames of a file end, and where the room behind them does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) len: u64,
    pub(crate) room: u64,
}

/// How log files grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A file that is longer is followed by another.
    pub(crate) segment_bytes: u64,
    /// So much room is made at once for what is to come, by a file that holds as much already.
    pub(crate) room_bytes: u64,
}

/// Room that even a new file makes. A short log has little more: every start looks through all of it.
const LEAST_ROOM: u64 = 64 << 10;

impl Sizes {
    /// How much room a file of `len` bytes makes.
    fn room_for(self, len: u64) -> u64 {
        len.max(LEAST_ROOM).min(self.room_bytes)
    }
}

impl Log {
    /// Goes on at the end of a file that was recovered up to `len` and synced.
    pub(crate) fn resume(disk: Arc<dyn Disk>, file: Box<dyn DiskFile>, ends: Ends, sizes: Sizes) -> Self {
        Self {
            disk,
            file,
            len: ends.len,
            room: ends.room,
            health: Health::Good,
            sizes,
            frame: FrameBuffer::default(),
        }
    }

    /// Starts a new file.
    pub(crate) fn create(disk: Arc<dyn Disk>, first: Revision, sizes: Sizes) -> io::Result<Self> {
        let file = create_segment(&*disk, first)?;
        let len = FILE_HEADER as u64;
        Ok(Self::resume(disk, file, Ends { len, room: len }, sizes))
    }

    /// Makes the changes durable, all or none, and says how many bytes that took. Revisions are dense.
    pub(crate) fn append(&mut self, changes: &[&Change], counters: &Counters) -> Result<u64, StorageError> {
        let Some(first) = changes.first().map(|change| change.revision()) else {
            return Ok(0);
        };
        self.make_ready()?;
        self.frame.begin();
        for change in changes {
            self.frame.push(&record(change));
        }
        let started = Instant::now();
        let written = self.frame.len() as u64;
        self.make_room(written);
        let frame = self.frame.finish(first);
        if let Err(error) = write_all(&mut *self.file, frame) {
            return Err(self.write_failed(&error));
        }
        if let Err(error) = self.file.sync() {
            return Err(self.sync_failed(&error));
        }
        self.len += written;
        add(&counters.syncs, 1);
        add(
            &counters.sync_nanos,
            u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        );
        add(&counters.log_bytes, written);
        Ok(written)
    }

    /// Lets the file grow ahead of what is written. If that fails it grows with each write.
    fn make_room(&mut self, needed: u64) {
        let ahead = self.sizes.room_for(self.len);
        if ahead == 0 || self.len + needed <= self.room {
            return;
        }
        if let Err(error) = self.file.reserve(needed + ahead) {
            tracing::debug!(%error, "no room ahead of the log");
        }
        // Also after a failure: it is soon enough to try again when that much is written.
        self.room = self.len + needed + ahead;
    }

    fn make_ready(&mut self) -> Result<(), StorageError> {
        match &self.health {
            Health::Good => Ok(()),
            Health::Overhang => self.cut_back(),
            Health::Failed(message) => Err(StorageError::Failed {
                message: message.clone(),
            }),
        }
    }

    /// Whether the present file ends cleanly. Only then may another one follow it.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.health, Health::Good)
    }

    /// Whether the present file is long enough.
    pub(crate) fn is_long(&self) -> bool {
        self.len >= self.sizes.segment_bytes
    }

    /// Goes on in a new file whose first record will take `first`. If that fails the present one stays.
    pub(crate) fn rotate(&mut self, first: Revision) -> io::Result<()> {
        if self.len <= FILE_HEADER as u64 {
            return Ok(());
        }
        match create_segment(&*self.disk, first) {
            Ok(file) => {
                // What is left of the room goes. If not, it is only zeros that nobody minds.
                if self.room > self.len {
                    let _ = self.file.truncate(self.len);
                }
                self.file = file;
                (self.len, self.room) = (FILE_HEADER as u64, FILE_HEADER as u64);
                Ok(())
            }
            Err(error) => {
                // Recovery ignores log files without records, so a leftover does no harm.
                let _ = self.disk.remove(&log_name(first));
                Err(error)
            }
        }
    }

    /// A write that failed left part of a frame: cut it off, so that a restart finds a clean end.
    fn write_failed(&mut self, error: &io::Error) -> StorageError {
        self.health = Health::Overhang;
        match self.cut_back() {
            Ok(()) if is_no_space(error) => StorageError::NoSpace {
                message: error.to_string().into(),
            },
            Ok(()) => self.fail("write", error),
            Err(cut) if matches!(self.health, Health::Failed(_)) => cut,
            Err(_) if is_no_space(error) => StorageError::NoSpace {
                message: error.to_string().into(),
            },
            Err(_) => self.fail("write", error),
        }
    }

    fn sync_failed(&mut self, error: &io::Error) -> StorageError {
        // The group was not acknowledged. Take it away as far as that works, so that a restart does not
        // bring it back from a page cache that the disk never got.
        let _ = self.file.truncate(self.len);
        self.room = self.len;
        self.fail("sync", error)
    }

    fn cut_back(&mut self) -> Result<(), StorageError> {
        if let Err(error) = self.file.truncate(self.len) {
            return Err(StorageError::NoSpace {
                message: format!("cut back the log: {error}").into(),
            });
        }
        self.room = self.len;
        match self.file.sync() {
            Ok(()) => {
                self.health = Health::Good;
                Ok(())
            }
            Err(error) => Err(self.fail("sync", &error)),
        }
    }

    fn fail(&mut self, action: &str, error: &io::Error) -> StorageError {
        let path = self.disk.path();
        tracing::error!(path = %path.display(), action, %error, "the log takes no more writes until a restart");
        let message: Arc<str> = format!("{action} the log in {}: {error}", path.display()).into();
        self.health = Health::Failed(message.clone());
        StorageError::Failed { message }
    }
}

/// Creates a log file with its header, durably.
fn create_segment(disk: &dyn Disk, first: Revision) -> io::Result<Box<dyn DiskFile>> {
    let mut file = disk.create(&log_name(first))?;
    write_all(&mut *file, &file_header(FileKind::Log, first))?;
    file.sync()?;
    disk.sync_names()?;
    Ok(file)
}

fn record(change: &Change) -> Record<'_> {
    match change {
        Change::Event { space, event } => Record {
            kind: if event.op == EventOp::Put {
                RecordKind::Put
            } else {
                RecordKind::Delete
            },
            space,
            key: &event.entry.key,
            value: &event.entry.value,
            created: event.entry.created,
            modified: event.entry.modified,
        },
        Change::DropSpace { space, revision } => Record {
            kind: RecordKind::DropSpace,
            space,
            key: "",
            value: &[],
            created: *revision,
            modified: *revision,
        },
    }
}
