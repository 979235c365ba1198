//! The server under test.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Endpoint, Kubeconfig, Server, Start, skopos};

/// A server to test: an embedded one of the test's own, or a given one.
#[derive(Debug)]
pub struct Target {
    kubeconfig: PathBuf,
    embedded: Option<Server>,
    dir: TempDir,
}

impl Target {
    /// Takes the server that `SKOPOS_TARGET` names by its kubeconfig, or starts an embedded one.
    pub fn start() -> anyhow::Result<Target> {
        let dir = tempfile::tempdir()?;
        if let Some(kubeconfig) = std::env::var_os("SKOPOS_TARGET") {
            return Ok(Target {
                kubeconfig: kubeconfig.into(),
                embedded: None,
                dir,
            });
        }
        let data = dir.path().join("data");
        let server = Server::start(&Start {
            program: skopos()?,
            dir: data,
            in_memory: true,
            port: 0,
        })?;
        Ok(Target {
            kubeconfig: server.kubeconfig().to_owned(),
            embedded: Some(server),
            dir,
        })
    }

    /// An administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory for the test, deleted with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process, if the test started it.
    pub fn embedded(&self) -> Option<&Server> {
        self.embedded.as_ref()
    }

    /// A client with the administrator's credentials.
    pub fn endpoint(&self) -> anyhow::Result<Endpoint> {
        Endpoint::new(&Kubeconfig::read(&self.kubeconfig)?)
    }

    /// A client without credentials.
    pub fn anonymous(&self) -> anyhow::Result<Endpoint> {
        Endpoint::anonymous(&Kubeconfig::read(&self.kubeconfig)?)
    }
}
