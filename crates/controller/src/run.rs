//! Running a controller: hearing of changes, and working them off.
//!
//! Changes become keys in [`hear`], keys become reconciles in [`work`]; they meet only at the queue.

mod alive;
mod caches;
mod departed;
mod hear;
mod in_hand;
mod takeover;
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use skopos_client::{Client, Discovery};
use skopos_informer::{Informer, Informers, SyncWatch};
use skopos_object::{Content, Object, ObjectKey};
use skopos_queue::{Leftovers, Queue};
use tokio::sync::SetOnce;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, error, error_span, info, warn};

use self::caches::{Caches, Kept};
use self::departed::Departed;
use self::hear::Heard;
use self::in_hand::InHand;
use self::takeover::Holdup;
use crate::deaths::Deaths;
use crate::metrics::{ControllerMetrics, Metrics};
use crate::outstanding::Outstanding;
use crate::records::{Records, Watchman};
use crate::source::Primary;
use crate::{Controller, Fence, Health, Recorder};

/// What the controllers of a process share.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) client: Client,
    pub(crate) discovery: Discovery,
    pub(crate) informers: Informers,
    pub(crate) fence: Fence,
    pub(crate) health: Health,
    pub(crate) deaths: Deaths,
    pub(crate) outstanding: Outstanding,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Recorder,
    /// How long running reconciles are given when the process stops.
    pub(crate) grace: Duration,
    /// How long they are given to end once they are cancelled.
    pub(crate) cancel_grace: Duration,
}

/// What the tasks of one controller share.
pub(crate) struct Shared {
    controller: Controller,
    environment: Environment,
    queue: Queue<ObjectKey>,
    informer: Informer,
    /// Known once the kind is served.
    primary: SetOnce<Primary>,
    caches: Caches,
    /// The term for which the caches are up to date. Held while they are brought up to date.
    current: tokio::sync::Mutex<Option<u64>>,
    holdup: Holdup,
    records: Records,
    heard: Heard,
    departed: Departed,
    in_hand: InHand,
    metrics: ControllerMetrics,
    /// Ends the reconciles that still run.
    cancel: CancellationToken,
}

/// A handle on the queue of a running controller, to look at it and at what was given up.
pub type ControllerQueue = Queue<ObjectKey>;

impl Controller {
    /// Runs until `shutdown`: then nothing new is begun, and what runs is given some time to finish.
    ///
    /// Returns the objects whose reconciles did not even end when they were cancelled.
    pub(crate) async fn run(
        self,
        environment: Environment,
        queue: ControllerQueue,
        shutdown: CancellationToken,
    ) -> Vec<ObjectKey> {
        // Shown with errors too, whatever else is left out of the log.
        let span = error_span!("controller", controller = self.name);
        let what = format!("controller {}", self.name);
        let shared = Arc::new(Shared::new(self, environment, queue));
        shared.add_checks();
        let running = Arc::clone(&shared).run(shutdown.clone()).instrument(span);
        shared.watch(&what, &shutdown, running).await.unwrap_or_default()
    }

    /// The queue that it will run with. From now on both are in the metrics, with zeros.
    pub(crate) fn queue(&self, metrics: &Metrics) -> ControllerQueue {
        metrics.controller(&self.name);
        let queue = Queue::new(self.config.queue.clone());
        queue.observe(&metrics.queues);
        queue
    }
}

