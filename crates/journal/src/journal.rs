//! The journal on this machine's disk.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use jiff::Timestamp;
use skopos_disk::{Directory, Disk, Frozen, TakeError, is_no_space};
use skopos_object::GroupVersionKind;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::{
    Damage, Retention, Seq, answer,
    bytes::{In, Malformed},
    commit::{CommitError, Job, Transaction, WAITING, Writer},
    record::{Head, Meta, RECORD_HEADER},
    recover::recover,
    segment::{Location, Segment},
    state::State,
};

/// A durable log of changes, with a mirror of the objects that exist and the position of each collection, all in one
/// directory. Cloning gives another handle to the same one.
///
/// What it shows through [`Log`](crate::Log) is on disk.
#[derive(Clone)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
}

/// How a [`Journal`] is kept.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// Where.
    pub dir: PathBuf,
    /// A new file is begun when the present one has so many bytes (default 64 MiB).
    pub segment_bytes: u64,
    /// Whether changes are on disk before they are shown (default: yes). Without, a crash of the machine may lose the last.
    pub sync: bool,
    /// What is kept.
    pub retention: Retention,
}

impl JournalConfig {
    /// A journal in a directory, which is made if it is not there.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 64 << 20,
            sync: true,
            retention: Retention::default(),
        }
    }
}

/// A journal was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is used by another process{}; stop it, or choose another directory", path.display(), by(holder))]
    Locked {
        /// Where.
        path: PathBuf,
        /// Which process.
        holder: String,
    },
    /// The directory cannot be made, read or written.
    #[error("open the journal in {}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// What the system said, if there was no room on the disk.
    pub fn no_space(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if is_no_space(source) => Some(source.to_string()),
            _ => None,
        }
    }

    /// Whether the directory is there but may not be written to: it may still be read.
    pub fn is_read_only(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::Locked { .. } => false,
            Self::Io { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
        }
    }
}

fn not_taken(path: &Path, error: TakeError) -> OpenError {
    let path = path.to_owned();
    match error {
        TakeError::Locked { holder } => OpenError::Locked { path, holder },
        TakeError::Io(source) => OpenError::Io { path, source },
    }
}

fn by(holder: &str) -> String {
    match holder.is_empty() {
        true => String::new(),
        false => format!(" ({holder})"),
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: JournalConfig,
    pub(crate) disk: Arc<dyn Disk>,
    /// Before the places of a segment, where both are locked.
    pub(crate) state: RwLock<State>,
    pub(crate) advanced: watch::Sender<Seq>,
    /// Why no more changes are taken, once that is so.
    pub(crate) failure: watch::Sender<Option<String>>,
    pub(crate) holds: Mutex<BTreeMap<String, Seq>>,
    pub(crate) retention: RwLock<Retention>,
    pub(crate) counters: Counters,
    damage: Mutex<Vec<Damage>>,
    jobs: mpsc::Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Threads that compare. One goes on when nobody waits for it any more, and holds the directory.
    pub(crate) at_work: TaskTracker,
}

/// What happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) commit_errors: AtomicU64,
    pub(crate) checkpoint_errors: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Lists that were begun.
    lists: AtomicU32,
}

/// How a journal is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// The oldest change kept.
    pub first: Seq,
    /// The newest change.
    pub head: Seq,
    /// Objects that exist.
    pub n_objects: usize,
    /// Bytes of the log on disk.
    pub disk_bytes: u64,
    /// Commits since the start; each may be of several batches.
    pub n_commits: u64,
    /// Commits that failed since the start.
    pub n_commit_errors: u64,
    /// Bytes written since the start.
    pub written_bytes: u64,
}

/// A collection that is or was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Where its objects live.
    pub source: String,
    /// As it was asked for, and as a [`Hole`](crate::Hole) names it.
    pub name: String,
    /// What its objects are, in the version they were captured in.
    pub kind: GroupVersionKind,
    /// The plural, as in paths.
    pub plural: String,
    /// The name for one of them; empty if that is not known.
    pub singular: String,
    /// Abbreviations, as far as they are known.
    pub short_names: Vec<String>,
    /// Objects that exist.
    pub n_objects: usize,
    /// Up to when it is completely known; nothing if a list must tell.
    pub known_until: Option<Timestamp>,
}

impl Captured {
    /// Whether it is one namespace of its kind, and not all of them.
    pub fn is_of_namespace(&self) -> bool {
        self.name.contains(" in ")
    }
}

impl Journal {
    /// Opens a journal, or begins one. Reads what it must, which blocks.
    pub fn open(config: JournalConfig) -> Result<Self, OpenError> {
        let disk = Directory::take(&config.dir).map_err(|error| not_taken(&config.dir, error))?;
        Self::open_on(Arc::new(disk), config)
    }

    /// Opens a journal only to read it, where its directory cannot be written to. What is committed or removed is so until
    /// it is closed, and nothing of it is kept.
    pub fn open_frozen(config: JournalConfig) -> Result<Self, OpenError> {
        let disk = Frozen::open(&config.dir).map_err(|error| not_taken(&config.dir, error))?;
        Self::open_on(Arc::new(disk), config)
    }

