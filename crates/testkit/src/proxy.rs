//! Faults between any client and any server, over a loopback port.

use std::{io, net::Ipv4Addr, net::SocketAddr};

use bytes::BytesMut;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{BoxError, Layer as _, ServiceExt as _};

use crate::{FaultBody, FaultLayer, Faults};

/// A loopback port behind which stands a server, with [`Faults`] in between.
///
/// Speaks plain HTTP to its clients and, through the `kube::Client` it was given, whatever that speaks to the
/// server: a real kube-apiserver over TLS, or a [`TestServer`](crate::TestServer) in process. Whoever can reach
/// the port acts as the user of that client: for tests only.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use skopos_testkit::{Fault, Faults, Proxy, Rule, TestServer};
///
/// let server = TestServer::start().await;
/// let faults = Faults::seeded(0);
/// let proxy = Proxy::start(server.kube(), &faults).await?;
/// faults.add(Rule::get().name("kube-system").nth(1).then(Fault::internal()));
///
/// let client = kube::Client::try_from(kube::Config::new(proxy.url().parse()?))?;
/// let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client);
/// assert!(namespaces.get("kube-system").await.is_err());
/// assert!(namespaces.get("kube-system").await.is_ok());
/// proxy.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    stop: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

/// The most that a request body may take.
const MAX_BODY_BYTES: usize = 16 << 20;

impl Proxy {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start(server: kube::Client, faults: &Faults) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, server, faults.clone(), stop.clone()));
        Ok(Self {
            address,
            stop,
            accepting: Some(accepting),
        })
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for clients that want one.
    pub fn kubeconfig(&self) -> String {
        let url = self.url();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: proxy\nclusters:\n- name: proxy\n  cluster: {{server: \"{url}\"}}\n\
             contexts:\n- name: proxy\n  context: {{cluster: proxy, user: proxy, namespace: default}}\nusers:\n- name: proxy\n  user: {{}}\n"
        )
    }

    /// Closes all connections and waits until they are.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.await;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, server: kube::Client, faults: Faults, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        // Out of descriptors and the like; the test notices that nobody answers.
        let Ok((stream, _)) = accepted else { continue };
        let (server, faults, stop) = (server.clone(), faults.clone(), stop.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| forward(server.clone(), faults.clone(), request));
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = stop.cancelled() => {}
                _ = connection => {}
            }
        });
    }
    connections.close();
    connections.wait().await;
}

/// Sends a request on. An error closes the connection without an answer.
async fn forward(
    server: kube::Client,
    faults: Faults,
    request: Request<Incoming>,
) -> Result<Response<FaultBody>, BoxError> {
    let (mut parts, body) = request.into_parts();
    let body = read(body).await?;
    // The client in between finds its own way to the server.
    parts.headers.remove(header::HOST);
    if let Some(path) = parts.uri.path_and_query() {
        parts.uri = path.as_str().parse()?;
    }
    parts.version = http::Version::HTTP_11;
    let service = tower::service_fn(move |request| {
        let server = server.clone();
        async move { server.send(request).await }
    });
    let request = Request::from_parts(parts, Body::from(body.freeze()));
    FaultLayer::new(&faults).layer(service).oneshot(request).await
}

async fn read(mut body: Incoming) -> Result<BytesMut, BoxError> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            all.extend_from_slice(&data);
        }
        if all.len() > MAX_BODY_BYTES {
            return Err("the request is too large for the proxy".into());
        }
    }
    Ok(all)
}
