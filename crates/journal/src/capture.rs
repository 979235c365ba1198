//! Follows what is asked for, and writes down every change.

mod compare;
mod follow;
mod selection;
mod session;
mod status;
mod trace;
mod widen;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use skopos_informer::ReflectorConfig;
use skopos_object::{CollectionName, Collections, ObjectKey};
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

pub use self::selection::{Selection, SelectionPart};

use self::follow::Follower;
use crate::{FieldPath, Journal};

/// Follows collections and writes every change into a [`Journal`], for as long as they are asked for. They need not exist yet.
///
/// Nothing is missed: a collection is resumed where the journal ends; if its source no longer knows what happened
/// since, a list is compared with the mirror, deletions included, and the journal says that there is a hole. Cloning
/// gives another handle to the same.
#[derive(Clone)]
pub struct Capture {
    shared: Arc<Shared>,
}

/// How a [`Capture`] works.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// What the source is called in entries (default `kubernetes`).
    pub source: String,
    /// How collections are followed.
    pub reflector: ReflectorConfig,
    /// How long to wait at first before asking again for what is not served (default 500 ms), then twice as long each
    /// time, up to ten times as long.
    pub retry: Duration,
    /// How long to wait before writing again when there was no room (default 1 s).
    pub full_retry: Duration,
    /// How often old changes are removed (default 10 s).
    pub retain_every: Duration,
    /// The time of day.
    pub now: fn() -> Timestamp,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self {
            source: "kubernetes".into(),
            reflector: ReflectorConfig::default(),
            retry: Duration::from_millis(500),
            full_retry: Duration::from_secs(1),
            retain_every: Duration::from_secs(10),
            now: Timestamp::now,
        }
    }
}

/// A collection to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which.
    pub name: CollectionName,
    /// Which of its objects.
    pub selection: Selection,
    /// Fields that are not written down.
    pub redact: Vec<FieldPath>,
}

impl From<&str> for Asked {
    /// Reads `plural.group`, such as `deployments.apps`.
    fn from(name: &str) -> Self {
        Self {
            name: name.into(),
            selection: Selection::Everything,
            redact: Vec::new(),
        }
    }
}

/// How the capture of a collection is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureStatus {
    /// Which.
    pub name: CollectionName,
    /// What it is doing.
    pub phase: Phase,
    /// The last trouble, and when it was.
    pub trouble: Option<(String, Timestamp)>,
    /// When it was last known to be up to date.
    pub heard: Option<Timestamp>,
    /// Objects that could not be read so far.
    pub n_malformed: u64,
    /// Those that cannot be read now, up to a hundred. One without a name may be any.
    pub unreadable: BTreeSet<ObjectKey>,
}

/// What the capture of a collection is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing serves it now; the text says what is missing.
    NotServed(String),
    /// It is being listed.
    Listing,
    /// It is being followed.
    Watching,
    /// There is no room to write; changes wait at their source.
    Paused(String),
    /// The journal takes no more changes until a restart.
    Failed(String),
}

struct Shared {
    journal: Journal,
    collections: Arc<dyn Collections>,
    config: CaptureConfig,
    asked: Mutex<Vec<Asked>>,
    changed: Notify,
    statuses: Mutex<BTreeMap<String, CaptureStatus>>,
}

impl Capture {
    /// Captures nothing yet.
    pub fn new(journal: Journal, collections: Arc<dyn Collections>, config: CaptureConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                journal,
                collections,
                config,
                asked: Mutex::default(),
                changed: Notify::new(),
                statuses: Mutex::default(),
            }),
        }
    }

    /// Says which collections to capture from now on. What is no longer among them is left as it is.
    pub fn ask(&self, asked: Vec<Asked>) {
        *lock(&self.shared.asked) = asked;
        self.shared.changed.notify_one();
    }

    /// How each collection is doing.
    pub fn status(&self) -> Vec<CaptureStatus> {
        lock(&self.shared.statuses).values().cloned().collect()
    }

    /// The time of day, as entries have it.
    pub(crate) fn now(&self) -> Timestamp {
        (self.shared.config.now)()
    }

    /// Follows what is asked for until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let shared = &self.shared;
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<String, (Asked, CancellationToken)> = BTreeMap::new();
        let mut retain = tokio::time::interval_at(
            Instant::now() + shared.config.retain_every,
            shared.config.retain_every,
        );
        loop {
            let asked = lock(&shared.asked).clone();
            self.stop_others(&asked, &mut running);
            for one in asked {
                running.entry(one.name.to_string()).or_insert_with(|| {
                    let stop = shutdown.child_token();
                    let follower = Follower::new(shared.clone(), one.clone());
                    tasks.spawn(follower.run(stop.clone()));
                    (one, stop)
                });
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = shared.changed.notified() => {}
                Some(ended) = tasks.join_next() => if let Err(error) = ended {
                    tracing::error!(%error, "capturing a collection ended badly");
                },
                _ = retain.tick() => shared.journal.retain((shared.config.now)()).await,
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    fn stop_others(&self, asked: &[Asked], running: &mut BTreeMap<String, (Asked, CancellationToken)>) {
        running.retain(|name, (one, stop)| {
            let stays = asked.contains(one);
            if !stays {
                stop.cancel();
                lock(&self.shared.statuses).remove(name);
            }
            stays
        });
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
