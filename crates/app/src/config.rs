//! What can be chosen about a running Skopos.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::ReactionsConfig;

/// How Skopos runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything durable is kept; `None` keeps it in memory.
    pub data_dir: Option<PathBuf>,
    /// Where the API server listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the administrator's kubeconfig is written; by default `kubeconfig` in the data directory, and
    /// nowhere without one.
    pub kubeconfig: Option<PathBuf>,
    /// Certificates and tokens from elsewhere.
    pub credentials: Credentials,
    /// Watch and react too, besides serving.
    pub reactions: Option<ReactionsConfig>,
    /// Events of each kind that watches can go back to; `None` is the usual number.
    pub max_history_events: Option<u32>,
}

/// Certificates and tokens given by files instead of made by Skopos.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Serving certificate and its key, in PEM.
    pub serving: Option<(PathBuf, PathBuf)>,
    /// Authorities whose client certificates are accepted, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Static tokens, in the format of kube-apiserver's `--token-auth-file`.
    pub tokens: Option<PathBuf>,
    /// Where certificates and tokens are kept when that is not the data directory.
    pub dir: Option<PathBuf>,
}

impl Config {
    /// Everything in memory, on a free port of the loopback interface.
    #[must_use]
    pub fn in_memory() -> Config {
        Config {
            data_dir: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            kubeconfig: None,
            credentials: Credentials::default(),
            reactions: None,
            max_history_events: None,
        }
    }
}
