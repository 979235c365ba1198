//! Several controllers in one process, on one client and shared caches.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use hashbrown::HashSet;
use prometheus_client::registry::Registry;
use skopos_client::{Client, Discovery};
use skopos_informer::{Informers, InformersConfig};
use skopos_process::Process;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::outstanding::Outstanding;
use crate::run::{ControllerQueue, Environment};
use crate::{
    Controller, Elector, Events, EventsConfig, Fence, Health, HealthServer, LeaderConfig, LeaderConfigError,
    Metrics, Recorder, Resigned,
};

/// Runs controllers, with everything that they need around them.
///
/// ```no_run
/// # use skopos_controller::{Action, Context, Controller, Failure};
/// # async fn reconcile(app: skopos_object::Object, _: Context) -> Result<Action, Failure> { Ok(Action::Done) }
/// # async fn example(client: skopos_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use skopos_controller::{LeaderConfig, Manager, ManagerConfig};
/// use tokio_util::sync::CancellationToken;
///
/// let mut manager = Manager::new(&client, ManagerConfig {
///     leader: Some(LeaderConfig::new("default", "apps", "replica-1")),
///     endpoint: Some(([0, 0, 0, 0], 8080).into()),
///     ..ManagerConfig::new("apps.example.com")
/// })?;
/// manager.add(Controller::for_("apps.example.com").reconcile(reconcile));
/// manager.run(CancellationToken::new()).await?;
/// # Ok(())
/// # }
/// ```
pub struct Manager {
    environment: Environment,
    elector: Option<Elector>,
    events: Events,
    health: Health,
    endpoint: Option<SocketAddr>,
    controllers: Vec<(Controller, ControllerQueue)>,
}

/// How a [`Manager`] behaves.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// Who reports events, such as `example.com/apps`.
    pub name: String,
    /// Which replica this is, in events (default: the leader's identity, or the name).
    pub instance: Option<String>,
    /// Has only one of several replicas work at a time; the others keep their caches and queues ready (default: no
    /// election, this is the only replica).
    pub leader: Option<LeaderConfig>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served (default: nowhere).
    pub endpoint: Option<SocketAddr>,
    /// How long running reconciles are given to finish when the process stops (default 30 s).
    pub grace: Duration,
    /// How caches behave.
    pub informers: InformersConfig,
}

impl ManagerConfig {
    /// The defaults.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            instance: None,
            leader: None,
            endpoint: None,
            grace: Duration::from_secs(30),
            informers: InformersConfig::default(),
        }
    }
}

impl Manager {
    /// A manager without controllers.
    pub fn new(client: &Client, config: ManagerConfig) -> Result<Self, LeaderConfigError> {
        let identity = config.leader.as_ref().map(|leader| leader.identity.clone());
        let instance = config
            .instance
            .or(identity)
            .unwrap_or_else(|| config.name.clone());
        let elector = config
            .leader
            .map(|leader| Elector::new(client, leader))
            .transpose()?;
        let fence = elector.as_ref().map_or_else(Fence::open, Elector::fence);
        let (recorder, events) = Events::new(client, &fence, EventsConfig::new(&config.name, &instance));
        let discovery = Discovery::new(client);
        let environment = Environment {
            client: client.clone(),
            informers: Informers::new(Arc::new(discovery.clone()), config.informers),
            discovery,
            fence,
            outstanding: Outstanding::default(),
            metrics: Metrics::new(),
            recorder,
            grace: config.grace,
        };
        let manager = Self {
            health: health(&environment.informers),
            environment,
            elector,
            events,
            endpoint: config.endpoint,
            controllers: Vec::new(),
        };
        manager.health.register(|registry| {
            manager.register(registry);
            registry.register_collector(Box::new(Process));
        });
        Ok(manager)
    }

    /// Adds a controller; returns its queue, to look at it and at what was given up. Each needs a name of its own: see
    /// [`named`](crate::Builder::named).
    pub fn add(&mut self, controller: Controller) -> ControllerQueue {
        let queue = controller.queue(&self.environment.metrics);
        self.controllers.push((controller, queue.clone()));
        queue
    }

    /// The caches that the controllers share.
    pub fn informers(&self) -> &Informers {
        &self.environment.informers
    }

    /// Reports events, for those who are no controller.
    pub fn recorder(&self) -> &Recorder {
        &self.environment.recorder
    }

