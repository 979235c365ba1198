//! The committer: the one thread that changes the state.
//!
//! It takes whatever writes are queued, decides them as one group, makes the group durable with one sync,
//! and only then shows it to readers, wakes watchers and answers the writers.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::Ordering::Relaxed},
};

use tokio::sync::{mpsc, oneshot};

use crate::{
    plan::{Task, plan},
    state::{Change, State},
    stats::{Counters, add},
    write::WriteError,
};

/// What readers, watchers and the committer share.
#[derive(Debug)]
pub(crate) struct Core {
    // The only lock. Written to by the committer, and for moments by watch(), compact() and maintain().
    state: RwLock<State>,
    pub(crate) counters: Counters,
}

impl Core {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: RwLock::new(state),
            counters: Counters::default(),
        }
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

/// A queued task and where its outcome goes.
#[derive(Debug)]
pub(crate) enum Request {
    Task {
        task: Task,
        answer: oneshot::Sender<Result<Change, WriteError>>,
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

pub(crate) struct Committer {
    pub(crate) core: Arc<Core>,
    pub(crate) queue: mpsc::Receiver<Request>,
    pub(crate) limits: Limits,
}

impl Committer {
    /// Commits until the store is closed or dropped, and the queue is empty.
    pub(crate) fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let (tasks, answers) = self.gather(first);
            self.commit(&tasks, answers);
        }
    }

    fn gather(&mut self, first: Request) -> (Vec<Task>, Vec<oneshot::Sender<Result<Change, WriteError>>>) {
        let (mut tasks, mut answers) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Task { task, answer } => {
                    tasks.push(task);
                    answers.push(answer);
                }
                Request::Close => self.queue.close(),
            }
            next = if tasks.len() < self.limits.max_batch {
                self.queue.try_recv().ok()
            } else {
                None
            };
        }
        (tasks, answers)
    }

    fn commit(&mut self, tasks: &[Task], answers: Vec<oneshot::Sender<Result<Change, WriteError>>>) {
        let outcomes = plan(&self.core.read(), tasks, self.limits.max_write_bytes);
        self.publish(&outcomes);
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // A writer that went away does not undo its write.
            let _ = answer.send(outcome);
        }
    }

    fn publish(&self, outcomes: &[Result<Change, WriteError>]) {
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
        let counters = &self.core.counters;
        add(&counters.commits, commits);
        add(&counters.conflicts, outcomes.len() as u64 - commits);
        add(&counters.compacted_events, evicted);
        counters.batches.fetch_add(u64::from(commits > 0), Relaxed);
    }
}