    /// Opens a journal on any directory, which nobody else may write. Reads what it must, which blocks.
    pub fn open_on(disk: Arc<dyn Disk>, config: JournalConfig) -> Result<Self, OpenError> {
        let path = disk.path();
        let failed = |source| OpenError::Io {
            path: path.clone(),
            source,
        };
        let recovered = recover(&*disk).map_err(&failed)?;
        // Full means the disk is slower than what is observed: who commits waits, and so does the source.
        let (jobs, queue) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            retention: RwLock::new(config.retention.clone()),
            config,
            disk,
            advanced: watch::Sender::new(recovered.state.head),
            failure: watch::Sender::new(None),
            state: RwLock::new(recovered.state),
            holds: Mutex::default(),
            counters: Counters::default(),
            damage: Mutex::new(recovered.damage),
            jobs,
            thread: Mutex::default(),
            at_work: TaskTracker::new(),
        });
        let writer = Writer::new(shared.clone(), recovered.tail);
        let thread = thread::Builder::new().name("journal".into());
        let thread = thread.spawn(move || writer.run(queue)).map_err(failed)?;
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(Self { shared })
    }

    /// Makes a transaction durable.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<Seq, CommitError> {
        let (reply, outcome) = oneshot::channel();
        let job = Job::Commit(transaction, reply);
        self.shared
            .jobs
            .send(job)
            .await
            .map_err(|_| CommitError::Closed)?;
        answer::wait(outcome).await.map_err(|_| CommitError::Closed)?
    }

    /// Changes what is kept from now on.
    pub fn set_retention(&self, retention: Retention) {
        *self
            .shared
            .retention
            .write()
            .unwrap_or_else(PoisonError::into_inner) = retention;
    }

    /// Removes what need not be kept any more. To be called now and then.
    pub async fn retain(&self, now: Timestamp) {
        // A closed journal removes nothing.
        let _ = self.shared.jobs.send(Job::Retain(now)).await;
    }

    /// Waits until no more changes are taken because a write or sync failed, and says why. What is on disk is no longer sure
    /// then, and only opening it again helps. A full disk is no such failure.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await;
        let why = failed.as_deref().expect("the sender is in what self holds");
        why.clone().unwrap_or_default()
    }

    /// Finishes what was begun, and closes the files. Changes that come later are refused.
    pub async fn close(&self) {
        let _ = self.shared.jobs.send(Job::Close).await;
        let thread = self
            .shared
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else {
            return;
        };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the journal ended badly");
        }
        self.shared.at_work.close();
        self.shared.at_work.wait().await;
    }

    /// The parts that could not be read so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.shared
            .damage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The collections that are or were captured, in the order in which they came.
    pub fn collections(&self) -> Vec<Captured> {
        let state = self.shared.read();
        let captured = state.collections.iter().map(|one| Captured {
            source: one.about.source.clone(),
            name: one.about.name.clone(),
            kind: one.about.kind.clone(),
            plural: one.about.plural.clone(),
            singular: one.about.singular.clone(),
            short_names: one.about.short_names.clone(),
            n_objects: one.objects.len(),
            known_until: one.position.as_ref().map(|position| position.at),
        });
        captured.collect()
    }

    /// How many changes of a collection are kept, by its name such as `backups.velero.io`.
    pub fn n_changes(&self, collection: &str) -> u64 {
        let state = self.shared.read();
        let numbers = (0..)
            .zip(&state.collections)
            .filter(|(_, one)| one.about.name == collection);
        let counts = numbers.flat_map(|(number, _)| {
            let segments = state.segments.values();
            segments.filter_map(move |segment| segment.places().counts.get(&number).map(|count| count.n))
        });
        counts.sum()
    }

    /// How it is doing.
    pub fn stats(&self) -> JournalStats {
        let state = self.shared.read();
        let counters = &self.shared.counters;
        JournalStats {
            first: state.first(),
            head: state.head,
            n_objects: state.collections.iter().map(|one| one.objects.len()).sum(),
            disk_bytes: state.segments.values().map(|segment| segment.len()).sum(),
            n_commits: counters.commits.load(Relaxed),
            n_commit_errors: counters.commit_errors.load(Relaxed),
            written_bytes: counters.bytes.load(Relaxed),
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("dir", &self.shared.config.dir)
            .field("head", &self.shared.read().head)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The number of a new list: of no other in this process, or what an earlier one showed would count as shown by it.
    pub(crate) fn next_list(&self) -> u32 {
        self.counters.lists.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record of a change, all of it.
    pub(crate) fn read_meta(&self, segment: &Segment, location: Location) -> io::Result<(Meta, Vec<u8>)> {
        let bad = |what: Malformed| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut record = vec![0; RECORD_HEADER + location.len as usize];
        segment.read_exact_at(&mut record, location.offset.into())?;
        let body = record.split_off(RECORD_HEADER);
        let header = record
            .as_slice()
            .try_into()
            .map_err(|_| io::ErrorKind::InvalidData)?;
        let head = Head::parse(header).map_err(bad)?;
        head.check(&body).map_err(bad)?;
        let meta = Meta::read(&mut In(&body)).map_err(bad)?;
        Ok((meta, body))
    }

    pub(crate) fn note_damage(&self, damage: Damage) {
        let mut all = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        // A few tell enough.
        if all.len() < 1000 && !all.contains(&damage) {
            tracing::error!(
                file = damage.file,
                offset = damage.offset,
                what = damage.what,
                "a part of the journal cannot be read"
            );
            all.push(damage);
        }
    }
}
