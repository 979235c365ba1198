//! How requests travel: TCP that notices a dead peer, TLS and credentials as the configuration says.
//!
//! Watches do not travel with the rest: the first few have a connection each, more share HTTP/2 connections
//! (docs/adr/0004-connections-of-watches.md).

mod own;
mod streams;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower::util::option_layer;
use tower::{Layer as _, Service, ServiceExt as _};

use self::own::AnswerBody;
use self::streams::Streams;

/// What bytes travel over.
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long to wait for a TCP and TLS connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After what silence the peer is asked whether it is there, and how often. Both together are what point 19 of the
/// watch semantics wants: a dead peer is noticed within about a minute.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// So many watches have a connection each, which is the fastest way to read them. More would cost the server more than
/// they gain.
const OWN_CONNECTIONS: usize = 16;

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

/// Sends requests: watches as the module says, all others over connections that they take in turns.
#[derive(Debug, Clone)]
struct Transport {
    http1: Connector,
    pooled: legacy::Client<Connector, Body>,
    streams: Arc<Streams>,
    /// Rights to a connection of one's own.
    own: Arc<Semaphore>,
}

/// Makes connections.
#[derive(Debug, Clone)]
struct Connector(HttpsConnector<HttpConnector>);

/// What may be spoken, if the server speaks it too.
#[derive(Debug, Clone, Copy)]
enum Protocols {
    Http1,
    Http1AndHttp2,
}

impl Transport {
    fn new(config: &kube::Config) -> Result<Self, BoxError> {
        // Made once: an exec plug-in is asked for a certificate each time.
        let tls = config.rustls_client_config()?;
        let http1 = Connector::new(config, tls.clone(), Protocols::Http1)?;
        let any = Connector::new(config, tls, Protocols::Http1AndHttp2)?;
        Ok(Self {
            pooled: legacy::Client::builder(TokioExecutor::new()).build(http1.clone()),
            http1,
            streams: Arc::new(Streams::new(any)),
            own: Arc::new(Semaphore::new(OWN_CONNECTIONS)),
        })
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.extensions().get::<LongLived>().is_none() {
            let answer = self.pooled.request(request);
            return async { Ok(answer.await?.map(AnswerBody::Pooled)) }.boxed();
        }
        let (http1, streams) = (self.http1.clone(), self.streams.clone());
        match self.own.clone().try_acquire_owned() {
            Ok(right) => async move {
                let stream = http1.connect(request.uri()).await?;
                own::send(stream, request, Some(right)).await
            }
            .boxed(),
            Err(_) => async move { streams.send(request).await }.boxed(),
        }
    }
}

impl Connector {
    fn new(config: &kube::Config, tls: ClientConfig, protocols: Protocols) -> Result<Self, BoxError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        let mut tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        if let Some(name) = &config.tls_server_name {
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?));
        }
        let tls = tls.enable_http1();
        Ok(Self(match protocols {
            Protocols::Http1 => tls.wrap_connector(tcp),
            Protocols::Http1AndHttp2 => tls.enable_http2().wrap_connector(tcp),
        }))
    }

    async fn connect(&self, server: &Uri) -> Result<Stream, BoxError> {
        self.clone().oneshot(server.clone()).await
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connection = self.0.call(server);
        async move { tokio::time::timeout(CONNECT_TIMEOUT, connection).await? }.boxed()
    }
}
