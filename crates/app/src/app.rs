//! A running Skopos: started, run until told to stop, stopped in order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use skopos_apiserver::{ApiServer, ApiService};
use skopos_client::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Config, Reactions, ReactionsError};

/// Skopos with its parts wired together.
#[derive(Debug)]
pub struct App {
    server: ApiServer,
    listener: TcpListener,
    address: SocketAddr,
    kubeconfig: String,
    kubeconfig_path: Option<PathBuf>,
    reactions: Option<Reactions>,
}

/// Why Skopos does not start. None of these goes away by trying again.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("listen on {address}; choose another with --listen, or stop what uses it")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The data directory cannot be made.
    #[error("create the data directory {}", path.display())]
    DataDir {
        /// What was asked for.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The API server does not start.
    #[error("start the API server")]
    Server(#[from] skopos_apiserver::StartError),
    /// The kubeconfig cannot be written.
    #[error("write the kubeconfig")]
    Kubeconfig(#[source] skopos_apiserver::PkiError),
    /// Watching and reacting does not start.
    #[error("start watching and reacting")]
    Reactions(#[from] ReactionsError),
}

/// Why a running Skopos ended other than by being told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Watching and reacting ended.
    #[error("watching and reacting ended")]
    Reactions(#[from] ReactionsError),
}

impl App {
    /// Opens the data directory, binds the listener, starts the API server, writes the kubeconfig.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<App, StartError> {
        let listen_error = |source| StartError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        if let Some(path) = &config.data_dir {
            let failed = |source| StartError::DataDir {
                path: path.clone(),
                source,
            };
            std::fs::create_dir_all(path).map_err(failed)?;
        }
        let server = ApiServer::start(server_config(&config, address)).await?;
        let kubeconfig = server.kubeconfig(&format!("https://{}", reachable(address)));
        let default_path = config.data_dir.as_ref().map(|dir| dir.join("kubeconfig"));
        let kubeconfig_path = config.kubeconfig.clone().or(default_path);
        if let Some(path) = &kubeconfig_path {
            kubeconfig.write(path).map_err(StartError::Kubeconfig)?;
        }
        let reactions = match config.reactions {
            Some(reactions) => Some(Reactions::start(&in_process(&server), reactions).await?),
            None => None,
        };
        Ok(App {
            server,
            listener,
            address,
            kubeconfig: kubeconfig.to_yaml(),
            kubeconfig_path,
            reactions,
        })
    }

    /// Where the API server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The administrator's kubeconfig, in YAML.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Where the kubeconfig was written, if anywhere.
    #[must_use]
    pub fn kubeconfig_path(&self) -> Option<&Path> {
        self.kubeconfig_path.as_deref()
    }

    /// The API server for clients in this process, without a socket.
    #[must_use]
    pub fn client_service(&self) -> ApiService {
        self.server.service()
    }

    /// Serves until told to stop, then stops everything in order.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), RunError> {
        // Not a child of `shutdown`: that would end the server first, and what reacts would be cut off unsaved.
        let stop = CancellationToken::new();
        let reacted = {
            let serving = self.server.serve(self.listener, stop.clone());
            let reacting = async {
                match self.reactions {
                    Some(reactions) => reactions.run(shutdown.clone()).await,
                    None => {
                        shutdown.cancelled().await;
                        Ok(())
                    }
                }
            };
            tokio::pin!(serving);
            tokio::select! {
                () = &mut serving => Ok(()),
                // The server goes last: who reacts still writes to it.
                reacted = reacting => {
                    stop.cancel();
                    serving.await;
                    reacted
                }
            }
        };
        self.server.stop().await;
        Ok(reacted?)
    }
}

/// A client of the server in this process, without a socket.
fn in_process(server: &ApiServer) -> Client {
    Client::new(kube::Client::new(server.service(), "default"), "in process")
}

fn server_config(config: &Config, address: SocketAddr) -> skopos_apiserver::Config {
    let data_dir = config.data_dir.as_deref();
    let credentials = &config.credentials;
    let mut store = skopos_store::Config {
        dir: data_dir.map(|dir| dir.join("store")),
        ..skopos_store::Config::default()
    };
    if let Some(events) = config.max_history_events {
        store.history.max_events = events as usize;
    }
    skopos_apiserver::Config {
        store,
        pki_dir: credentials
            .dir
            .clone()
            .or_else(|| data_dir.map(|dir| dir.join("pki"))),
        names: vec![address.ip().to_string()],
        serving_files: credentials.serving.clone(),
        client_ca_file: credentials.client_ca.clone(),
        token_file: credentials.tokens.clone(),
        ..skopos_apiserver::Config::default()
    }
}

/// An address a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        _ => address,
    }
}
