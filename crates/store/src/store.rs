//! The handle that everybody uses.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};

use skopos_disk::{Directory, Disk};

use crate::{
    commit::{Committer, Core, Groups, Limits, Observer, Request, Writer},
    entry::{Compacted, Entry, Revision},
    journal::Journal,
    log::Sizes,
    plan::Task,
    recover::{EMPTY, OpenError, recover},
    space::{History, Space},
    state::{Change, Page, Range, State},
    stats::Stats,
    watcher::Watcher,
    write::{StorageError, Write, WriteError},
};

/// How to open a [`Store`]. The default is memory only.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to keep the log and snapshots; `None` keeps everything in memory and loses it on close.
    pub dir: Option<PathBuf>,
    /// How much history each space keeps.
    pub history: History,
    /// A snapshot is taken when the log since the last one exceeds this and the size of that snapshot.
    pub snapshot_after_bytes: u64,
    /// The log goes on in a new file when one exceeds this.
    pub segment_bytes: u64,
    /// A file of the log grows by so much ahead of what is written, which makes syncs quicker; by less while it is
    /// shorter than that, since every start looks through it. 0 lets it grow with each write.
    pub room_bytes: u64,
    /// How many writes may wait. Full: writers wait in [`Store::write`], in order.
    pub queue_capacity: usize,
    /// How many writes share one sync at most.
    pub max_batch: usize,
    /// Space, key and value of one write; 32 MiB at most. Larger ones are refused.
    pub max_write_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dir: None,
            history: History::default(),
            snapshot_after_bytes: 64 << 20,
            segment_bytes: 16 << 20,
            room_bytes: 1 << 20,
            queue_capacity: 1024,
            max_batch: 512,
            max_write_bytes: 8 << 20,
        }
    }
}

const MAX_WRITE_BYTES: usize = 32 << 20;

/// A cloneable handle to the store. The last one to be dropped stops the committer and waits for it.
#[derive(Clone, Debug)]
pub struct Store {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    core: Arc<Core>,
    way: Way,
}

/// How writes are committed.
#[derive(Debug)]
enum Way {
    /// By a thread that may wait for a disk.
    Queued {
        // None only while dropping: the committer ends when the last sender is gone.
        queue: Option<mpsc::Sender<Request>>,
        ended: watch::Receiver<()>,
        committer: Mutex<Option<thread::JoinHandle<()>>>,
    },
    /// At once, by whoever writes; `None` after the store is closed. Taken before the lock of `core`.
    AtOnce(Mutex<Option<Groups>>),
}

impl Store {
    /// Opens the store and recovers what the directory holds.
    ///
    /// Reads the whole directory, so it takes a while: call it before serving, or on a blocking thread.
    pub fn open(mut config: Config) -> Result<Self, OpenError> {
        let Some(path) = config.dir.take() else {
            return Self::start(State::at(EMPTY, config.history), None, &config);
        };
        let disk = Directory::take(&path).map_err(|error| OpenError::take(path, error))?;
        Self::open_on(Arc::new(disk), &config)
    }

    /// Opens the store that a disk holds.
    pub(crate) fn open_on(disk: Arc<dyn Disk>, config: &Config) -> Result<Self, OpenError> {
        let sizes = Sizes {
            segment_bytes: config.segment_bytes,
            room_bytes: config.room_bytes,
        };
        let recovered = recover(&disk, &config.history, sizes)?;
        let journal = Journal::new(disk, recovered.log, config.snapshot_after_bytes);
        let journal = journal.with_sizes(recovered.log_bytes, recovered.snapshot_bytes);
        Self::start(recovered.state, Some(journal), config)
    }

    fn start(state: State, journal: Option<Journal>, config: &Config) -> Result<Self, OpenError> {
        let core = Arc::new(Core::new(state));
        let limits = Limits {
            max_batch: config.max_batch.max(1),
            max_write_bytes: config.max_write_bytes.min(MAX_WRITE_BYTES),
        };
        let is_durable = journal.is_some();
        let groups = Groups {
            core: core.clone(),
            limits,
            journal,
        };
        let way = match is_durable {
            true => Way::queued(groups, config.queue_capacity)?,
            false => Way::AtOnce(Mutex::new(Some(groups))),
        };
        Ok(Self {
            handle: Arc::new(Handle { core, way }),
        })
    }

    /// The last revision that is durable and visible.
    pub fn revision(&self) -> Revision {
        self.handle.core.read().revision()
    }

    /// The entry under a key now.
    pub fn get(&self, space: &str, key: &str) -> Option<Arc<Entry>> {
        self.handle.core.read().space(space)?.get(key).cloned()
    }

    /// A part of a space, now or at an older revision that is still in the history.
    pub fn list(&self, space: &str, range: &Range) -> Result<Page, Compacted> {
        let cut = self.handle.core.read().cut(space, range)?;
        Ok(cut.page(range))
    }

    /// How many entries a space holds.
    pub fn count(&self, space: &str) -> usize {
        self.handle.core.read().space(space).map_or(0, Space::len)
    }

    /// The names of the spaces that hold entries, sorted.
    pub fn spaces(&self) -> Vec<Arc<str>> {
        self.handle.core.read().names()
    }

