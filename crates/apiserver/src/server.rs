//! The server as a value: start it, talk to it in process or over TLS, stop it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skopos_store::{OpenError, Store};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controllers::{Garbage, Namespaces, create_if_absent, expire};
use crate::definition::{Built, Definitions};
use crate::edge::{
    Authenticator, Edge, EdgeConfig, EdgeService, HealthCheck, Kubeconfig, Limits, Pki, PkiError,
    ServingCertificate, TokenFileError, TokenTable, User, serve,
};
use crate::registry::Resource;
use crate::route::Router;
use crate::state::{Settings, Shared};
use crate::write::{OwnWrite, track_own};

/// How a server is set up. The default keeps everything in memory.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where objects are kept and how.
    pub store: skopos_store::Config,
    /// Where certificates and tokens are kept; `None` makes new ones for this run.
    pub pki_dir: Option<PathBuf>,
    /// Further names and addresses for the serving certificate.
    pub names: Vec<String>,
    /// A serving certificate and key to use instead of our own.
    pub serving_files: Option<(PathBuf, PathBuf)>,
    /// Certificates that client certificates may be signed by, beside our own authority.
    pub client_ca_file: Option<PathBuf>,
    /// Static tokens, in the format of kube-apiserver's `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// Bounds and timeouts of the edge.
    pub limits: Limits,
    /// How long events are kept. One hour.
    pub event_ttl: Duration,
    /// How often a quiet watch gets a bookmark if it asked for them. One minute.
    pub bookmark_interval: Duration,
    /// Watches without a timeout end after one to two times this. Half an hour.
    pub min_watch_timeout: Duration,
    /// How long a read of a version still to come waits for it. Three seconds.
    pub future_version_wait: Duration,
    /// What uids and generated names are drawn from, for tests that repeat a run. The system's randomness.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            store: skopos_store::Config::default(),
            pki_dir: None,
            names: Vec::new(),
            serving_files: None,
            client_ca_file: None,
            token_file: None,
            limits: Limits::default(),
            event_ttl: Duration::from_secs(3600),
            bookmark_interval: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(1800),
            future_version_wait: Duration::from_secs(3),
            seed: None,
        }
    }
}

/// Why a server does not start. None of these goes away by trying again.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("open the store")]
    Store(#[source] Box<OpenError>),
    /// Certificates or keys cannot be read or made.
    #[error("prepare certificates")]
    Pki(#[from] PkiError),
    /// The token file cannot be used.
    #[error("read the token file")]
    Tokens(#[from] TokenFileError),
    /// The objects every cluster has could not be stored.
    #[error("create the system namespaces: {0}")]
    Bootstrap(String),
}

/// A running API server.
pub struct ApiServer {
    shared: Arc<Shared>,
    edge: Edge<Router>,
    pki: Pki,
    tls: Arc<rustls::ServerConfig>,
    serving_ca: String,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("revision", &self.shared.store.revision())
            .finish_non_exhaustive()
    }
}

/// What in-process clients call: a `tower::Service` that `kube::Client` accepts.
pub type ApiService = EdgeService<Router>;

impl ApiServer {
    /// Opens the store, makes what every cluster has, and starts the controllers.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<ApiServer, StartError> {
        let store = Store::open(config.store.clone()).map_err(|e| StartError::Store(Box::new(e)))?;
        Self::start_on(store, config).await
    }

    /// Starts on a store that is open already; what `config` says of the store is not looked at.
    ///
    /// For tests that restart a server, or make it forget its history.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start_on(store: Store, config: Config) -> Result<ApiServer, StartError> {
        let pki = Pki::load_or_create(config.pki_dir.as_deref(), &config.names)?;
        let tokens = read_tokens(&config, &pki)?;
        let (tls, serving_ca, authenticator) = identities(&config, &pki, tokens.clone())?;
        let shared = Arc::new(Shared::new(store, tokens, settings(&config, &serving_ca)));
        let built = bootstrap(&shared)
            .await
            .map_err(|status| StartError::Bootstrap(status.message))?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(Definitions::run(Arc::clone(&shared), built, stop.clone()));
        tasks.spawn(Namespaces::run(Arc::clone(&shared), stop.clone()));
        tasks.spawn(Garbage::run(Arc::clone(&shared), stop.clone()));
        tasks.spawn(expire(Arc::clone(&shared), stop.clone()));
        let edge_config = EdgeConfig {
            limits: config.limits.clone(),
            authenticator,
            checks: vec![store_check(&shared.store)],
        };
        let edge = Edge::new(Router::new(Arc::clone(&shared)), edge_config);
        Ok(ApiServer {
            shared,
            edge,
            pki,
            tls,
            serving_ca,
            tasks,
            stop,
        })
    }

    /// A service for clients in this process, who are the administrator.
    #[must_use]
    pub fn service(&self) -> ApiService {
        self.edge.in_process(User::admin())
    }

    /// The administrator's kubeconfig for a server reached at `url`.
    #[must_use]
    pub fn kubeconfig(&self, url: &str) -> Kubeconfig {
        Kubeconfig {
            ca_pem: self.serving_ca.clone(),
            ..Kubeconfig::admin(url, &self.pki)
        }
    }

    /// Serves HTTPS on a listener until told to stop, then ends watches and waits for requests under way.
    /// The future does not borrow the server, so it can be a task of its own.
    pub fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        serve(listener, Arc::clone(&self.tls), self.edge.clone(), shutdown)
    }

    /// Stops the controllers and closes the store; everything acknowledged is on disk.
    pub async fn stop(mut self) {
        self.edge.drain();
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.shared.store.close().await;
    }
}

