//! A server for one test.

use std::{
    convert::Infallible,
    fmt,
    net::Ipv4Addr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;
use skopos_apiserver::{ApiServer, ApiService, Config, ResponseBody};
use skopos_client::{Answer, Api, Call, Client, Error, Resource};
use skopos_object::GroupVersionKind;
use skopos_store::Store;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

use crate::{FaultLayer, Faults, model::Data, objects::values};

/// An API server of the test's own: in process, in memory, ready in milliseconds, with [`Faults`] in front.
///
/// Its clients need no port and no credentials. Dropping it stops it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use skopos_testkit::TestServer;
///
/// let server = TestServer::start().await;
/// server.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}").await;
/// let maps: kube::Api<ConfigMap> = kube::Api::namespaced(server.kube(), "default");
/// assert_eq!(maps.get("a").await?.metadata.name.as_deref(), Some("a"));
/// # Ok(())
/// # }
/// ```
pub struct TestServer {
    config: Config,
    store: Store,
    // Gone only while it restarts.
    server: Option<ApiServer>,
    current: Current,
    faults: Faults,
    listener: Option<(CancellationToken, JoinHandle<()>)>,
}

impl TestServer {
    /// Starts a server.
    ///
    /// # Panics
    /// If it does not start; that is a bug.
    pub async fn start() -> Self {
        Self::start_with(Config::default()).await
    }

    /// Starts a server that is set up in a special way. Where its data is kept is not looked at: in memory.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with(config: Config) -> Self {
        Self::start_all(config, Faults::seeded(0)).await
    }

    /// Starts a server whose uids and generated names are drawn from a seed, as are the chances of its faults: on one
    /// thread and a paused clock the same requests get the same answers again.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_seeded(seed: u64) -> Self {
        let config = Config {
            seed: Some(seed),
            ..Config::default()
        };
        Self::start_all(config, Faults::seeded(seed)).await
    }

    /// Starts a server behind faults that were made before, for a seed of their own.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with_faults(faults: Faults) -> Self {
        Self::start_all(Config::default(), faults).await
    }

    async fn start_all(config: Config, faults: Faults) -> Self {
        let store = in_memory();
        let server = start_on(&store, &config).await;
        Self {
            current: Current::of(&server),
            faults,
            server: Some(server),
            listener: None,
            store,
            config,
        }
    }

    /// The faults in front of [`client`](Self::client) and [`kube`](Self::kube).
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// A `kube` client, for typed users. Meets the faults.
    pub fn kube(&self) -> kube::Client {
        self.kube_behind(&self.faults)
    }

    fn kube_behind(&self, faults: &Faults) -> kube::Client {
        let service = FaultLayer::new(faults).layer(self.current.clone());
        kube::Client::new(service, "default")
    }

    /// A client that meets the faults: for what is tested.
    pub fn client(&self) -> Client {
        Client::new(self.kube(), "in process")
    }

    /// A client that meets other faults: for one of several under test, such as one who writes beside one who reads.
    pub fn client_behind(&self, faults: &Faults) -> Client {
        Client::new(self.kube_behind(faults), "in process")
    }

    /// A client that meets no faults: for the test itself.
    pub fn direct(&self) -> Client {
        Client::new(kube::Client::new(self.current.clone(), "default"), "in process")
    }

    /// A collection over all namespaces, through [`client`](Self::client).
    ///
    /// # Panics
    /// If `api_version` has not the form `v1` or `group/v1`.
    pub fn api(&self, api_version: &str, kind: &str, plural: &str) -> Api {
        Api::all(&self.client(), &resource(api_version, kind, plural))
    }

    /// Creates the objects of YAML documents in their order, or replaces them.
    ///
    /// # Panics
    /// If the server refuses one.
    pub async fn apply(&self, yaml: &str) {
        for object in values(yaml) {
            self.put(&object).await;
        }
    }

    /// Creates an object or replaces it, past the faults, and returns what the server made of it.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn put(&self, object: &Value) -> Value {
        let api = self.api_of(object).await;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let written = match api.create(object, &Default::default()).await {
            Err(error) if error.is_conflict() => replace(&api, name, object.clone()).await,
            written => written,
        };
        match written {
            Ok(answer) => answer.value,
            Err(error) => panic!("put {name}: {error}"),
        }
    }

    /// Forgets the history: watches and lists from versions before now get 410.
    pub fn compact(&self) {
        self.store.compact(self.store.revision());
    }

    /// Kills the server and starts it again, with or without its objects. What was open breaks.
    ///
    /// A server that lost its data counts its versions from the beginning again.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self, data: Data) {
        self.current.set(None);
        self.faults.cut_open_streams();
        // Not stopped but dropped: a crash says no goodbye.
        self.server = None;
        if data == Data::Lost {
            self.store = in_memory();
        }
        let server = start_on(&self.store, &self.config).await;
        self.current.set(Some(server.service()));
        self.server = Some(server);
    }

    /// Serves HTTPS on a loopback port too, and returns the administrator's kubeconfig. No faults there: put a
    /// [`Proxy`](crate::Proxy) before it. Ends with the server or its next restart. Needs a clock that is not paused.
    ///
    /// # Panics
    /// If no port can be had.
    pub async fn serve(&mut self) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port on the loopback interface");
        let address = listener.local_addr().expect("a bound listener has an address");
        let server = self.server.as_ref().expect("set but while it restarts");
        let (stop, kubeconfig) = (
            CancellationToken::new(),
            server.kubeconfig(&format!("https://{address}")),
        );
        let serving = server.serve(listener, stop.clone());
        self.listener = Some((stop, tokio::spawn(serving)));
        kubeconfig.to_yaml()
    }

    /// Stops the server and waits until it has.
    pub async fn stop(mut self) {
        self.current.set(None);
        self.faults.cut_open_streams();
        if let Some((stop, task)) = self.listener.take() {
            stop.cancel();
            let _ = task.await;
        }
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }

    async fn api_of(&self, object: &Value) -> Api {
        let direct = self.direct();
        let (api_version, kind) = (
            object["apiVersion"].as_str().unwrap_or_default(),
            object["kind"].as_str().unwrap_or_default(),
        );
        let path = match api_version.contains('/') {
            true => format!("/apis/{api_version}"),
            false => format!("/api/{api_version}"),
        };
        let served = direct.call(&Call::get(path)).await;
        let served = served
            .unwrap_or_else(|error| panic!("{api_version} {kind}: {error}"))
            .value;
        let plural = served["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|resource| {
                resource["kind"] == kind && !resource["name"].as_str().unwrap_or_default().contains('/')
            });
        let Some(plural) = plural.and_then(|resource| resource["name"].as_str()) else {
            panic!("the server knows no {kind} in {api_version}");
        };
        let resource = resource(api_version, kind, plural);
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced(&direct, &resource, namespace),
            None => Api::all(&direct, &resource),
        }
    }
}