    /// Commits one write and returns its entry, or the tombstone of a delete, once it is durable and visible.
    ///
    /// Waits while the queue is full. A caller that stops waiting does not undo a write that is queued.
    pub async fn write(&self, write: Write) -> Result<Arc<Entry>, WriteError> {
        entry_of(self.submit(Task::Write(write), None).await?)
    }

    /// Commits one write, and shows its entry to `observer` before the writer gets it.
    ///
    /// A write that is queued is observed also if the caller stops waiting, and one that fails is not. The observer may
    /// run on the committer's thread, between groups: it should take no longer than a lock and a notification.
    pub async fn write_observed(
        &self,
        write: Write,
        observer: impl FnOnce(&Entry) + Send + 'static,
    ) -> Result<Arc<Entry>, WriteError> {
        entry_of(self.submit(Task::Write(write), Some(Box::new(observer))).await?)
    }

    /// Removes a space with all its entries, without events: its watchers are cut off.
    pub async fn drop_space(&self, space: &str) -> Result<Revision, WriteError> {
        Ok(self.submit(Task::DropSpace(space.into()), None).await?.revision())
    }

    /// Follows the events of a space under a prefix, from after a revision. A revision that is still to
    /// come is waited for.
    pub fn watch(&self, space: &str, prefix: &str, after: Revision) -> Result<Watcher, Compacted> {
        Watcher::new(self.handle.core.clone(), space, prefix, after)
    }

    /// Forgets the history up to and including a revision, in every space.
    pub fn compact(&self, upto: Revision) {
        let evicted = self.handle.core.write().compact(upto);
        self.count_compacted(evicted);
    }

    /// Forgets events older than [`History::max_age`]. To be called every few seconds with the time since
    /// any fixed moment; the store itself has no clock.
    pub fn maintain(&self, now: Duration) {
        let evicted = self.handle.core.write().maintain(now);
        self.count_compacted(evicted);
    }

    /// Why the log takes no writes just now; reads go on.
    pub fn failure(&self) -> Option<StorageError> {
        self.handle.core.failure()
    }

    /// Counters and present values.
    pub fn stats(&self) -> Stats {
        let mut stats = self.handle.core.counters.read();
        for (_, space) in self.handle.core.read().spaces() {
            let (events, bytes) = space.held();
            stats.history_events += events;
            stats.history_bytes += bytes;
        }
        if let Way::Queued {
            queue: Some(queue), ..
        } = &self.handle.way
        {
            stats.queue_capacity = queue.max_capacity();
            stats.queued_writes = queue.max_capacity() - queue.capacity();
        }
        stats
    }

    /// Commits what is queued, refuses what comes later, and waits until the committer has stopped.
    /// Reads go on working.
    pub async fn close(&self) {
        match &self.handle.way {
            Way::AtOnce(groups) => *lock(groups) = None,
            Way::Queued { queue, ended, .. } => {
                if let Some(queue) = queue {
                    let _ = queue.send(Request::Close).await;
                }
                // Fails when the committer is gone, which is what is waited for.
                while ended.clone().changed().await.is_ok() {}
                self.handle.way.join();
            }
        }
    }

    async fn submit(&self, task: Task, observer: Option<Observer>) -> Result<Change, WriteError> {
        let queue = match &self.handle.way {
            Way::AtOnce(groups) => {
                let change = commit_at_once(groups, task)?;
                if let Some(observer) = observer {
                    change.show(observer);
                }
                // As where a disk is waited for, those who were told have their turn before the writer.
                tokio::task::yield_now().await;
                return Ok(change);
            }
            Way::Queued { queue, .. } => queue.as_ref().ok_or(WriteError::Closed)?,
        };
        let (answer, outcome) = oneshot::channel();
        let writer = Writer { observer, answer };
        queue
            .send(Request::Task { task, writer })
            .await
            .map_err(|_| WriteError::Closed)?;
        outcome.await.map_err(|_| WriteError::Closed)?
    }

    fn count_compacted(&self, evicted: usize) {
        crate::stats::add(&self.handle.core.counters.compacted_events, evicted as u64);
    }
}

fn entry_of(change: Change) -> Result<Arc<Entry>, WriteError> {
    match change {
        Change::Event { event, .. } => Ok(event.entry.clone()),
        Change::DropSpace { .. } => Err(WriteError::Closed),
    }
}

fn commit_at_once(groups: &Mutex<Option<Groups>>, task: Task) -> Result<Change, WriteError> {
    let mut groups = lock(groups);
    let outcomes = groups.as_mut().ok_or(WriteError::Closed)?.commit(&[task]);
    outcomes.into_iter().next().unwrap_or(Err(WriteError::Closed))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Way {
    fn queued(groups: Groups, capacity: usize) -> Result<Self, OpenError> {
        // Full means that the disk is slower than the writers: they wait, nothing is dropped.
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let (done, ended) = watch::channel(());
        let committer = Committer {
            groups,
            queue: receiver,
            _done: done,
        };
        let thread = thread::Builder::new()
            .name("store-commit".into())
            .spawn(move || committer.run())
            .map_err(OpenError::Thread)?;
        Ok(Self::Queued {
            queue: Some(sender),
            ended,
            committer: Mutex::new(Some(thread)),
        })
    }

    fn join(&self) {
        let Self::Queued { committer, .. } = self else {
            return;
        };
        let thread = lock(committer).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the committer thread panicked");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Way::Queued { queue, .. } = &mut self.way {
            *queue = None;
        }
        self.way.join();
    }
}
