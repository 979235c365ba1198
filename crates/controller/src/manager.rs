//! Several controllers in one process, on one client and shared caches.

mod part;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use hashbrown::HashSet;
use prometheus_client::registry::Registry;
use skopos_client::{Client, Discovery};
use skopos_informer::{Informers, InformersConfig};
use skopos_object::ObjectKey;
use skopos_process::Process;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::part::Part;
use crate::dead_letters::DeadLetters;
use crate::deaths::Deaths;
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
    endpoint: Option<SocketAddr>,
    shows_dead_letters: bool,
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
    /// Whether `/debug/dead-letters` lists there what was given up, and `/debug/dead-letters/redrive` puts it back (default:
    /// no).
    ///
    /// There is no access control: whoever reaches the endpoint can do both, and errors may tell what objects contain. Turn
    /// it on where only those come who may, such as on an address of the loopback.
    pub dead_letters: bool,
    /// How long running reconciles are given to finish when the process stops (default 20 s); then they are cancelled.
    ///
    /// After that come [`cancel_grace`](Self::cancel_grace), the last events and the lease. All of it has to fit into what
    /// Kubernetes gives a pod before it is killed (`terminationGracePeriodSeconds`, 30 by default).
    pub grace: Duration,
    /// How long reconciles that were cancelled are waited for (default 3 s). One that blocks its thread does not notice that
    /// it was: it is left behind, and [`run`](Manager::run) returns an error that names it.
    pub cancel_grace: Duration,
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
            dead_letters: false,
            grace: Duration::from_secs(20),
            cancel_grace: Duration::from_secs(3),
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
            health: Health::new(),
            deaths: Deaths::default(),
            outstanding: Outstanding::default(),
            metrics: Metrics::new(),
            recorder,
            grace: config.grace,
            cancel_grace: config.cancel_grace,
        };
        let manager = Self {
            environment,
            elector,
            events,
            endpoint: config.endpoint,
            shows_dead_letters: config.dead_letters,
            controllers: Vec::new(),
        };
        manager.add_checks();
        manager.health().register(|registry| {
            manager.register(registry);
            registry.register_collector(Box::new(Process));
        });
        Ok(manager)
    }

    /// What `/healthz` and `/readyz` ask; those of the controllers are added when they start.
    fn add_checks(&self) {
        let Environment { health, deaths, .. } = &self.environment;
        for name in ["caches", "events"] {
            let deaths = deaths.clone();
            health.add_liveness(name, move || deaths.check(name));
        }
        if let Some(elector) = &self.elector {
            let (deaths, moves) = (deaths.clone(), elector.liveness());
            health.add_liveness("election", move || {
                deaths.check("election").and_then(|()| moves())
            });
        }
        let informers = self.environment.informers.clone();
        health.add_readiness("caches", move || complete(&informers));
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
        &self.environment.health
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
    /// Fails at the start if two controllers have one name, or if the endpoint cannot be served. Fails later if a task ends
    /// that nobody asked to, such as one that panicked: then `/healthz` says which, and everything else is stopped as above.
    /// Fails in the end ([`TimedOut`](io::ErrorKind::TimedOut)) if reconciles block their threads and cannot be cancelled:
    /// then the lease is neither renewed nor given back, and runs out. End the process with [`exit`](std::process::exit): a
    /// runtime that is dropped waits for such threads.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), io::Error> {
        self.check_names()?;
        let Environment { health, deaths, .. } = &self.environment;
        if self.shows_dead_letters {
            let queues = self.controllers.iter();
            let queues = queues.map(|(controller, queue)| (controller.name().to_owned(), queue.clone()));
            health.show(DeadLetters::new(queues.collect()));
        }
        let server = match self.endpoint {
            Some(endpoint) => Some(HealthServer::bind(health, endpoint).await?),
            None => None,
        };
        let informers = self.environment.informers.clone();
        let serving = Part::start("endpoint", deaths, server, HealthServer::run);
        let caches = Part::start("caches", deaths, Some(informers), Informers::run);
        let election = Part::start("election", deaths, self.elector, Elector::run);
        let events = Part::start("events", deaths, Some(self.events), Events::run);

        let stuck = run_all(self.controllers, &self.environment, &shutdown).await;
        let stop = async {
            events.stop().await;
            caches.stop().await;
            if let Some(resigned) = election.stop().await
                && stuck.is_empty()
            {
                release(resigned, &self.environment.outstanding).await;
            }
            serving.stop().await;
        };
        if stuck.is_empty() {
            stop.await;
            return deaths.error().map_or(Ok(()), Err);
        }
        // Any of them may wait for the thread that is blocked; whoever is not done in time ends with its set.
        let _ = timeout(self.environment.cancel_grace, stop).await;
        Err(left_behind(&stuck, deaths.error()))
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

/// Runs the controllers until `shutdown`, or until something ends unasked. Returns the reconciles that are stuck, by
/// controller and object.
async fn run_all(
    controllers: Vec<(Controller, ControllerQueue)>,
    environment: &Environment,
    shutdown: &CancellationToken,
) -> Vec<String> {
    let stop = shutdown.child_token();
    let mut running = JoinSet::new();
    for (controller, queue) in controllers {
        let name = controller.name().to_owned();
        let running_one = controller.run(environment.clone(), queue, stop.clone());
        running.spawn(async move { (name, running_one.await) });
    }
    let mut ended = pin!(async {
        if running.is_empty() {
            stop.cancelled().await;
        }
        running.join_all().await
    });
    let ended = tokio::select! {
        ended = &mut ended => ended,
        () = environment.deaths.any() => {
            stop.cancel();
            ended.await
        }
    };
    let stuck = |(name, keys): &(String, Vec<ObjectKey>)| -> Vec<String> {
        keys.iter().map(|key| format!("{name} {key}")).collect()
    };
    ended.iter().flat_map(stuck).collect()
}

fn left_behind(stuck: &[String], death: Option<io::Error>) -> io::Error {
    let mut text = format!(
        "cancelled reconciles do not end, and a lease is left to run out: {}",
        stuck.join(", ")
    );
    if let Some(death) = death {
        text = format!("{death}; {text}");
    }
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Gives the lease back, so that the next leader need not wait for its end. Not if a write may still happen beside it.
async fn release(resigned: Resigned, outstanding: &Outstanding) {
    /// With the default times the whole stop is over before Kubernetes kills the pod.
    const LIMIT: Duration = Duration::from_secs(3);
    let held = resigned.holds_for();
    if held.is_some_and(|time| outstanding.may_happen_within(time)) {
        warn!(
            "a write was not answered and may still happen; the lease is kept, and the others wait for its end"
        );
        return;
    }
    match timeout(LIMIT, resigned.release()).await {
        Ok(Ok(release)) => info!(?release, "stopped"),
        Ok(Err(error)) => warn!(%error, "could not give back the lease; the others wait for its end"),
        Err(_) => warn!(limit = ?LIMIT, "could not give back the lease in time; the others wait for its end"),
    }
}

/// Whether every cache that is served is complete.
fn complete(informers: &Informers) -> Result<(), String> {
    let reports = informers.reports();
    let missing = reports
        .iter()
        .filter(|report| !report.synced && report.not_served.is_none());
    let names: Vec<&str> = missing.map(|report| report.informer.as_str()).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(format!("not complete yet: {}", names.join(", "))),
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.controllers.iter().map(|(controller, _)| controller.name());
        f.debug_list().entries(names).finish()
    }
}
