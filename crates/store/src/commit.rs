//! The committer: the one place that changes the state.
//!
//! With a log it is a thread: it takes whatever writes are queued, decides them as one group, makes the group
//! durable with one sync, and only then shows it to readers, wakes watchers and answers the writers. In memory
//! there is nothing to wait for, and every write is a group of its own, committed where it is made.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    entry::Entry,
    journal::Journal,
    plan::{Task, plan},
    state::{Change, State},
    stats::{Counters, add},
    write::{StorageError, WriteError},
};

/// What readers, watchers and the committer share.
#[derive(Debug)]
pub(crate) struct Core {
    // The only lock. Written to by the committer, and for moments by watch(), compact() and maintain().
    state: RwLock<State>,
    // Never held together with `state`.
    failure: Mutex<Option<StorageError>>,
    pub(crate) counters: Counters,
}

impl Core {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: RwLock::new(state),
            failure: Mutex::new(None),
            counters: Counters::default(),
        }
    }

    /// Why the last write to the log failed, if it did.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_failure(&self, failure: Option<StorageError>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    // A panic while the lock is held is a bug, and the state is replaced key by key: better to go on
    // serving than to turn every later request into a panic too.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Told of the entry that a write made.
pub(crate) type Observer = Box<dyn FnOnce(&Entry) + Send>;

/// Who asked for a task.
pub(crate) struct Writer {
    /// Called once the change is visible, whether or not the writer still waits.
    pub(crate) observer: Option<Observer>,
    pub(crate) answer: oneshot::Sender<Result<Change, WriteError>>,
}

impl Writer {
    fn tell(self, outcome: Result<Change, WriteError>) {
        if let (Some(observer), Ok(change)) = (self.observer, &outcome) {
            change.show(observer);
        }
        // A writer that went away does not undo its write.
        let _ = self.answer.send(outcome);
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

// With the largest write on top a group stays below what one frame may hold.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// A queued task and who waits for its outcome.
#[derive(Debug)]
pub(crate) enum Request {
    Task {
        task: Task,
        writer: Writer,
    },
    /// Finish what is queued and stop.
    Close,
}

/// The bounds of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_batch: usize,
    pub(crate) max_write_bytes: usize,
}

/// Decides groups of writes and carries them out.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) core: Arc<Core>,
    pub(crate) limits: Limits,
    /// The log and its snapshots; `None` keeps everything in memory.
    pub(crate) journal: Option<Journal>,
}

pub(crate) struct Committer {
    pub(crate) groups: Groups,
    pub(crate) queue: mpsc::Receiver<Request>,
    // Dropped last: tells that files and lock are given back.
    pub(crate) _done: watch::Sender<()>,
}

impl Committer {
    /// Commits until the store is closed or dropped, and the queue is empty.
    pub(crate) fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let (tasks, writers) = self.gather(first);
            let outcomes = self.groups.commit(&tasks);
            for (writer, outcome) in writers.into_iter().zip(outcomes) {
                writer.tell(outcome);
            }
            if let Some(journal) = &mut self.groups.journal {
                journal.keep_short(&self.groups.core);
            }
        }
        if let Some(journal) = self.groups.journal.take() {
            journal.finish(&self.groups.core);
        }
    }

    fn gather(&mut self, first: Request) -> (Vec<Task>, Vec<Writer>) {
        let (mut tasks, mut writers) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Task { task, writer } => {
                    bytes += task.size();
                    tasks.push(task);
                    writers.push(writer);
                }
                Request::Close => self.queue.close(),
            }
            let room = tasks.len() < self.groups.limits.max_batch && bytes < MAX_BATCH_BYTES;
            next = if room { self.queue.try_recv().ok() } else { None };
        }
        (tasks, writers)
    }
}

impl Groups {
    /// Commits one group; when it returns, readers and watchers see it.
    pub(crate) fn commit(&mut self, tasks: &[Task]) -> Vec<Result<Change, WriteError>> {
        let mut outcomes = plan(&self.core.read(), tasks, self.limits.max_write_bytes);
        if let Some(journal) = &mut self.journal {
            let changes: Vec<_> = outcomes.iter().flatten().collect();
            let appended = journal.append(&changes, &self.core.counters);
            self.core.set_failure(appended.as_ref().err().cloned());
            if let Err(error) = appended {
                add(&self.core.counters.storage_errors, changes.len() as u64);
                // Conflicts too: they may be with a write of this group, which now never happened.
                outcomes.fill_with(|| Err(WriteError::Storage(error.clone())));
            }
        }
        self.publish(&outcomes);
        outcomes
    }

    fn publish(&self, outcomes: &[Result<Change, WriteError>]) {
        if outcomes.iter().all(Result::is_err) {
            return self.count(outcomes, 0, 0);
        }
        let mut state = self.core.write();
        let (mut commits, mut evicted) = (0, 0);
        let mut spaces = HashSet::new();
        for change in outcomes.iter().flatten() {
            evicted += state.apply(change.clone()) as u64;
            commits += 1;
            if let Change::Event { space, .. } = change {
                spaces.insert(space);
            }
        }
        for space in spaces.into_iter().filter_map(|name| state.space(name)) {
            space.ring_bell();
        }
        drop(state);
        self.count(outcomes, commits, evicted);
    }

    fn count(&self, outcomes: &[Result<Change, WriteError>], commits: u64, evicted: u64) {
        let counters = &self.core.counters;
        let conflicts = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Err(WriteError::Conflict { .. })));
        add(&counters.commits, commits);
        add(&counters.conflicts, conflicts.count() as u64);
        add(&counters.compacted_events, evicted);
        add(&counters.batches, u64::from(commits > 0));
    }
}
