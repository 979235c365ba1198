//! The embedded control plane, as commands use it. The only place that knows `skopos-app`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use skopos_app::{App, Config, Credentials, ReactionsConfig, StartError};
use tokio_util::sync::CancellationToken;

use crate::failure::{Code, Failure, chain};
use crate::journal_server;

/// How a control plane is to run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where it keeps its data; `None` keeps them in memory only.
    pub(crate) data_dir: Option<PathBuf>,
    /// Where it listens; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// Where it writes the kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// Certificates and tokens from elsewhere.
    pub(crate) credentials: Credentials,
    /// Watch and react too.
    pub(crate) reactions: Option<ReactionsConfig>,
    /// Events of each kind that watches can go back to, if not the usual number.
    pub(crate) max_history_events: Option<u32>,
}

/// A control plane that is ready.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    app: App,
    kubeconfig: PathBuf,
    in_memory: bool,
}

impl ControlPlane {
    pub(crate) async fn start(settings: Settings) -> Result<Self, Failure> {
        let in_memory = settings.data_dir.is_none();
        if let Some(dir) = settings.kubeconfig.parent() {
            std::fs::create_dir_all(dir).map_err(|error| cannot_create(dir, &error))?;
        }
        let config = Config {
            data_dir: settings.data_dir,
            listen: settings.listen,
            kubeconfig: Some(settings.kubeconfig.clone()),
            credentials: settings.credentials,
            reactions: settings.reactions,
            max_history_events: settings.max_history_events,
        };
        let app = App::start(config).await.map_err(|error| not_started(&error))?;
        Ok(Self {
            app,
            kubeconfig: settings.kubeconfig,
            in_memory,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.app.address()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Serves until told to stop, then closes everything.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), Failure> {
        let result = self.app.run(stop).await;
        if self.in_memory {
            // Its certificates are gone with it: nobody can use the file again.
            let _ = std::fs::remove_file(&self.kubeconfig);
        }
        result.map_err(|error| Failure::failed(chain(&error)))
    }
}

fn cannot_create(dir: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::NoStart, format!("cannot create {}: {error}", dir.display()))
        .hint("choose a directory that you may write to with --data-dir")
}

fn not_started(error: &StartError) -> Failure {
    let failure = Failure::new(
        Code::NoStart,
        format!("the control plane did not start: {}", chain(error)),
    );
    match error {
        StartError::Listen { .. } => failure.hint("--listen 127.0.0.1:0 takes a free port"),
        StartError::DataDir { .. } | StartError::Kubeconfig(_) => {
            failure.hint("choose a directory that you may write to with --data-dir")
        }
        StartError::Server(_) => failure.hint("is another `skopos up` using this data directory?"),
        StartError::Reactions(error) => match journal_server::hint(error) {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
    }
}