/// Replaces whatever version is there.
async fn replace(api: &Api, name: &str, mut object: Value) -> Result<Answer, Error> {
    loop {
        let there = api.get(name).await?;
        object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
        match api.update(name, &object, &Default::default()).await {
            // Somebody else wrote meanwhile, a status perhaps.
            Err(error) if error.is_conflict() => {}
            written => return written,
        }
    }
}

fn resource(api_version: &str, kind: &str, plural: &str) -> Resource {
    match GroupVersionKind::from_api_version(api_version, kind) {
        Ok(gvk) => Resource::known(&gvk, plural, true),
        Err(error) => panic!("{api_version}: {error}"),
    }
}

fn in_memory() -> Store {
    Store::open(skopos_store::Config::default()).expect("memory can always be opened")
}

async fn start_on(store: &Store, config: &Config) -> ApiServer {
    match ApiServer::start_on(store.clone(), config.clone()).await {
        Ok(server) => server,
        Err(error) => panic!("the server does not start: {error}"),
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.current.set(None);
        self.faults.cut_open_streams();
        if let Some((stop, _)) = &self.listener {
            stop.cancel();
        }
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer")
            .field("revision", &self.store.revision())
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

/// The server that runs now, if one does.
#[derive(Clone, Debug)]
struct Current(Arc<Mutex<Option<ApiService>>>);

impl Current {
    fn of(server: &ApiServer) -> Self {
        Self(Arc::new(Mutex::new(Some(server.service()))))
    }

    fn set(&self, service: Option<ApiService>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = service;
    }

    fn get(&self) -> Option<ApiService> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, tower::BoxError>> + Send>>;

impl tower::Service<Request<Body>> for Current {
    type Response = Response<ResponseBody>;
    type Error = tower::BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tower::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let Some(mut service) = self.get() else {
            return Box::pin(std::future::ready(Err("the server is down".into())));
        };
        Box::pin(async move {
            let answer: Result<_, Infallible> = service.call(request).await;
            answer.map_err(|never| match never {})
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Rule, object, value};
    use skopos_client::ListParams;

    const MAP: &str =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {n: '1'}}";

    #[tokio::test(start_paused = true)]
    async fn keeps_or_loses_its_objects_when_it_restarts() {
        let mut server = TestServer::start().await;
        server.apply(MAP).await;
        let maps = server.api("v1", "ConfigMap", "configmaps");
        let names = async || {
            let params = ListParams {
                field_selector: "metadata.namespace=default,metadata.name=a".to_owned(),
                ..ListParams::default()
            };
            maps.list(&params)
                .next()
                .await
                .unwrap()
                .map(|map| map.name().to_owned())
        };
        server.restart(Data::Kept).await;
        assert_eq!(names().await.as_deref(), Some("a"));
        server.restart(Data::Lost).await;
        assert_eq!(names().await, None);
        server.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn forgets_its_history_when_told() {
        let server = TestServer::start().await;
        server.apply(MAP).await;
        let before = object(&server.put(&value(MAP)).await.to_string()).resource_version();
        server.apply(&MAP.replace("'1'", "'2'")).await;
        server.compact();
        let params = skopos_client::WatchParams {
            resource_version: before.as_str().to_owned(),
            ..Default::default()
        };
        let mut watch = server
            .api("v1", "ConfigMap", "configmaps")
            .watch(&params)
            .await
            .unwrap();
        assert!(watch.next().await.unwrap_err().is_expired());
    }

    #[tokio::test]
    async fn serves_tls_on_loopback() {
        let mut server = TestServer::start().await;
        let yaml = server.serve().await;
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&yaml).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
            .await
            .unwrap();
        let version = kube::Client::try_from(config).unwrap().apiserver_version().await;
        assert!(version.unwrap().git_version.contains("skopos"));
        server.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn past_the_faults_nothing_fails() {
        let server = TestServer::start().await;
        let refused = server.faults().add(Rule::any().then(Fault::Refused));
        server.apply(MAP).await;
        assert!(server.client().call(&Call::get("/version")).await.is_err());
        assert!(server.direct().call(&Call::get("/version")).await.is_ok());
        assert_eq!(refused.injected(), 1);
    }
}
