//! The committer's side of the disk: the log, and when to rotate it and take snapshots.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use skopos_disk::Disk;

use crate::{
    commit::Core,
    entry::Revision,
    log::Log,
    snapshot,
    state::Change,
    stats::{Counters, add},
    write::StorageError,
};

/// The log and the snapshot thread, if one runs.
#[derive(Debug)]
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    log: Log,
    snapshot_after_bytes: u64,
    // Bytes of log that the next snapshot would replace.
    log_bytes: u64,
    snapshot_bytes: u64,
    // Do not try again before the log is this long.
    retry_at: u64,
    snapshot: Option<Running>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<io::Result<()>>,
    // Bytes of log that it replaces.
    log_bytes: u64,
}

// After a failed rotation or snapshot, so much log is written before the next attempt.
const RETRY_AFTER_BYTES: u64 = 1 << 20;

impl Journal {
    pub(crate) fn new(disk: Arc<dyn Disk>, log: Log, snapshot_after_bytes: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        Self {
            disk,
            log,
            snapshot_after_bytes,
            log_bytes: 0,
            snapshot_bytes: 0,
            retry_at: 0,
            snapshot: None,
            stop,
        }
    }

    /// Starts from what recovery found.
    pub(crate) fn with_sizes(mut self, log_bytes: u64, snapshot_bytes: u64) -> Self {
        self.log_bytes = log_bytes;
        self.snapshot_bytes = snapshot_bytes;
        self
    }

    pub(crate) fn append(&mut self, changes: &[&Change], counters: &Counters) -> Result<(), StorageError> {
        let written = self.log.append(changes, counters)?;
        self.log_bytes += written;
        Ok(())
    }

    /// Starts a new log file or a snapshot if it is time to. Called between groups, so that the state is
    /// exactly what the log says.
    pub(crate) fn keep_short(&mut self, core: &Arc<Core>) {
        self.reap(core);
        if !self.log.is_sound() || self.log_bytes < self.retry_at {
            return;
        }
        let long = self.log_bytes >= self.snapshot_after_bytes.max(self.snapshot_bytes);
        let due = long && self.snapshot.is_none();
        if !due && !self.log.is_long() {
            return;
        }
        let next = Revision(core.read().revision().0 + 1);
        if let Err(error) = self.log.rotate(next) {
            tracing::warn!(%error, "could not start a new log file, going on in the old one");
            self.retry_at = self.log_bytes + RETRY_AFTER_BYTES;
            return;
        }
        if due {
            self.start_snapshot(core);
        }
    }

    /// Stops the snapshot if one runs, and waits for it.
    pub(crate) fn finish(mut self, core: &Core) {
        self.stop.store(true, Relaxed);
        self.join(core);
    }

    fn start_snapshot(&mut self, core: &Arc<Core>) {
        let (core, disk, stop) = (core.clone(), self.disk.clone(), self.stop.clone());
        let job = move || snapshot::take(&core, &*disk, &stop);
        match thread::Builder::new().name("store-snapshot".into()).spawn(job) {
            Ok(thread) => {
                self.snapshot = Some(Running {
                    thread,
                    log_bytes: self.log_bytes,
                });
                self.log_bytes = 0;
                self.retry_at = 0;
            }
            Err(error) => {
                tracing::warn!(%error, "could not start the snapshot thread, the log is kept");
                self.retry_at = self.log_bytes + RETRY_AFTER_BYTES;
            }
        }
    }

    fn reap(&mut self, core: &Core) {
        if self
            .snapshot
            .as_ref()
            .is_some_and(|running| running.thread.is_finished())
        {
            self.join(core);
        }
    }

    fn join(&mut self, core: &Core) {
        let Some(running) = self.snapshot.take() else {
            return;
        };
        match running.thread.join() {
            Ok(Ok(())) => self.snapshot_bytes = core.counters.snapshot_bytes.load(Relaxed),
            Ok(Err(error)) if self.stop.load(Relaxed) => tracing::debug!(%error, "snapshot given up"),
            outcome => {
                add(&core.counters.snapshot_errors, 1);
                self.log_bytes += running.log_bytes;
                self.retry_at = self.log_bytes + RETRY_AFTER_BYTES;
                let error = outcome.ok().and_then(Result::err).map(|error| error.to_string());
                tracing::warn!(?error, "snapshot failed, the log is kept");
            }
        }
    }
}
