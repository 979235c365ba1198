//! Finds out which API server to talk to, and how.
//!
//! The environment is not read here: the caller says in [`Sources`] what it found there.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::{Client, transport};

/// Where a connection may be described, in the order in which it is looked for.
///
/// The first source that exists is used; a source that exists but is broken is an error, because silently
/// talking to another cluster than the one meant is worse.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A kubeconfig named by the user. Nothing else is tried if it is set.
    pub explicit: Option<PathBuf>,
    /// The files of the `KUBECONFIG` variable, merged as kubectl does. Files that do not exist are skipped.
    pub variable: Vec<PathBuf>,
    /// Whether to look for the service account of a pod.
    pub in_cluster: InCluster,
    /// The kubeconfig that a running `skopos up` writes.
    pub running: Option<PathBuf>,
    /// The user's own kubeconfig, usually `~/.kube/config`.
    pub home: Option<PathBuf>,
    /// A context to use instead of the current one.
    pub context: Option<String>,
}

impl Sources {
    /// The places that environment variables name: `KUBECONFIG`, the service account of a pod, the user's home.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use skopos_client::{Sources, connect};
    ///
    /// let client = connect(&Sources::of_variables(|name| std::env::var_os(name))).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let files = variable("KUBECONFIG").unwrap_or_default();
        let text = |name| variable(name).and_then(|value| value.into_string().ok());
        let in_cluster = match text("KUBERNETES_SERVICE_HOST") {
            Some(host) => InCluster::Yes(Pod {
                host,
                port: text("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".into()),
                dir: SERVICE_ACCOUNT_DIR.into(),
            }),
            None => InCluster::No,
        };
        Self {
            variable: std::env::split_paths(&files)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            in_cluster,
            home: variable("HOME").map(|home| PathBuf::from(home).join(".kube/config")),
            ..Self::default()
        }
    }
}

/// Whether this process may be running in a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum InCluster {
    /// The service variables of a pod are set.
    Yes(Pod),
    /// They are not.
    #[default]
    No,
}

/// What a pod is told about its API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The variable `KUBERNETES_SERVICE_HOST`.
    pub host: String,
    /// The variable `KUBERNETES_SERVICE_PORT`.
    pub port: String,
    /// Where the files `token`, `ca.crt` and `namespace` are, usually [`SERVICE_ACCOUNT_DIR`].
    pub dir: PathBuf,
}

/// Where a pod finds the files of its service account.
pub const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A connection that could not be set up. None of them is retryable without a change of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No source describes a server.
    #[error("no API server to talk to; looked at:\n{0}")]
    NothingFound(Tried),
    /// A kubeconfig was found but cannot be used.
    #[error("kubeconfig {}", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The service account of this pod cannot be used.
    #[error("in-cluster service account")]
    InCluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Certificates or credentials are not usable.
    #[error("credentials for {server}")]
    Credentials {
        /// The server's address.
        server: String,
        /// What is wrong with them.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The places that were looked at in vain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried(pub Vec<String>);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, place) in self.0.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}  - {place}")?;
        }
        Ok(())
    }
}

/// Connects to the first API server that `sources` describes. Sends nothing yet.
pub async fn connect(sources: &Sources) -> Result<Client, ConnectError> {
    let config = find(sources).await?;
    let server = config.cluster_url.to_string();
    let server = server.trim_end_matches('/').to_owned();
    let kube = transport::client(config).map_err(|source| ConnectError::Credentials {
        server: server.clone(),
        source,
    })?;
    Ok(Client::new(kube, &server))
}

async fn find(sources: &Sources) -> Result<kube::Config, ConnectError> {
    if let Some(path) = &sources.explicit {
        return from_file(path, sources).await;
    }
    let present: Vec<&PathBuf> = sources.variable.iter().filter(|path| path.exists()).collect();
    if let Some(first) = present.first() {
        let merged = merged(&present)?;
        return from_kubeconfig(first, merged, sources).await;
    }
    if let InCluster::Yes(pod) = &sources.in_cluster {
        return of_pod(pod).map_err(ConnectError::InCluster);
    }
    for path in [&sources.running, &sources.home].into_iter().flatten() {
        if path.exists() {
            return from_file(path, sources).await;
        }
    }
    Err(ConnectError::NothingFound(tried(sources)))
}

