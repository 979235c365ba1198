//! Watching and reacting against some API server: our kinds installed, the engine run.

use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use skopos_client::{Api, Client, Patch, Resource, WriteParams};
use skopos_control::{AdminServer, BindError, DoorError, Engine, EngineConfig, EngineError, StopError};
use skopos_controller::{Elector, Health, HealthServer, LeaderConfig, LeaderConfigError};
use skopos_journal::{CaptureConfig, Captured, Journal, Phase, Retention};
use skopos_object::GroupVersionKind;
use skopos_process::Process;
use skopos_remote::{BlocksError, JournalUrl, OpenError};
use skopos_sink::Allowed;
use skopos_trace::Traces;
use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How reactions run.
#[derive(Debug, Clone)]
pub struct ReactionsConfig {
    /// Where the journal and the state of deliveries are kept, unless a server keeps them.
    pub data_dir: PathBuf,
    /// The server that keeps them instead, so that a replica elsewhere can go on with them.
    pub journal: Option<JournalUrl>,
    /// How long that server may be away at the start before it is given up (default: it may not).
    pub journal_wait: Duration,
    /// Files and directories with rules, sinks and records, besides those of the cluster.
    pub files: Vec<PathBuf>,
    /// Whether the definitions of our kinds are installed at the start.
    pub install: bool,
    /// Whether rules, sinks and records of the cluster count.
    pub from_cluster: bool,
    /// What the cluster is called in events and in what is kept (default `kubernetes`).
    pub cluster: String,
    /// Only these namespaces are looked at (default: all).
    pub namespaces: Vec<String>,
    /// What sinks of the cluster may do on this machine.
    pub allow_exec: bool,
    /// Whether sinks of the cluster may write files on this machine.
    pub allow_file: bool,
    /// The `PATH` that commands inherit.
    pub search_path: Option<OsString>,
    /// Reads an environment variable, for sinks from files.
    pub env: fn(&str) -> Option<String>,
    /// Where questions of other commands are answered; port 0 takes a free one.
    pub admin: SocketAddr,
    /// Where other commands look up that address (default: the data directory).
    pub admin_dir: PathBuf,
    /// How many bytes of changes are kept at most (default: as many as there are).
    pub journal_max_bytes: Option<u64>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served (default: nowhere).
    pub endpoint: Option<SocketAddr>,
    /// Take turns with other replicas: only the one that holds this lease works.
    pub leader: Option<LeaderConfig>,
    /// Who exports traces: shown among the metrics, and receivers are told which traces it exports (default: nobody).
    pub traces: Option<Traces>,
}

impl ReactionsConfig {
    /// Everything in a directory, rules of the cluster, nothing else allowed.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            admin_dir: data_dir.clone(),
            data_dir,
            journal: None,
            journal_wait: Duration::ZERO,
            files: Vec::new(),
            install: true,
            from_cluster: true,
            cluster: CaptureConfig::default().source,
            namespaces: Vec::new(),
            allow_exec: false,
            allow_file: false,
            search_path: None,
            env: |_| None,
            admin: SocketAddr::from(([127, 0, 0, 1], 0)),
            journal_max_bytes: None,
            endpoint: None,
            leader: None,
            traces: None,
        }
    }
}