    /// Whether this replica may act now. Always open without an election.
    pub fn fence(&self) -> &Fence {
        &self.environment.fence
    }

    /// What is served at the endpoint: add checks and metrics of your own.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Lets `registry` show the metrics of controllers, queues, caches, requests, events and the election. Those at the endpoint
    /// are there already, with those of the process beside them.
    pub fn register(&self, registry: &mut Registry) {
        self.environment.metrics.register(registry);
        self.environment.client.register(registry);
        self.environment.informers.register(registry);
        self.environment.recorder.register(registry);
        if let Some(elector) = &self.elector {
            elector.register(registry);
        }
    }

    /// Runs everything until `shutdown`. Then nothing new is begun, what runs is finished or cancelled in time, the
    /// last events are written, the caches stop, and the lease is given back last; unless a write
    /// of a reconcile was not answered and may happen yet, then it runs out.
    ///
    /// Fails only at the start: if two controllers have one name, or if the endpoint cannot be served.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), io::Error> {
        self.check_names()?;
        let server = match self.endpoint {
            Some(endpoint) => Some(HealthServer::bind(&self.health, endpoint).await?),
            None => None,
        };
        let serving = Part::start(server, HealthServer::run);
        let caches = Part::start(Some(self.environment.informers.clone()), Informers::run);
        let election = Part::start(self.elector, Elector::run);
        let events = Part::start(Some(self.events), Events::run);

        run_all(self.controllers, &self.environment, &shutdown).await;
        events.stop("events").await;
        caches.stop("caches").await;
        if let Some(resigned) = election.stop("election").await {
            release(resigned, &self.environment.outstanding).await;
        }
        serving.stop("endpoint").await;
        Ok(())
    }

    /// Metrics, field managers and logs tell controllers apart by their names.
    fn check_names(&self) -> Result<(), io::Error> {
        let mut names = HashSet::new();
        let mut all = self.controllers.iter().map(|(controller, _)| controller.name());
        match all.find(|name| !names.insert(*name)) {
            Some(name) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("two controllers are named {name}: give one another name with `named`"),
            )),
            None => Ok(()),
        }
    }
}

async fn run_all(
    controllers: Vec<(Controller, ControllerQueue)>,
    environment: &Environment,
    shutdown: &CancellationToken,
) {
    let mut running = JoinSet::new();
    for (controller, queue) in controllers {
        running.spawn(controller.run(environment.clone(), queue, shutdown.clone()));
    }
    if running.is_empty() {
        shutdown.cancelled().await;
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            error!(%error, "a controller failed");
        }
    }
}

/// Something that runs beside the controllers until it is stopped, or dropped.
struct Part<T> {
    stop: CancellationToken,
    /// At most one: a set, because that ends its tasks when it is dropped.
    task: JoinSet<T>,
}

impl<T: Send + 'static> Part<T> {
    fn start<P, F>(part: Option<P>, run: impl FnOnce(P, CancellationToken) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        if let Some(part) = part {
            task.spawn(run(part, stop.clone()));
        }
        Self { stop, task }
    }

    async fn stop(mut self, name: &str) -> Option<T> {
        self.stop.cancel();
        let ended = self.task.join_next().await?;
        ended
            .inspect_err(|error| error!(%error, part = name, "a part of the manager failed"))
            .ok()
    }
}

/// Gives the lease back, so that the next leader need not wait for its end. Not if a write may still happen beside it.
async fn release(resigned: Resigned, outstanding: &Outstanding) {
    let held = resigned.holds_for();
    if held.is_some_and(|time| outstanding.may_happen_within(time)) {
        warn!(
            "a write was not answered and may still happen; the lease is kept, and the others wait for its end"
        );
        return;
    }
    match resigned.release().await {
        Ok(release) => info!(?release, "stopped"),
        Err(error) => warn!(%error, "could not give back the lease; the others wait for its end"),
    }
}

/// Ready once every cache that is served is complete.
fn health(informers: &Informers) -> Health {
    let health = Health::new();
    let informers = informers.clone();
    health.add_readiness("caches", move || {
        let reports = informers.reports();
        let missing = reports
            .iter()
            .filter(|report| !report.synced && report.not_served.is_none());
        let names: Vec<&str> = missing.map(|report| report.informer.as_str()).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(format!("not complete yet: {}", names.join(", ")))
        }
    });
    health
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.controllers.iter().map(|(controller, _)| controller.name());
        f.debug_list().entries(names).finish()
    }
}
