//! Snapshots: the whole state in one file, so that the log before it can go.

use std::{
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use bytes::Bytes;

use skopos_disk::{Disk, DiskFile};

use crate::{
    commit::Core,
    entries::View,
    entry::{Entry, Revision},
    frame::{Damage, FileKind, FrameBuffer, FrameReader, Record, RecordKind, file_header},
    log::parse_log_name,
    space::History,
    state::State,
    stats::add,
};

const FRAME_BYTES: usize = 256 << 10;
const TEMPORARY: &str = "snapshot.tmp";

/// The name of the snapshot of the state at `revision`.
pub(crate) fn snapshot_name(revision: Revision) -> String {
    format!("snapshot-{:020}", revision.0)
}

/// The revision in the name of a snapshot; `None` if it is none.
pub(crate) fn parse_snapshot_name(name: &str) -> Option<Revision> {
    name.strip_prefix("snapshot-")?.parse().ok().map(Revision)
}

/// The state at one revision: shared entries, no copies.
struct Image {
    revision: Revision,
    spaces: Vec<(Arc<str>, View)>,
}

impl Image {
    fn of(state: &State) -> Self {
        let spaces = state.spaces().filter(|(_, space)| space.len() > 0);
        let spaces = spaces.map(|(name, space)| (name.clone(), space.view("", None)));
        Self {
            revision: state.revision(),
            spaces: spaces.collect(),
        }
    }
}

/// Writes a snapshot of the present state and removes the log files and snapshots that it replaces.
///
/// Runs on its own thread beside the committer; `stop` makes it give up.
pub(crate) fn take(core: &Core, disk: &dyn Disk, stop: &AtomicBool) -> io::Result<()> {
    let started = Instant::now();
    let image = Image::of(&core.read());
    let written = write(&image, disk, stop).inspect_err(|_| {
        // Recovery removes leftovers too.
        let _ = disk.remove(TEMPORARY);
    })?;
    let counters = &core.counters;
    counters.snapshot_bytes.store(written, Relaxed);
    add(&counters.snapshots, 1);
    add(
        &counters.snapshot_nanos,
        u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
    );
    tracing::info!(revision = image.revision.0, bytes = written, "snapshot written");
    remove_replaced(disk, image.revision)
}

fn write(image: &Image, disk: &dyn Disk, stop: &AtomicBool) -> io::Result<u64> {
    let mut out = Output {
        file: disk.create(TEMPORARY)?,
        written: 0,
        revision: image.revision,
    };
    out.write(&file_header(FileKind::Snapshot, image.revision))?;
    let mut frame = FrameBuffer::default();
    frame.begin();
    let mut count = 0;
    for (space, entries) in &image.spaces {
        for entry in entries.iter() {
            frame.push(&entry_record(space, entry));
            count += 1;
            if frame.len() >= FRAME_BYTES {
                if stop.load(Relaxed) {
                    return Err(io::Error::new(io::ErrorKind::Interrupted, "the store is closing"));
                }
                out.frame(&mut frame)?;
            }
        }
    }
    frame.push(&end_record(count, image.revision));
    out.frame(&mut frame)?;
    out.file.sync()?;
    disk.rename(TEMPORARY, &snapshot_name(image.revision))?;
    disk.sync_names()?;
    Ok(out.written)
}

struct Output {
    file: Box<dyn DiskFile>,
    written: u64,
    revision: Revision,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn frame(&mut self, frame: &mut FrameBuffer) -> io::Result<()> {
        self.write(frame.finish(self.revision))?;
        frame.begin();
        Ok(())
    }
}

fn entry_record<'a>(space: &'a str, entry: &'a Entry) -> Record<'a> {
    let Entry {
        key,
        value,
        created,
        modified,
    } = entry;
    Record {
        kind: RecordKind::Entry,
        space,
        key,
        value,
        created: *created,
        modified: *modified,
    }
}

fn end_record(count: u64, revision: Revision) -> Record<'static> {
    let created = Revision(count);
    Record {
        kind: RecordKind::End,
        space: "",
        key: "",
        value: &[],
        created,
        modified: revision,
    }
}

/// Removes what a snapshot at `revision` makes needless. The newest log file always stays.
pub(crate) fn remove_replaced(disk: &dyn Disk, revision: Revision) -> io::Result<()> {
    let names = disk.names()?;
    let mut logs: Vec<_> = names
        .iter()
        .filter_map(|name| Some((parse_log_name(name)?, name)))
        .collect();
    logs.sort_unstable();
    // A log file is needless if the next one begins at or before the record after the snapshot.
    let needless = logs
        .windows(2)
        .filter(|pair| pair[1].0.0 <= revision.0 + 1)
        .map(|pair| pair[0].1);
    let older = names
        .iter()
        .filter(|name| parse_snapshot_name(name).is_some_and(|older| older < revision));
    for name in needless.chain(older) {
        disk.remove(name)?;
    }
    disk.sync_names()
}

/// Loads the snapshot of that revision into a fresh state; also says how long the file is.
pub(crate) fn load(
    disk: &dyn Disk,
    revision: Revision,
    history: &History,
) -> Result<(State, u64), (u64, Damage)> {
    let input = disk
        .read(&snapshot_name(revision))
        .map_err(|error| (0, error.into()))?;
    let (mut frames, header) = FrameReader::open(input, FileKind::Snapshot).map_err(|damage| (0, damage))?;
    if header != revision {
        return Err((0, Damage::Record("revision does not fit the name")));
    }
    let mut state = State::at(revision, *history);
    let mut count = 0;
    loop {
        let at = frames.offset;
        let done = match frames.next() {
            Ok(Some((_, records))) => load_frame(&mut state, records, &mut count),
            Ok(None) => Err(Damage::Short("snapshot")),
            Err(damage) => Err(damage),
        };
        match done {
            Ok(true) => return Ok((state, frames.offset)),
            Ok(false) => {}
            Err(damage) => return Err((at, damage)),
        }
    }
}

/// Loads one frame; true once the end record was there and right.
fn load_frame<'a>(
    state: &mut State,
    records: impl Iterator<Item = Result<Record<'a>, Damage>>,
    count: &mut u64,
) -> Result<bool, Damage> {
    for record in records {
        let record = record?;
        match record.kind {
            RecordKind::Entry => state.space_mut(record.space).restore(Arc::new(Entry {
                key: record.key.into(),
                value: Bytes::from(Box::<[u8]>::from(record.value)),
                created: record.created,
                modified: record.modified,
            })),
            RecordKind::End if record.created.0 == *count => return Ok(true),
            RecordKind::End => return Err(Damage::Record("entries are missing")),
            _ => return Err(Damage::Record("not a record of a snapshot")),
        }
        *count += 1;
    }
    Ok(false)
}
