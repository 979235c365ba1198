//! How requests travel: TCP that notices a dead peer, TLS and credentials as the configuration says, and a connection
//! of its own for each watch.

mod own;

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tokio::net::TcpStream;
use tower::util::option_layer;
use tower::{Layer as _, Service};

use self::own::AnswerBody;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long to wait for a TCP and TLS connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After what silence the peer is asked whether it is there, and how often. Both together are what point 19 of the
/// watch semantics wants: a dead peer is noticed within about a minute.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// Marks a request whose answer is read for long, and by one who wants every byte at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongLived;

/// Makes a client of a configuration. Sends nothing yet.
pub(crate) fn client(mut config: kube::Config) -> Result<kube::Client, BoxError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Retries are decided where it is known what a repeated request would do.
    config.default_retry = false;
    if config.proxy_url.is_some() {
        return Ok(kube::Client::try_from(config)?);
    }
    let transport = Transport::new(&config)?;
    let transport = config.extra_headers_layer()?.layer(transport);
    let transport = option_layer(config.auth_layer()?).layer(transport);
    let transport = config.base_uri_layer().layer(transport);
    Ok(ClientBuilder::new(transport, config.default_namespace).build())
}

/// Sends requests: long-lived ones over connections of their own, all others over shared ones.
#[derive(Debug, Clone)]
struct Transport {
    connector: Connector,
    shared: legacy::Client<Connector, Body>,
}

/// Makes connections.
#[derive(Debug, Clone)]
struct Connector(HttpsConnector<HttpConnector>);

impl Transport {
    fn new(config: &kube::Config) -> Result<Self, BoxError> {
        let connector = Connector::new(config)?;
        let shared = legacy::Client::builder(TokioExecutor::new()).build(connector.clone());
        Ok(Self { connector, shared })
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.extensions().get::<LongLived>().is_some() {
            return own::send(self.connector.clone(), request).boxed();
        }
        let answer = self.shared.request(request);
        async { Ok(answer.await?.map(AnswerBody::Shared)) }.boxed()
    }
}

impl Connector {
    fn new(config: &kube::Config) -> Result<Self, BoxError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        let mut tls = HttpsConnectorBuilder::new()
            .with_tls_config(config.rustls_client_config()?)
            .https_or_http();
        if let Some(name) = &config.tls_server_name {
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?));
        }
        Ok(Self(tls.enable_http1().wrap_connector(tcp)))
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connection = self.0.call(server);
        async move { tokio::time::timeout(CONNECT_TIMEOUT, connection).await? }.boxed()
    }
}
