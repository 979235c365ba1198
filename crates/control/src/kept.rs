//! The journal and the state of deliveries, opened where they are kept: in a directory, or on a server.

use std::{path::Path, sync::Arc, time::Duration};

use skopos_journal::{Journal, JournalConfig};
use skopos_react::{Config, Reactor};
use skopos_remote::{BlocksError, JournalUrl, Remote, RemoteConfig};
use tokio::task::JoinHandle;

use crate::{EngineConfig, EngineError};

/// What the state of deliveries is called on a server.
const DELIVERIES: &str = "react.redb";
/// Segments on a server are smaller: each is read whole by whoever takes over.
const SEGMENT_BYTES: u64 = 16 << 20;
/// How long a server that does not answer is waited for at the end.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// What is kept.
pub(crate) struct Kept {
    pub(crate) journal: Journal,
    pub(crate) reactor: Reactor,
    pub(crate) remote: Option<Remote>,
}

impl Kept {
    pub(crate) async fn open(config: &EngineConfig) -> Result<Self, EngineError> {
        match &config.server {
            Some(url) => Self::on_server(config, url).await,
            None => Self::in_directory(config).await,
        }
    }

    async fn in_directory(config: &EngineConfig) -> Result<Self, EngineError> {
        let journal_config = config.journal.clone();
        let journal = on_thread(move || Ok(Journal::open(journal_config)?)).await?;
        let (log, dir) = (Arc::new(journal.clone()), config.data_dir.clone());
        let reacting = reacting(config);
        let reactor =
            on_thread(move || Reactor::open_with(&dir, log, reacting).map_err(unusable(&dir))).await?;
        Ok(Self {
            journal,
            reactor,
            remote: None,
        })
    }

    async fn on_server(config: &EngineConfig, url: &JournalUrl) -> Result<Self, EngineError> {
        let remote = Remote::open(url, RemoteConfig::default()).await?;
        let opening = Opening(Some(remote.clone()));
        let journal_config = JournalConfig {
            segment_bytes: config.journal.segment_bytes.min(SEGMENT_BYTES),
            ..config.journal.clone()
        };
        let disk = Arc::new(remote.disk());
        let journal = on_thread(move || Ok(Journal::open_on(disk, journal_config)?)).await?;
        let (log, opened) = (Arc::new(journal.clone()), remote.clone());
        let reacting = reacting(config);
        let reactor = on_thread(move || {
            let place = Path::new(opened.place()).join(DELIVERIES);
            let backend = move || opened.backend(DELIVERIES);
            Reactor::in_backend(backend, &place, log, reacting).map_err(unusable(&place))
        })
        .await?;
        opening.end();
        Ok(Self {
            journal,
            reactor,
            remote: Some(remote),
        })
    }
}

fn reacting(config: &EngineConfig) -> Config {
    Config {
        sampling: config.sampling,
        ..Config::default()
    }
}

/// While something is opened a thread may wait for a server that went away: it is not waited for once nobody wants it
/// opened any more.
struct Opening(Option<Remote>);

impl Opening {
    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(remote) = &self.0 {
            remote.give_up();
        }
    }
}

fn unusable(path: &Path) -> impl FnOnce(skopos_react::Error) -> EngineError {
    let path = path.to_owned();
    |source| EngineError::Deliveries { path, source }
}

async fn on_thread<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(open)
        .await
        .map_err(EngineError::Thread)?
}

/// Waits until the server takes nothing from us any more; for ever if no server keeps things.
pub(crate) async fn lost(remote: Option<&Remote>) -> BlocksError {
    match remote {
        Some(remote) => remote.lost().await,
        None => std::future::pending().await,
    }
}

/// The end of what a server keeps: it is not waited for longer than [`LAST_WAIT`], and not at all once this is gone. What
/// was not written by then is observed again by whoever starts next.
pub(crate) struct LastWait {
    remote: Remote,
    task: JoinHandle<()>,
}

impl LastWait {
    pub(crate) fn begin(remote: Remote) -> Self {
        let waiting = remote.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(LAST_WAIT).await;
            waiting.give_up();
        });
        Self { remote, task }
    }
}

impl Drop for LastWait {
    fn drop(&mut self) {
        self.task.abort();
        self.remote.give_up();
    }
}
