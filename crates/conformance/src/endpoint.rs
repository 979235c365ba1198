//! A plain HTTP/1.1 client over TLS that sends what it is told, also what no sane client would.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Kubeconfig;

/// No answer takes longer than this, on a loaded machine either.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server and the credentials to speak to it.
#[derive(Clone)]
pub struct Endpoint {
    address: String,
    host: String,
    token: Option<String>,
    tls: TlsConnector,
    config: Kubeconfig,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The server of a kubeconfig.
    pub fn new(config: &Kubeconfig) -> anyhow::Result<Endpoint> {
        let address = config
            .server
            .strip_prefix("https://")
            .context("the server is not https")?;
        let address = address.trim_end_matches('/').to_owned();
        let host = address
            .rsplit_once(':')
            .map_or(address.as_str(), |(host, _)| host)
            .to_owned();
        Ok(Endpoint {
            address,
            host,
            token: config.token.clone(),
            tls: connector(config, b"http/1.1")?,
            config: config.clone(),
        })
    }

    /// The same server for somebody without credentials.
    pub fn anonymous(config: &Kubeconfig) -> anyhow::Result<Endpoint> {
        Endpoint::new(&Kubeconfig {
            token: None,
            certificate: None,
            ..config.clone()
        })
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The bearer token, if there is one.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// A TLS connection to write bytes into.
    pub async fn raw(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(&self.address).await.context("connect")?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone())?;
        Ok(self.tls.connect(name, socket).await?)
    }

    /// A connection for requests, one after the other.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = tokio::time::timeout(PATIENCE, self.raw())
            .await
            .context("connecting takes too long")??;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // How a connection ended is seen by the request that was on it.
            let _ = connection.await;
        });
        Ok(Connection {
            sender,
            driver,
            endpoint: self.clone(),
        })
    }

    /// An HTTP/2 connection, for many requests at once.
    pub async fn connect_h2(&self) -> anyhow::Result<Streams> {
        let socket = TcpStream::connect(&self.address).await.context("connect")?;
        socket.set_nodelay(true)?;
        let stream = connector(&self.config, b"h2")?
            .connect(ServerName::try_from(self.host.clone())?, socket)
            .await?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await?;
        let driver = tokio::spawn(async move {
            // How a connection ended is seen by the requests that were on it.
            let _ = connection.await;
        });
        Ok(Streams {
            sender,
            driver,
            endpoint: self.clone(),
        })
    }

    /// Sends one request on a connection of its own.
    pub async fn send(&self, request: Request) -> anyhow::Result<Answer> {
        self.connect().await?.send(request).await
    }
}

/// TLS that trusts the authority of a kubeconfig and shows its client certificate.
fn connector(config: &Kubeconfig, protocol: &[u8]) -> anyhow::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    let mut tls = match &config.certificate {
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(tls)))
}

/// One request: method, path, headers, body.
#[derive(Debug, Clone)]
pub struct Request {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Request {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Request {
        Request {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Request {
        Request::new(Method::GET, path)
    }

    /// A POST of JSON.
    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Request {
        Request::new(Method::POST, path).body("application/json", body)
    }

    /// A PUT of JSON.
    pub fn put(path: impl Into<String>, body: impl Into<Bytes>) -> Request {
        Request::new(Method::PUT, path).body("application/json", body)
    }

    /// A PATCH of one of the patch types.
    pub fn patch(path: impl Into<String>, content_type: &str, body: impl Into<Bytes>) -> Request {
        Request::new(Method::PATCH, path).body(content_type, body)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a body and its type.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> Request {
        self.content(body).header("content-type", content_type)
    }

    /// Adds a body without its type.
    #[must_use]
    pub fn content(mut self, body: impl Into<Bytes>) -> Request {
        self.body = body.into();
        self
    }
}

impl Request {
    /// The request with its credentials. HTTP/2 wants the authority before the path, HTTP/1.1 does not.
    fn build(self, endpoint: &Endpoint, authority: &str) -> anyhow::Result<http::Request<Full<Bytes>>> {
        let mut builder = http::Request::builder()
            .method(self.method)
            .uri(format!("{authority}{}", self.path));
        if authority.is_empty() {
            builder = builder.header("host", &endpoint.address);
        }
        if let Some(token) = &endpoint.token {
            builder = builder.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        Ok(builder.body(Full::new(self.body))?)
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The answer if it is a success, else an error with what the server said.
    pub fn success(self) -> anyhow::Result<Answer> {
        anyhow::ensure!(
            self.status.is_success(),
            "{}: {}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        Ok(self)
    }
}

/// A connection that carries one request after the other.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: tokio::task::JoinHandle<()>,
    endpoint: Endpoint,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, request: Request) -> anyhow::Result<Answer> {
        let answer = async {
            let response = self.open(request).await?;
            let (parts, body) = response.into_parts();
            Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body: read(body).await?,
            })
        };
        tokio::time::timeout(PATIENCE, answer)
            .await
            .context("no answer")?
    }

    /// Sends a request and returns when the head of the answer is there, for bodies without an end.
    pub async fn open(&mut self, request: Request) -> anyhow::Result<http::Response<Incoming>> {
        self.sender.ready().await?;
        let request = request.build(&self.endpoint, "")?;
        Ok(self.sender.send_request(request).await?)
    }
}

/// A connection that carries many requests at once.
#[derive(Debug)]
pub struct Streams {
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    driver: tokio::task::JoinHandle<()>,
    endpoint: Endpoint,
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Streams {
    /// Sends a request and returns when the head of the answer is there.
    pub async fn open(&self, request: Request) -> anyhow::Result<http::Response<Incoming>> {
        let request = request.build(&self.endpoint, &format!("https://{}", self.endpoint.address))?;
        Ok(self.sender.clone().send_request(request).await?)
    }
}

/// Reads a body whole. The servers under test are ours, so it is not bounded.
async fn read(mut body: Incoming) -> anyhow::Result<Bytes> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.into())
}
