//! Running a controller: hearing of changes, and working them off.
//!
//! Changes become keys in [`hear`], keys become reconciles in [`work`]; they meet only at the queue.

mod caches;
mod hear;
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
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, error_span, info, warn};

use self::caches::Caches;
use self::hear::Heard;
use crate::metrics::{ControllerMetrics, Metrics};
use crate::outstanding::Outstanding;
use crate::records::{Records, Watchman};
use crate::source::Primary;
use crate::{Controller, Fence, Recorder};

/// What the controllers of a process share.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) client: Client,
    pub(crate) discovery: Discovery,
    pub(crate) informers: Informers,
    pub(crate) fence: Fence,
    pub(crate) outstanding: Outstanding,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Recorder,
    /// How long running reconciles are given when the process stops.
    pub(crate) grace: Duration,
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
    records: Records,
    heard: Heard,
    metrics: ControllerMetrics,
    /// Ends the reconciles that still run.
    cancel: CancellationToken,
}

/// A handle on the queue of a running controller, to look at it and at what was given up.
pub type ControllerQueue = Queue<ObjectKey>;

impl Controller {
    /// Runs until `shutdown`: then nothing new is begun, and what runs is given some time to finish.
    pub(crate) async fn run(
        self,
        environment: Environment,
        queue: ControllerQueue,
        shutdown: CancellationToken,
    ) {
        // Shown with errors too, whatever else is left out of the log.
        let span = error_span!("controller", controller = self.name);
        let shared = Arc::new(Shared::new(self, environment, queue));
        shared.run(shutdown).instrument(span).await;
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
            records: Records::default(),
            heard: Heard::default(),
            metrics,
            cancel: CancellationToken::new(),
            controller,
            environment,
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut hearing = JoinSet::new();
        let mut synced = Vec::new();
        let sources = std::iter::once(&self.controller.primary).chain(&self.controller.others);
        for source in sources.cloned() {
            let informer = self.environment.informers.informer(source.wanted.clone());
            self.caches.keep(&source.wanted, &informer);
            let subscription = informer.subscribe();
            synced.push((informer, subscription.sync_watch()));
            let shared = Arc::clone(&self);
            hearing.spawn(async move { shared.hear(source, subscription).await }.in_current_span());
        }
        if shutdown.run_until_cancelled(all_synced(synced)).await.is_some() {
            info!("caches are complete");
            self.work_until(shutdown).await;
        }
        hearing.shutdown().await;
    }

    /// Runs the workers. Returns when the last one has ended.
    async fn work_until(self: &Arc<Self>, shutdown: CancellationToken) {
        let mut workers = JoinSet::new();
        for _ in 0..self.controller.config.concurrency {
            let (shared, stop) = (Arc::clone(self), shutdown.clone());
            workers.spawn(async move { shared.work(stop).await }.in_current_span());
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = ended(&mut workers) => return,
        }
        self.queue.shut_down(Leftovers::LetGo);
        if tokio::time::timeout(self.environment.grace, ended(&mut workers))
            .await
            .is_err()
        {
            warn!(
                running = self.queue.n_running(),
                "reconciles did not finish in time and are cancelled"
            );
            self.cancel.cancel();
            ended(&mut workers).await;
        }
    }

    pub(crate) fn discovery(&self) -> &Discovery {
        &self.environment.discovery
    }

    /// Whether the cache of what it is for shows nothing else.
    pub(crate) fn has_only_metadata(&self) -> bool {
        self.controller.primary.wanted.name.content == Content::Metadata
    }

    /// One who watches over the writes of a reconcile.
    fn watchman(&self, object: Option<&Object>) -> Arc<Watchman> {
        let Environment {
            fence, outstanding, ..
        } = &self.environment;
        Watchman::new(fence, outstanding, object)
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
    while let Some(ended) = workers.join_next().await {
        if let Err(error) = ended {
            // Reconciles that panic are caught; this is a fault of the worker itself.
            tracing::error!(%error, "a worker failed");
        }
    }
}

/// Waits until everything that was there at first is in the queue. A kind that is not served is not waited for.
async fn all_synced(sources: Vec<(Informer, SyncWatch)>) {
    const LOOK_AGAIN: Duration = Duration::from_secs(1);
    for (informer, mut synced) in sources {
        while tokio::time::timeout(LOOK_AGAIN, synced.synced()).await.is_err() {
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