/// Unhealthy while the log takes no writes. It has the name that operators know.
fn store_check(store: &Store) -> HealthCheck {
    let store = store.clone();
    HealthCheck::new("etcd", move || match store.failure() {
        None => Ok(()),
        Some(error) => Err(error.to_string()),
    })
}

type Identities = (Arc<rustls::ServerConfig>, String, Authenticator);

fn read_tokens(config: &Config, pki: &Pki) -> Result<TokenTable, StartError> {
    let mut tokens = TokenTable::single(pki.token(), User::admin());
    if let Some(file) = &config.token_file {
        tokens.read_csv(file)?;
    }
    Ok(tokens)
}

fn identities(config: &Config, pki: &Pki, tokens: TokenTable) -> Result<Identities, StartError> {
    let authority = pki.client_authority(config.client_ca_file.as_deref())?;
    let (serving, ca) = match &config.serving_files {
        Some((certificate, key)) => {
            let serving = ServingCertificate::from_files(certificate, key)?;
            let ca = serving.pem().to_owned();
            (serving, ca)
        }
        None => (pki.serving()?, pki.ca_pem().to_owned()),
    };
    let tls = serving.server_config(&authority)?;
    Ok((
        tls,
        ca,
        Authenticator::new(tokens).with_client_certificates(authority),
    ))
}

fn settings(config: &Config, root_ca: &str) -> Settings {
    Settings {
        bookmark_interval: config.bookmark_interval,
        min_watch_timeout: config.min_watch_timeout,
        future_version_wait: config.future_version_wait,
        event_ttl: config.event_ttl,
        seed: config.seed,
        root_ca: root_ca.to_owned(),
    }
}

/// What is there before the first request: definitions served, namespaces made, owners known.
async fn bootstrap(shared: &Shared) -> Result<Built, skopos_object::Status> {
    let mut built = Built::default();
    shared.sync_definitions(&mut built).await?;
    Namespaces::bootstrap(shared).await?;
    if let Some(services) = shared.built_in("", "services") {
        let service = || kubernetes_service(services);
        create_if_absent(shared, services, "default/kubernetes", service).await?;
    }
    Garbage::rebuild(shared);
    Ok(built)
}

/// The service that stands for the API server itself.
fn kubernetes_service(services: &Resource) -> serde_json::Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1", "internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None", "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    });
    // As with every service, nobody owns what the server fills in.
    track_own(services, None, &mut service, OwnWrite::Server);
    service["spec"]["clusterIPs"] = json!(["10.96.0.1"]);
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    service
}
