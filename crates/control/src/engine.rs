//! Everything that turns changes into deliveries, assembled and run.

use std::{ffi::OsString, io, path::PathBuf, sync::Arc, time::Duration};

use skopos_client::{Client, Discovery};
use skopos_controller::{LeaderConfigError, ManagerConfig};
use skopos_informer::Subscription;
use skopos_journal::{Capture, CaptureConfig, Journal, JournalConfig, OpenError, Phase, Retention, Sampling};
use skopos_object::Collections as _;
use skopos_react::Reactor;
use skopos_remote::{BlocksError, JournalUrl, Remote};
use skopos_sink::Allowed;
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Admin, Verdicts,
    caches::Caches,
    kept::{self, Kept, LastWait},
    kinds::Files,
    planner::{Origins, Planned, Planner, Surroundings},
    status,
};

/// How an [`Engine`] works.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where the journal and the state of deliveries are kept, unless a server keeps them.
    pub data_dir: PathBuf,
    /// The server that keeps them instead, so that a replica elsewhere can go on with them.
    pub server: Option<JournalUrl>,
    /// Files and directories with rules, sinks and records, besides those of the cluster.
    pub files: Vec<PathBuf>,
    /// Whether rules, sinks and records of the cluster count (default: yes).
    pub from_cluster: bool,
    /// Only these namespaces are looked at: for rules, sinks and records, and for what those watch (default: all).
    pub namespaces: Vec<String>,
    /// What sinks of the cluster may do on this machine (default: nothing).
    pub allowed: Allowed,
    /// The `PATH` that commands inherit.
    pub search_path: Option<OsString>,
    /// Reads an environment variable, for sinks from files.
    pub env: fn(&str) -> Option<String>,
    /// How long history is kept where no record says so (default: for ever).
    pub retention: Retention,
    /// How the journal is written.
    pub journal: JournalConfig,
    /// How collections are followed.
    pub capture: CaptureConfig,
    /// How often the values that sinks name are looked at (default 30 s); those of a sink with failures at once.
    pub look_every: Duration,
    /// How often status is written at most (default 2 s).
    pub status_every: Duration,
    /// How often the rights of the service accounts that rules act as are looked at (default 1 min).
    pub review_every: Duration,
    /// Which traces are recorded, as receivers of deliveries are told (default: all).
    pub sampling: Sampling,
}

impl EngineConfig {
    /// The defaults, in a directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self {
            journal: JournalConfig::new(data_dir.join("journal")),
            data_dir,
            server: None,
            files: Vec::new(),
            from_cluster: true,
            namespaces: Vec::new(),
            allowed: Allowed::default(),
            search_path: None,
            env: |_| None,
            retention: Retention::default(),
            capture: CaptureConfig::default(),
            look_every: Duration::from_secs(30),
            status_every: Duration::from_secs(2),
            review_every: Duration::from_secs(60),
            sampling: Sampling::default(),
        }
    }
}