/// As the service account of a pod. The token is given by its file, which is read again each minute: tokens are replaced
/// before they end.
fn of_pod(pod: &Pod) -> Result<kube::Config, Box<dyn std::error::Error + Send + Sync>> {
    let read = |name: &str| {
        let path = pod.dir.join(name);
        fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))
    };
    let host = match pod.host.contains(':') {
        true => format!("[{}]", pod.host),
        false => pod.host.clone(),
    };
    let mut config = kube::Config::new(format!("https://{host}:{}", pod.port).parse()?);
    let authorities = CertificateDer::pem_slice_iter(read("ca.crt")?.as_bytes())
        .map(|one| Ok(one?.to_vec()))
        .collect::<Result<Vec<_>, rustls::pki_types::pem::Error>>()?;
    config.root_cert = Some(authorities);
    config.default_namespace = read("namespace")?.trim().to_owned();
    // Read once now, so that a missing one is told at the start.
    read("token")?;
    config.auth_info.token_file = Some(pod.dir.join("token").display().to_string());
    Ok(config)
}

fn merged(paths: &[&PathBuf]) -> Result<Kubeconfig, ConnectError> {
    let mut all = Kubeconfig::default();
    for path in paths {
        let one = Kubeconfig::read_from(path).map_err(|source| broken(path, source))?;
        all = all.merge(one).map_err(|source| broken(path, source))?;
    }
    Ok(all)
}

async fn from_file(path: &Path, sources: &Sources) -> Result<kube::Config, ConnectError> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|source| broken(path, source))?;
    from_kubeconfig(path, kubeconfig, sources).await
}

async fn from_kubeconfig(
    path: &Path,
    kubeconfig: Kubeconfig,
    sources: &Sources,
) -> Result<kube::Config, ConnectError> {
    let options = KubeConfigOptions {
        context: sources.context.clone(),
        ..KubeConfigOptions::default()
    };
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|source| broken(path, source))
}

fn broken(path: &Path, source: kube::config::KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig {
        path: path.to_owned(),
        source: source.into(),
    }
}

fn tried(sources: &Sources) -> Tried {
    let mut places = vec!["--kubeconfig: not given".to_owned()];
    match sources.variable.as_slice() {
        [] => places.push("KUBECONFIG: not set".to_owned()),
        paths => places.extend(
            paths
                .iter()
                .map(|p| format!("KUBECONFIG: {} does not exist", p.display())),
        ),
    }
    places.push("in-cluster service account: not in a pod".to_owned());
    if let Some(path) = &sources.running {
        places.push(format!(
            "a running `skopos up` in this directory: {} does not exist",
            path.display()
        ));
    }
    if let Some(path) = &sources.home {
        places.push(format!("your kubeconfig: {} does not exist", path.display()));
    }
    Tried(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lists_every_place_when_nothing_is_found() {
        let sources = Sources {
            variable: vec!["/no/such/file".into()],
            running: Some("/no/.skopos/kubeconfig".into()),
            home: Some("/no/.kube/config".into()),
            ..Sources::default()
        };
        let error = connect(&sources).await.err().unwrap().to_string();
        for place in [
            "--kubeconfig",
            "KUBECONFIG: /no/such/file",
            "in-cluster",
            ".skopos/kubeconfig",
            ".kube/config",
        ] {
            assert!(error.contains(place), "{place} missing in {error}");
        }
    }

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[tokio::test]
    async fn a_pod_is_its_service_account_unless_a_kubeconfig_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("token", "secret"),
            ("ca.crt", CERTIFICATE),
            ("namespace", "ops\n"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let variables = |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some("fd00::1".into()),
            "KUBERNETES_SERVICE_PORT" => Some("6443".into()),
            _ => None,
        };
        let mut sources = Sources::of_variables(variables);
        let InCluster::Yes(pod) = &mut sources.in_cluster else {
            panic!("{sources:?}");
        };
        assert_eq!(pod.dir, Path::new(SERVICE_ACCOUNT_DIR));
        pod.dir = dir.path().to_owned();
        let config = find(&sources).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://[fd00::1]:6443/");
        assert_eq!(config.default_namespace, "ops");
        assert_eq!(config.root_cert, Some(vec![vec![0, 0, 0]]));
        let token = config.auth_info.token_file.unwrap();
        assert!(token.ends_with("/token"), "{token}");

        sources.explicit = Some("/no/such/kubeconfig".into());
        assert!(matches!(
            find(&sources).await,
            Err(ConnectError::Kubeconfig { .. })
        ));
        sources.explicit = None;
        fs::remove_file(dir.path().join("token")).unwrap();
        let error = find(&sources).await.unwrap_err();
        let text = std::error::Error::source(&error).unwrap().to_string();
        assert!(text.contains("/token"), "{text}");
    }

    #[tokio::test]
    async fn explicit_file_that_is_missing_is_an_error_naming_it() {
        let sources = Sources {
            explicit: Some("/no/such/kubeconfig".into()),
            ..Sources::default()
        };
        let error = connect(&sources).await.err().unwrap();
        assert!(
            matches!(&error, ConnectError::Kubeconfig { path, .. } if path.ends_with("kubeconfig")),
            "{error:?}"
        );
    }
}
