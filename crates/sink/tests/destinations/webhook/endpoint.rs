//! An HTTP server that remembers what it was sent.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use skopos_testkit::parts::Issued;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

/// A server on a loopback port; answers 200 unless told otherwise.
pub(super) struct Endpoint {
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    seen: Arc<Mutex<Seen>>,
    serving: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Received>,
    answers: VecDeque<Answer>,
    n_connections: usize,
    takes: Duration,
    refuses_batches: bool,
}

#[derive(Clone)]
pub(super) struct Received {
    pub(super) line: String,
    pub(super) version: Version,
    headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(super) struct Answer(Response<Full<Bytes>>);

impl Answer {
    pub(super) fn new(code: u16) -> Self {
        Self(Response::builder().status(code).body(Full::default()).unwrap())
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.0.headers_mut().insert(name, value.parse().unwrap());
        self
    }

    pub(super) fn body(mut self, text: &str) -> Self {
        *self.0.body_mut() = Full::from(text.to_owned());
        self
    }
}

impl Endpoint {
    /// With TLS if it gets a certificate and the authority of the clients it wants.
    pub(super) async fn start(tls: Option<(&Issued, &str)>) -> Self {
        let mut endpoint = Self {
            address: ([127, 0, 0, 1], 0).into(),
            tls: tls.map(|(issued, clients)| acceptor(issued, clients)),
            seen: Arc::default(),
            serving: JoinSet::new(),
        };
        endpoint.start_again().await;
        endpoint
    }

    pub(super) async fn start_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        self.serving
            .spawn(serve(listener, self.tls.clone(), Arc::clone(&self.seen)));
    }

    /// Cuts all connections.
    pub(super) async fn stop(&mut self) {
        self.serving.shutdown().await;
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Says what the next request is answered with.
    pub(super) fn answer(&self, answer: Answer) {
        self.seen.lock().unwrap().answers.push_back(answer);
    }

    /// Takes so long for each request, and wants no more than one event in it.
    pub(super) fn refuse_batches(&self, takes: Duration) {
        let mut seen = self.seen.lock().unwrap();
        (seen.takes, seen.refuses_batches) = (takes, true);
    }

    pub(super) fn requests(&self) -> Vec<Received> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub(super) fn n_connections(&self) -> usize {
        self.seen.lock().unwrap().n_connections
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, seen: Arc<Mutex<Seen>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        seen.lock().unwrap().n_connections += 1;
        let (tls, seen) = (tls.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            let service = service_fn(move |request| handle(request, Arc::clone(&seen)));
            let builder = auto::Builder::new(TokioExecutor::new());
            // What goes wrong with a connection shows on the other side.
            let _ = match tls {
                None => builder.serve_connection(TokioIo::new(stream), service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => builder.serve_connection(TokioIo::new(stream), service).await,
                    Err(_) => Ok(()),
                },
            };
        });
    }
}

async fn handle(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(frame)) = incoming.frame().await {
        body.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    let received = Received {
        line: format!("{} {}", head.method, head.uri.path_and_query().unwrap()),
        version: head.version,
        headers: head.headers,
        body,
    };
    let takes = seen.lock().unwrap().takes;
    tokio::time::sleep(takes).await;
    let mut seen = seen.lock().unwrap();
    let is_refused = seen.refuses_batches && received.header("ce-id").is_empty();
    seen.requests.push(received);
    let usual = if is_refused { 413 } else { 200 };
    Ok(seen.answers.pop_front().unwrap_or_else(|| Answer::new(usual)).0)
}

fn acceptor(issued: &Issued, clients: &str) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap())
        .unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let certificate = CertificateDer::from_pem_slice(issued.cert.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