impl Shared {
    fn new(controller: Controller, environment: Environment, queue: ControllerQueue) -> Self {
        let metrics = environment.metrics.controller(&controller.name);
        metrics
            .concurrency
            .set(i64::try_from(controller.config.concurrency).unwrap_or(i64::MAX));
        Self {
            queue,
            informer: environment.informers.informer(controller.primary.wanted.clone()),
            primary: SetOnce::new(),
            caches: Caches::default(),
            current: tokio::sync::Mutex::default(),
            holdup: Holdup::default(),
            records: Records::default(),
            heard: Heard::default(),
            departed: Departed::default(),
            in_hand: InHand::default(),
            metrics,
            cancel: CancellationToken::new(),
            controller,
            environment,
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) -> Vec<ObjectKey> {
        let mut hearing = JoinSet::new();
        let mut synced = Vec::new();
        let sources = std::iter::once(&self.controller.primary).chain(&self.controller.others);
        for source in sources.cloned() {
            let informer = self.environment.informers.informer(source.wanted.clone());
            self.caches.keep(&source.wanted, &informer, Kept::Heard);
            let subscription = informer.subscribe();
            synced.push((informer, subscription.sync_watch()));
            let (shared, stop) = (Arc::clone(&self), shutdown.clone());
            let hear = async move {
                let what = format!("hearing of {} for {}", source.wanted.name, shared.controller.name);
                let hears = Arc::clone(&shared).hear(source, subscription);
                shared.watch(&what, &stop, hears).await;
            };
            hearing.spawn(hear.in_current_span());
        }
        // Beside the workers: what is heard from then on leads to nothing, and two that do not end take no longer than one.
        let stop_hearing = async {
            shutdown.cancelled().await;
            let limit = self.environment.cancel_grace;
            if timeout(limit, hearing.shutdown()).await.is_err() {
                error!("a predicate or a map does not end, and is left behind");
            }
        };
        let work = async {
            let synced = shutdown.run_until_cancelled(all_synced(synced)).await;
            synced?;
            info!("caches are complete");
            Some(self.work_until(shutdown.clone()).await)
        };
        let ((), stuck) = tokio::join!(stop_hearing, work);
        stuck.unwrap_or_default()
    }

    /// Runs the workers until the last one has ended, or is known to be stuck. Returns what it is stuck with.
    async fn work_until(self: &Arc<Self>, shutdown: CancellationToken) -> Vec<ObjectKey> {
        let mut workers = JoinSet::new();
        for _ in 0..self.controller.config.concurrency {
            let (shared, stop) = (Arc::clone(self), shutdown.clone());
            let work = async move {
                let what = format!("a worker of {}", shared.controller.name);
                let works = Arc::clone(&shared).work(stop.clone());
                shared.watch(&what, &stop, works).await;
            };
            workers.spawn(work.in_current_span());
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = ended(&mut workers) => return Vec::new(),
        }
        self.queue.shut_down(Leftovers::LetGo);
        let Environment {
            grace, cancel_grace, ..
        } = self.environment;
        if timeout(grace, ended(&mut workers)).await.is_ok() {
            return Vec::new();
        }
        warn!(
            running = self.queue.n_running(),
            "reconciles did not finish in time and are cancelled"
        );
        self.cancel.cancel();
        if timeout(cancel_grace, ended(&mut workers)).await.is_ok() {
            return Vec::new();
        }
        // A task is cancelled where it awaits something; whoever blocks its thread never does.
        let stuck = self.in_hand.keys();
        error!(objects = ?stuck, "cancelled reconciles do not end, and are left behind");
        stuck
    }

    pub(crate) fn discovery(&self) -> &Discovery {
        &self.environment.discovery
    }

    /// Whether the cache of what it is for shows nothing else.
    pub(crate) fn has_only_metadata(&self) -> bool {
        self.controller.primary.wanted.name.content == Content::Metadata
    }

    /// One who watches over the writes of a reconcile.
    fn watchman(&self, object: Option<&Object>, term: Option<u64>) -> Arc<Watchman> {
        let Environment {
            fence, outstanding, ..
        } = &self.environment;
        let paths = self.caches.field_paths();
        Watchman::new((fence, term), outstanding, object, paths)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.environment.client
    }

    pub(crate) fn field_manager(&self) -> &str {
        let named = self.controller.config.field_manager.as_deref();
        named.unwrap_or(&self.controller.name)
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.environment.recorder
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }
}

async fn ended(workers: &mut JoinSet<()>) {
    while workers.join_next().await.is_some() {}
}

/// Waits until everything that was there at first is in the queue. A kind that is not served is not waited for.
async fn all_synced(sources: Vec<(Informer, SyncWatch)>) {
    const LOOK_AGAIN: Duration = Duration::from_secs(1);
    for (informer, mut synced) in sources {
        while timeout(LOOK_AGAIN, synced.synced()).await.is_err() {
            if let Some(why) = informer.report().not_served {
                warn!(
                    kind = informer.name(),
                    why, "begins without a kind that is not served"
                );
                break;
            }
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.controller.name)
    }
}
