//! A server with a trivial handler, and clients that speak HTTP by hand or through hyper.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Method, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::super::*;

/// Answers by path: `/echo`, `/panic`, `/never`, `/gate` (waits for a permit), `/big`, `/stream`, `/events`,
/// `/bad-stream`.
#[derive(Default)]
pub(super) struct Trivial {
    pub(super) n_gated: AtomicUsize,
    pub(super) gate: Option<Arc<Semaphore>>,
}

impl Handler for Trivial {
    async fn handle(&self, request: Request) -> Response<ResponseBody> {
        match request.uri.path() {
            "/echo" => Response::new(format!("{} {}", request.user.name, request.body.len()).into()),
            "/panic" => panic!("on purpose"),
            "/never" => std::future::pending().await,
            "/gate" => {
                self.n_gated.fetch_add(1, Ordering::SeqCst);
                let gate = self.gate.as_ref().unwrap();
                gate.acquire().await.unwrap().forget();
                Response::new("through".into())
            }
            "/big" => Response::new(ResponseBody::chunks(
                (0..64).map(|_| Bytes::from(vec![b'x'; 128 * 1024])),
            )),
            "/stream" => Response::new(endless("first\n")),
            "/events" => Response::builder()
                .header("content-type", "application/json")
                .body(endless("{\"n\":1}\n{\"n\":2}\n"))
                .unwrap(),
            "/bad-stream" => Response::new(ResponseBody::stream(StreamBody::new(stream::once(async {
                panic!("on purpose, later")
            })))),
            _ => local::not_found(),
        }
    }

    fn is_long_running(&self, _: &Method, uri: &Uri) -> bool {
        matches!(uri.path(), "/stream" | "/events")
    }

    fn index_paths(&self) -> Vec<String> {
        vec!["/apis".to_owned(), "/api".to_owned()]
    }

    fn samples(&self) -> Vec<Sample> {
        vec![Sample {
            name: "apiserver_storage_objects",
            help: "Objects",
            labels: vec![("resource", "pods".to_owned())],
            value: SampleValue::Gauge(7.0),
        }]
    }
}

fn endless(first: &'static str) -> ResponseBody {
    let first =
        stream::once(async move { Ok::<_, io::Error>(Frame::data(Bytes::from_static(first.as_bytes()))) });
    ResponseBody::stream(StreamBody::new(first.chain(stream::pending())))
}

pub(super) struct Server {
    pub(super) addr: SocketAddr,
    pub(super) pki: Pki,
    pub(super) edge: Edge<Arc<Trivial>>,
    pub(super) handler: Arc<Trivial>,
    pub(super) shutdown: CancellationToken,
    pub(super) task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(limits: Limits) -> Self {
        Self::start_with(limits, Trivial::default()).await
    }

    pub(super) async fn start_with(limits: Limits, handler: Trivial) -> Self {
        let pki = Pki::load_or_create(None, &[]).unwrap();
        let authority = pki.client_authority(None).unwrap();
        let tls = pki.serving().unwrap().server_config(&authority).unwrap();
        let mut tokens = TokenTable::single(pki.token(), User::admin());
        tokens.add(
            "eves-token",
            User {
                name: "eve".into(),
                ..User::default()
            },
        );
        let authenticator = Authenticator::new(tokens).with_client_certificates(authority);
        let handler = Arc::new(handler);
        let edge = Edge::new(
            Arc::clone(&handler),
            EdgeConfig {
                limits,
                authenticator,
                checks: Vec::new(),
            },
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(listener, tls, edge.clone(), shutdown.clone()));
        Self {
            addr,
            pki,
            edge,
            handler,
            shutdown,
            task,
        }
    }

    pub(super) fn open_connections(&self) -> i64 {
        self.edge.shared().metrics.connections.get()
    }

    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }

    /// A connection without a client certificate.
    pub(super) async fn connect(&self, alpn: &'static str) -> TlsStream<TcpStream> {
        self.connect_as(alpn, None).await.unwrap()
    }

    pub(super) async fn connect_as(
        &self,
        alpn: &'static str,
        identity: Option<(&str, &str)>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.addr).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(self.client_config(alpn, identity))
            .connect(name, stream)
            .await
    }

    fn client_config(&self, alpn: &'static str, identity: Option<(&str, &str)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        tls::add_roots(
            &mut roots,
            self.pki.ca_pem().as_bytes(),
            std::path::Path::new("ca.crt"),
        )
        .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        Arc::new(config)
    }

    /// One HTTP/1.1 request without a body, on a connection of its own, with extra header lines.
    pub(super) async fn get(&self, path: &str, headers: &str) -> Reply {
        let mut stream = self.connect("http/1.1").await;
        exchange(&mut stream, &head("GET", path, headers)).await
    }

    /// As [`Server::get`], as the administrator.
    pub(super) async fn admin_get(&self, path: &str) -> Reply {
        self.get(path, &self.authorization()).await
    }

    pub(super) fn authorization(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.pki.token())
    }

    /// One HTTP/2 request.
    pub(super) async fn http2(&self, method: Method, path: &str, body: Bytes) -> Response<Bytes> {
        let stream = self.connect("h2").await;
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let driver = tokio::spawn(connection);
        let request = http::Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .header("authorization", format!("Bearer {}", self.pki.token()))
            .body(Full::new(body))
            .unwrap();
        let (parts, mut incoming) = sender.send_request(request).await.unwrap().into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = incoming.frame().await {
            bytes.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        }
        drop(sender);
        driver.await.unwrap().unwrap();
        Response::from_parts(parts, bytes.into())
    }
}

/// An answer as it was on the wire.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        Self {
            code,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(super) fn has_header(&self, line: &str) -> bool {
        self.head.lines().any(|have| have == line)
    }
}

pub(super) fn head(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// Sends, and reads until the server closes.
pub(super) async fn exchange(stream: &mut TlsStream<TcpStream>, request: &str) -> Reply {
    stream.write_all(request.as_bytes()).await.unwrap();
    read_reply(stream).await
}

pub(super) async fn read_reply(stream: &mut TlsStream<TcpStream>) -> Reply {
    let mut bytes = Vec::new();
    // A close without goodbye is an end like any other here; what was read counts.
    let _ = stream.read_to_end(&mut bytes).await;
    Reply::parse(&bytes)
}

/// Reads until `end` has been seen.
pub(super) async fn read_until(stream: &mut TlsStream<TcpStream>, end: &str) -> String {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(end) {
        let mut buffer = [0; 1024];
        let n = stream.read(&mut buffer).await.unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for a condition that other tasks bring about.
pub(super) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