/// An engine was not opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal cannot be used.
    #[error("open the journal")]
    Journal(#[from] OpenError),
    /// The server that keeps the journal cannot be used. It may be away; trying again later may help.
    #[error("open the journal on its server")]
    Server(#[from] skopos_remote::OpenError),
    /// The state of deliveries cannot be used.
    #[error("open the state of deliveries in {}", path.display())]
    Deliveries {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: skopos_react::Error,
    },
    /// A file with rules cannot be read.
    #[error("read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The thread that opens files failed.
    #[error("open the data directory")]
    Thread(#[source] JoinError),
    /// What is kept was captured in other namespaces, and cannot be gone on with.
    #[error("what is kept has changes of {kept} namespaces: to watch {wanted} needs a place of its own")]
    OtherNamespaces {
        /// `all` or `some`.
        kept: &'static str,
        /// The other.
        wanted: &'static str,
    },
    /// The controllers of our own kinds do not start.
    #[error("start the controllers of our own kinds")]
    Manager(#[source] LeaderConfigError),
}

impl EngineError {
    /// What the system said, if there was no room on the disk; trying again later may help.
    pub fn no_space(&self) -> Option<String> {
        match self {
            Self::Journal(error) => error.no_space(),
            Self::Deliveries { source, .. } => source.no_space(),
            _ => None,
        }
    }
}

/// An engine ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The state of deliveries can no longer be kept.
    #[error("keep the state of deliveries")]
    Deliveries(#[source] Box<skopos_react::Error>),
    /// The journal takes no more changes, because a write or sync failed: what is on disk is no longer sure. The next start
    /// goes on from what is.
    #[error("the journal takes no more changes: {0}")]
    Journal(String),
    /// What delivers panicked. Nothing is lost; the next start goes on.
    #[error("deliveries ended badly")]
    Panicked(#[source] JoinError),
    /// Another replica took over what the server keeps, or the server lost some of it.
    #[error(transparent)]
    Lost(#[from] BlocksError),
}

/// Follows what rules and records ask for, writes every change down, and delivers what matches.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    client: Client,
    journal: Journal,
    capture: Capture,
    reactor: Reactor,
    /// The server that keeps the journal, if one does.
    remote: Option<Remote>,
    files: Files,
    verdicts: watch::Sender<Arc<Verdicts>>,
    /// Why nothing is planned yet; nothing once something is.
    waiting: watch::Sender<Option<String>>,
}

impl Engine {
    /// Opens what is kept, and reads the files. Does nothing yet.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub async fn open(client: &Client, config: EngineConfig) -> Result<Self, EngineError> {
        let Kept {
            journal,
            reactor,
            remote,
        } = Kept::open(&config).await?;
        check_namespaces(&journal, &config.namespaces)?;
        let client = &match config.namespaces.first() {
            Some(first) => client.clone().known_by(first),
            None => client.clone(),
        };
        let mut files = Files::new(config.files.clone());
        if !config.files.is_empty() {
            files
                .refresh()
                .map_err(|(path, source)| EngineError::File { path, source })?;
        }
        let capture = Capture::new(
            journal.clone(),
            Arc::new(Discovery::new(client)),
            config.capture.clone(),
        );
        Ok(Self {
            client: client.clone(),
            journal,
            capture,
            reactor,
            remote,
            files,
            verdicts: watch::Sender::default(),
            waiting: watch::Sender::new(Some("our own kinds are being read".to_owned())),
            config,
        })
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What delivers.
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// The server that keeps the journal, if one does.
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// What captures.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Answers questions about all of it.
    pub fn admin(&self) -> Admin {
        Admin::new(self.journal.clone())
            .with_capture(self.capture.clone())
            .with_reactor(self.reactor.clone())
            .with_rules(Arc::new(self.verdicts()))
    }

    /// What became of what was asked for.
    pub fn verdicts(&self) -> watch::Receiver<Arc<Verdicts>> {
        self.verdicts.subscribe()
    }

    /// Why nothing is planned yet: what must be known of first, and what keeps it from being read. Nothing once rules,
    /// sinks and records are in force.
    pub fn waiting(&self) -> watch::Receiver<Option<String>> {
        self.waiting.subscribe()
    }

    /// Works until told to stop, then stops everything in order and closes what is kept.
    ///
    /// # Errors
    /// If the journal or the state of deliveries can no longer be kept, or is kept by another now, or if what delivers
    /// panicked; the journal is closed all the same. Whoever started it should start it anew.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), StopError> {
        let stop = shutdown.child_token();
        let mut tasks = JoinSet::new();
        tasks.spawn(self.capture.clone().run(stop.clone()));
        let reactor = self.reactor.clone();
        let mut reacting = tokio::spawn({
            let stop = stop.clone();
            async move { reactor.run(stop).await }
        });
        let (journal, remote) = (self.journal.clone(), self.remote.clone());
        let planning = self.control(&mut tasks, stop.clone());
        let (mut cause, mut reacted) = (None, None);
        tokio::select! {
            // In this order: a server that takes nothing any more fails the journal too.
            biased;
            error = kept::lost(remote.as_ref()) => cause = Some(StopError::Lost(error)),
            why = journal.failed() => cause = Some(StopError::Journal(why)),
            // By itself it ends only when its state can no longer be kept.
            ended = &mut reacting => reacted = Some(ended),
            () = shutdown.cancelled() => {}
            () = planning => {}
        }
        stop.cancel();
        let ending = remote.map(LastWait::begin);
        let reacted = match reacted {
            Some(ended) => ended,
            None => reacting.await,
        };
        while tasks.join_next().await.is_some() {}
        journal.close().await;
        drop(ending);
        match cause {
            Some(cause) => Err(cause),
            None => how_it_ended(reacted),
        }
    }

    /// Keeps what is in force in step with what is asked for.
    async fn control(mut self, tasks: &mut JoinSet<()>, stop: CancellationToken) {
        let discovery = Arc::new(Discovery::new(&self.client));
        let notes = self.reactor.notes().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the last good forms of rules and records cannot be read");
            Default::default()
        });
        let around = Surroundings {
            client: Some(self.client.clone()),
            collections: discovery.clone(),
            journal: self.journal.clone(),
            allowed: self.config.allowed,
            search_path: self.config.search_path.clone(),
            env: self.config.env,
            retention: self.config.retention.clone(),
            look_every: self.config.look_every,
            review_every: self.config.review_every,
            origins: Origins {
                cluster: self.config.from_cluster,
                files: !self.config.files.is_empty(),
            },
            namespaces: self.config.namespaces.clone(),
        };
        let mut planner = Planner::new(around, &notes);
        let manager = match status::manager(&self.client, &self.about()) {
            Ok(manager) => manager,
            Err(error) => {
                tracing::error!(%error, "our own kinds are not followed");
                return;
            }
        };
        let (from_cluster, namespaces) = (self.config.from_cluster, &self.config.namespaces);
        let caches = Caches::new(&manager, discovery.clone(), from_cluster, namespaces);
        let running = stop.clone();
        tasks.spawn(async move {
            if let Err(error) = manager.run(running).await {
                tracing::error!(%error, "the controllers of our own kinds ended");
            }
        });
        caches
            .ready(|waiting| {
                self.waiting.send_replace(Some(waiting.to_owned()));
            })
            .await;
        let mut look = tokio::time::interval(Duration::from_secs(1));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut subscriptions = caches.subscriptions();
        let mut is_unsettled = true;
        let mut is_due = true;
        while !stop.is_cancelled() {
            if !caches.is_settled() {
                // What was planned before stays, until it is known what there is.
                is_unsettled = true;
            } else if is_due || is_unsettled {
                let kinds = caches.kinds().with(self.files.kinds());
                let planned = planner.plan(&kinds, &caches.definitions()).await;
                is_unsettled = planned.is_unsettled;
                self.note(&mut planner).await;
                self.put_in_force(planned);
            }
            is_due = tokio::select! {
                            () = stop.cancelled() => return,
                            () = changed(&mut subscriptions) => true,
                            _ = look.tick() => {
                                let is_look_due = planner.is_look_due(&self.reactor.status().sinks);
            let is_lost = self.look_for_lost_kinds(&discovery).await;
                                self.refresh_files() || planner.is_review_due() || is_look_due || is_lost
                            }
                        };
        }
    }

    /// Asks anew for the kinds that are captured and are not served; whether there are any.
    ///
    /// They were when that was planned, or are remembered to be: nobody need have watched their definitions go.
    async fn look_for_lost_kinds(&self, discovery: &Discovery) -> bool {
        const LIMIT: Duration = Duration::from_secs(5);
        let mut status = self.capture.status();
        status.retain(|one| matches!(one.phase, Phase::NotServed(_)));
        for one in &status {
            // What comes of it is remembered, and seen by the next plan.
            let _ = tokio::time::timeout(LIMIT, discovery.reopen(&one.name)).await;
        }
        !status.is_empty()
    }

    /// Writes down what the next start must remember, before it takes effect. What fails is tried again with the next
    /// plan.
    async fn note(&self, planner: &mut Planner) {
        let news = planner.news();
        if news.is_empty() {
            return;
        }
        match self.reactor.note(news).await {
            Ok(()) => planner.noted(),
            Err(error) => tracing::debug!(%error, "the last good forms are not written down for now"),
        }
    }

    fn put_in_force(&self, planned: Planned) {
        self.journal.set_retention(planned.retention);
        // Rules before changes: a new one begins at the newest change there is.
        self.reactor.swap(planned.plan);
        self.capture.ask(planned.asked);
        let before = self.verdicts.send_replace(Arc::new(planned.verdicts));
        self.verdicts.borrow().log_news(&before);
        self.waiting.send_replace(None);
    }

    fn refresh_files(&mut self) -> bool {
        if self.config.files.is_empty() {
            return false;
        }
        self.files.refresh().unwrap_or_else(|(path, error)| {
            tracing::warn!(path = %path.display(), %error, "rules cannot be read now; those of before stay in force");
            false
        })
    }

    fn about(&self) -> status::About {
        status::About {
            verdicts: self.verdicts.subscribe(),
            journal: self.journal.clone(),
            capture: self.capture.clone(),
            reactor: self.reactor.clone(),
            every: self.config.status_every,
            namespaces: self.config.namespaces.clone(),
        }
    }
}

/// What the end of what delivers means. Its task is never cancelled, so without a result it panicked.
fn how_it_ended(reacted: Result<Result<(), skopos_react::Error>, JoinError>) -> Result<(), StopError> {
    let ended = reacted.map_err(StopError::Panicked)?;
    ended.map_err(|error| StopError::Deliveries(Box::new(error)))
}

/// Waits until something changes that matters: status, which we write ourselves, does not.
async fn changed(subscriptions: &mut [Subscription]) {
    loop {
        let waits = subscriptions.iter_mut().map(|one| Box::pin(one.next()));
        let (told, ..) = futures_util::future::select_all(waits).await;
        let Some(told) = told else {
            // Stopped: nothing will ever change again.
            return std::future::pending().await;
        };
        let change = &told.change;
        let is_spec = match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                old.generation() != new.generation() || old.uid() != new.uid() || new.generation() == 0
            }
            _ => true,
        };
        if is_spec {
            return;
        }
    }
}

/// A configuration of the manager for our own kinds.
pub(crate) fn manager_config(namespaces: &[String]) -> ManagerConfig {
    let mut config = ManagerConfig::new("skopos.dev/control");
    // Who may read only namespaces learns of new kinds by asking.
    config.informers.definitions = namespaces.is_empty();
    config
}

/// Each namespace is a collection of its own, with its own position: what was captured in all of them at once cannot be
/// gone on with in some, nor the other way round.
fn check_namespaces(journal: &Journal, namespaces: &[String]) -> Result<(), EngineError> {
    let is_of_some = !namespaces.is_empty();
    let known = journal.collections();
    if known.iter().all(|one| one.is_of_namespace() == is_of_some) {
        return Ok(());
    }
    let (kept, wanted) = match is_of_some {
        true => ("all", "some"),
        false => ("some", "all"),
    };
    Err(EngineError::OtherNamespaces { kept, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_what_delivers_is_an_error() {
        let panicking = tokio::spawn(async { panic!("a mistake in the program") });
        let ended = how_it_ended(panicking.await);
        assert!(matches!(ended, Err(StopError::Panicked(_))), "{ended:?}");
        assert!(how_it_ended(Ok(Ok(()))).is_ok());
    }
}
