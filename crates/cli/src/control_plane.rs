//! The embedded control plane, as commands use it. The only place that knows `skopos-app`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::failure::{Code, Failure};

/// How a control plane is to run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where it keeps its data; `None` keeps them in memory only.
    pub(crate) data_dir: Option<PathBuf>,
    /// Where it listens; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// Where it writes the kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// Certificate and key to serve with, instead of its own.
    pub(crate) serving_certificate: Option<(PathBuf, PathBuf)>,
    /// Certificates of those who may sign client certificates, besides its own.
    pub(crate) client_ca: Option<PathBuf>,
}

/// A control plane that is ready.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    settings: Settings,
}

impl ControlPlane {
    pub(crate) async fn start(settings: Settings) -> Result<Self, Failure> {
        Err(Failure::new(Code::NoStart, format!("no control plane for {}", settings.listen)))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.settings.listen
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.settings.kubeconfig
    }

    /// Serves until told to stop, then closes everything.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), Failure> {
        stop.cancelled().await;
        Ok(())
    }
}