/// Reactions do not start.
#[derive(Debug, thiserror::Error)]
pub enum ReactionsError {
    /// The definitions of our kinds are refused.
    #[error("install the definition of {name}")]
    Install {
        /// Which.
        name: String,
        /// What the server said.
        #[source]
        source: Box<skopos_client::Error>,
    },
    /// What is kept cannot be opened.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What is kept has changes of a cluster by another name, and cannot be gone on with: each object would be there twice.
    #[error("what is kept has changes of cluster {kept:?}: cluster {wanted:?} needs a place of its own")]
    OtherCluster {
        /// Its name in what is kept.
        kept: String,
        /// The other.
        wanted: String,
    },
    /// Questions cannot be answered.
    #[error("listen for questions")]
    Admin(#[from] BindError),
    /// Health and metrics cannot be served.
    #[error("serve health and metrics at {address}")]
    Endpoint {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The election cannot work as configured.
    #[error("take part in the election of a leader")]
    Leader(#[from] LeaderConfigError),
    /// The data directory cannot be made.
    #[error("create the data directory {}", path.display())]
    DataDir {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What is kept can no longer be written.
    #[error("keep what happens")]
    Stopped(#[from] StopError),
}

/// Reactions that are ready to run.
#[derive(Debug)]
pub struct Reactions {
    engine: Engine,
    admin: AdminServer,
    endpoint: Option<HealthServer>,
}

impl Reactions {
    /// Installs our kinds, opens what is kept, and listens for questions.
    ///
    /// # Errors
    /// See [`ReactionsError`].
    pub async fn start(client: &Client, config: ReactionsConfig) -> Result<Self, ReactionsError> {
        let health = Health::new();
        let endpoint = bind(&health, config.endpoint).await?;
        let reactions = Self::open(client, config, &health).await?;
        Ok(Self {
            endpoint,
            ..reactions
        })
    }

    /// Like [`start`](Self::start), where `health` is served by somebody else.
    async fn open(client: &Client, config: ReactionsConfig, health: &Health) -> Result<Self, ReactionsError> {
        health.add_readiness(CAPTURE, || Err("what is kept is being opened".to_owned()));
        if config.install {
            install(client).await?;
        }
        std::fs::create_dir_all(&config.admin_dir).map_err(|source| ReactionsError::DataDir {
            path: config.admin_dir.clone(),
            source,
        })?;
        let engine = EngineConfig {
            server: config.journal,
            files: config.files,
            from_cluster: config.from_cluster,
            namespaces: config.namespaces,
            allowed: Allowed {
                exec: config.allow_exec,
                file: config.allow_file,
            },
            search_path: config.search_path,
            env: config.env,
            retention: Retention {
                max_bytes: config.journal_max_bytes,
                ..Retention::default()
            },
            sampling: config.traces.as_ref().map(Traces::sampling).unwrap_or_default(),
            capture: CaptureConfig {
                source: config.cluster.clone(),
                ..CaptureConfig::default()
            },
            ..EngineConfig::new(&config.data_dir)
        };
        let engine = open_patiently(client, engine, config.journal_wait, health).await?;
        check_cluster(engine.journal(), config.cluster)?;
        let admin = listen_patiently(&engine, config.admin, &config.admin_dir, health).await?;
        tell(health, &engine);
        if let Some(traces) = &config.traces {
            health.register(|registry| traces.register(registry));
        }
        Ok(Self {
            engine,
            admin,
            endpoint: None,
        })
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// If what is kept can no longer be written.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ReactionsError> {
        let stop = shutdown.child_token();
        let answering = tokio::spawn(self.admin.run(stop.clone()));
        let serving = self
            .endpoint
            .map(|endpoint| tokio::spawn(endpoint.run(stop.clone())));
        let ended = self.engine.run(shutdown).await;
        stop.cancel();
        if let Some(Err(error)) = maybe(serving).await {
            tracing::error!(%error, "serving health and metrics ended badly");
        }
        if let Err(error) = answering.await {
            tracing::error!(%error, "answering questions ended badly");
        }
        Ok(ended?)
    }
}

fn check_cluster(journal: &Journal, wanted: String) -> Result<(), ReactionsError> {
    let mut known = journal.collections().into_iter();
    match known.find(|one| one.source != wanted) {
        None => Ok(()),
        Some(Captured { source: kept, .. }) => Err(ReactionsError::OtherCluster { kept, wanted }),
    }
}

/// Readiness by what is captured.
const CAPTURE: &str = "capture";
/// Readiness by whether anything can be sent.
const DELIVERIES: &str = "deliveries";
/// Liveness by whether the election goes on.
const ELECTION: &str = "election";

/// The pause after the first time that the server of the journal is away; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Opens an engine; again and again for a while if the server that keeps its journal is away, and for as long as it
/// takes if the disk is full. Whoever asks is told why it is not ready.
async fn open_patiently(
    client: &Client,
    config: EngineConfig,
    patience: Duration,
    health: &Health,
) -> Result<Engine, EngineError> {
    let end = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match Engine::open(client, config.clone()).await {
            Err(EngineError::Server(error @ OpenError::Server(BlocksError::Unavailable(_)))) => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(error.into());
                }
                pause = pause.min(left);
                format!("the journal is not opened on its server: {error}")
            }
            // Also if another replica opened it meanwhile: to open it again would take it away from that one.
            opened => match opened.as_ref().err().and_then(EngineError::no_space) {
                Some(what) => no_room(&config.data_dir, &what),
                None => return opened,
            },
        };
        wait(health, why, pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Listens for questions; again and again while the disk is too full for the file that says where.
async fn listen_patiently(
    engine: &Engine,
    address: SocketAddr,
    dir: &Path,
    health: &Health,
) -> Result<AdminServer, BindError> {
    loop {
        match AdminServer::bind(engine.admin(), address, dir).await {
            Err(BindError::Door(DoorError::Write { source, .. })) if is_full(&source) => {
                wait(health, no_room(dir, &source.to_string()), FIRST_PAUSE).await;
            }
            bound => return bound,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn no_room(dir: &Path, what: &str) -> String {
    format!("there is no room in {}: {what}", dir.display())
}

/// Waits a while, and says why.
async fn wait(health: &Health, why: String, pause: Duration) {
    let answer = why.clone();
    // Before the log: who reads there that it waits, and then asks, is told the same.
    health.add_readiness(CAPTURE, move || Err(answer.clone()));
    tracing::warn!(why, ?pause, "not started yet; trying again after a pause");
    tokio::time::sleep(pause).await;
}

/// A server of health and metrics, if there is to be one.
async fn bind(health: &Health, address: Option<SocketAddr>) -> Result<Option<HealthServer>, ReactionsError> {
    let Some(address) = address else {
        return Ok(None);
    };
    health.register(|registry| registry.register_collector(Box::new(Process)));
    let server = HealthServer::bind(health, address).await;
    server
        .map(Some)
        .map_err(|source| ReactionsError::Endpoint { address, source })
}

/// Makes health and metrics those of an engine.
fn tell(health: &Health, engine: &Engine) {
    health.register(|registry| {
        engine.journal().register(registry);
        engine.capture().register(registry);
        engine.reactor().register(registry);
        if let Some(remote) = engine.remote() {
            remote.register(registry);
        }
        engine.register(registry);
    });
    let reactor = engine.reactor().clone();
    health.add_readiness(DELIVERIES, move || match reactor.status().no_space {
        Some(what) => Err(format!("there is no room to keep their state: {what}")),
        None => Ok(()),
    });
    let (capture, planned) = (engine.capture().clone(), engine.waiting());
    health.add_readiness(CAPTURE, move || {
        if let Some(why) = &*planned.borrow() {
            return Err(format!("nothing is planned yet: {why}"));
        }
        let waiting: Vec<String> = capture
            .status()
            .iter()
            .filter(|status| !matches!(status.phase, Phase::Watching | Phase::NotServed(_)))
            .map(|status| format!("{} ({:?})", status.name, status.phase))
            .collect();
        match waiting.is_empty() {
            true => Ok(()),
            false => Err(waiting.join(", ")),
        }
    });
}

async fn maybe<T>(task: Option<JoinHandle<T>>) -> Option<Result<T, JoinError>> {
    match task {
        Some(task) => Some(task.await),
        None => None,
    }
}

/// Works until told to stop; if there is an election, only while this replica leads. Health and metrics are served from
/// the beginning: who waits for the lease, or for a long journal to open, is alive.
///
/// # Errors
/// See [`ReactionsError`].
pub async fn run_reactions(
    client: &Client,
    mut config: ReactionsConfig,
    ready: impl FnOnce(),
    shutdown: CancellationToken,
) -> Result<(), ReactionsError> {
    let (health, stop) = (Health::new(), CancellationToken::new());
    let endpoint = bind(&health, config.endpoint.take()).await?;
    let serving = endpoint.map(|endpoint| tokio::spawn(endpoint.run(stop.clone())));
    let ended = match config.leader.take() {
        Some(leader) => lead(client, leader, config, &health, ready, shutdown).await,
        None => work(client, config, &health, ready, shutdown).await,
    };
    stop.cancel();
    if let Some(Err(error)) = maybe(serving).await {
        tracing::error!(%error, "serving health and metrics ended badly");
    }
    ended
}

async fn work(
    client: &Client,
    config: ReactionsConfig,
    health: &Health,
    ready: impl FnOnce(),
    shutdown: CancellationToken,
) -> Result<(), ReactionsError> {
    let reactions = tokio::select! {
        opened = Reactions::open(client, config, health) => opened?,
        () = shutdown.cancelled() => return Ok(()),
    };
    ready();
    reactions.run(shutdown).await
}

/// Waits until this replica leads, then works until it is told to stop or leads no more. The lease is given back last.
async fn lead(
    client: &Client,
    leader: LeaderConfig,
    config: ReactionsConfig,
    health: &Health,
    ready: impl FnOnce(),
    shutdown: CancellationToken,
) -> Result<(), ReactionsError> {
    let elector = Elector::new(client, leader)?;
    let fence = elector.fence();
    health.add_liveness(ELECTION, elector.liveness());
    let stop = CancellationToken::new();
    let electing = tokio::spawn(elector.run(stop.clone()));
    let led = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        () = fence.opened() => {
            let working = shutdown.child_token();
            let guarded = client.clone().guarded(std::sync::Arc::new(fence.clone()));
            let run = work(&guarded, config, health, ready, working.clone());
            tokio::pin!(run);
            tokio::select! {
                ended = &mut run => ended,
                () = fence.closed() => {
                    tracing::warn!("this replica leads no more");
                    working.cancel();
                    run.await
                }
            }
        }
    };
    stop.cancel();
    match electing.await {
        Ok(resigned) => {
            if let Err(error) = resigned.release().await {
                tracing::warn!(%error, "could not give back the lease; the others wait for its end");
            }
        }
        Err(error) => tracing::error!(%error, "the election ended badly"),
    }
    led
}

/// Installs the definitions of our kinds, or brings them up to date, and waits until they are served.
async fn install(client: &Client) -> Result<(), ReactionsError> {
    let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = Resource::known(&kind, "customresourcedefinitions", false);
    let api = Api::all(client, &resource);
    for definition in skopos_api::definitions() {
        let name = definition["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let failed = |source| ReactionsError::Install {
            name: name.clone(),
            source: Box::new(source),
        };
        let patch = Patch::Apply {
            object: &definition,
            manager: "skopos",
            force: true,
        };
        let answer = api.patch(&name, patch, &WriteParams::default()).await;
        let mut written = answer.map_err(failed)?.value;
        while !is_established(&written) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            written = api.get(&name).await.map_err(failed)?;
        }
    }
    Ok(())
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == "Established" && one["status"] == "True")
    })
}
