//! An exporter and a receiver of its requests, with and without TLS.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{convert::Infallible, io::Read as _, path::Path, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::Value;
use skopos_journal::TRACE_TARGET;
use skopos_testkit::parts::{Authority, Issued};
use skopos_trace::{Config, ConfigError, Endpoint, Exporter, TlsFiles, Traces};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;

/// A request as it came.
struct Received {
    line: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn spans(&self) -> Vec<Value> {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .unwrap()
            .clone()
    }
}

/// A receiver that takes everything.
struct Receiver {
    url: String,
    received: mpsc::Receiver<Received>,
    _serving: JoinSet<()>,
}

impl Receiver {
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        // No test sends more; one that did would wait.
        let (send, received) = mpsc::channel(16);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                serve(stream, tls.as_ref(), &send).await;
            }
        });
        Self {
            url,
            received,
            _serving: serving,
        }
    }

    fn next(&mut self) -> Received {
        self.received.try_recv().expect("a request")
    }
}

async fn serve(stream: TcpStream, tls: Option<&TlsAcceptor>, send: &mpsc::Sender<Received>) {
    let service = service_fn(|request| take(request, send.clone()));
    let builder = auto::Builder::new(TokioExecutor::new());
    // What goes wrong with a connection shows on the other side.
    let _ = match tls {
        None => builder.serve_connection(TokioIo::new(stream), service).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => builder.serve_connection(TokioIo::new(stream), service).await,
            Err(_) => Ok(()),
        },
    };
}

async fn take(
    request: Request<Incoming>,
    send: mpsc::Sender<Received>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(frame)) = incoming.frame().await {
        body.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    let received = Received {
        line: format!("{} {}", head.method, head.uri.path()),
        headers: head.headers,
        body: body.into(),
    };
    send.send(received).await.unwrap();
    Ok(Response::new(Full::from(r#"{"partialSuccess":{}}"#)))
}

/// Accepts only clients of an authority.
fn acceptor(issued: &Issued, clients: &str) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap())
        .unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(issued.cert.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Shows some parts of a trace and exports them.
async fn export(config: Config, n_spans: u64) -> Traces {
    let exporter = Exporter::new(config).unwrap();
    let traces = exporter.traces();
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    tracing::subscriber::with_default(subscriber, || {
        for number in 1..=n_spans {
            let span = tracing::debug_span!(
                target: TRACE_TARGET, "match", trace_id = %format_args!("{number:032x}"),
                span_id = %format_args!("{number:016x}"), rule = "ops/all",
            );
            tracing::debug!(target: TRACE_TARGET, parent: &span, "matched");
        }
    });
    // Told to end, it sends what there is and nothing else.
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    exporter.run(shutdown).await;
    traces
}

fn page(traces: &Traces) -> String {
    let (mut registry, mut page) = (Registry::default(), String::new());
    traces.register(&mut registry);
    encode(&mut page, &registry).unwrap();
    page
}

#[track_caller]
fn check_page(traces: &Traces, lines: &[&str]) {
    let page = page(traces);
    for line in lines {
        assert!(page.lines().any(|one| one == *line), "{line} missing in\n{page}");
    }
}

#[tokio::test]
async fn all_that_is_left_at_the_end_is_sent() {
    let mut receiver = Receiver::start(None).await;
    let config = Config {
        headers: vec![(
            HeaderName::from_static("x-key"),
            HeaderValue::from_static("secret"),
        )],
        ..Config::new(Endpoint::of_receiver(&receiver.url).unwrap())
    };
    let traces = export(config, 1000).await;
    let requests = [receiver.next(), receiver.next()];
    for request in &requests {
        assert_eq!(request.line, "POST /v1/traces");
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(request.header("x-key"), "secret");
        assert!(request.header("user-agent").starts_with("skopos/"));
    }
    let spans: Vec<_> = requests.iter().flat_map(Received::spans).collect();
    assert_eq!(spans.len(), 1000);
    assert_eq!(spans[999]["spanId"], "00000000000003e8");
    check_page(
        &traces,
        &[
            "skopos_trace_spans_total 1000",
            r#"skopos_trace_lost_spans_total{reason="full"} 0"#,
            "skopos_trace_waiting_spans 0",
        ],
    );
}

#[tokio::test]
async fn requests_are_compressed_if_asked_for() {
    let mut receiver = Receiver::start(None).await;
    let config = Config {
        gzip: true,
        ..Config::new(Endpoint::of_receiver(&receiver.url).unwrap())
    };
    export(config, 1).await;
    let mut request = receiver.next();
    assert_eq!(request.header("content-encoding"), "gzip");
    let mut plain = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&request.body[..]);
    decoder.read_to_end(&mut plain).unwrap();
    request.body = plain.into();
    assert_eq!(request.spans().len(), 1);
}

#[tokio::test]
async fn a_receiver_with_tls_is_trusted_by_its_authority_and_knows_us() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let acceptor = acceptor(&theirs.issue(&["127.0.0.1"]), ours.pem());
    let mut receiver = Receiver::start(Some(acceptor)).await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let us = ours.issue(&["skopos"]);
    let (cert, key) = (file("cert.pem", &us.cert), file("key.pem", &us.key));
    let config = |name: &str, ca: &Authority| Config {
        tls: TlsFiles {
            ca: Some(file(name, ca.pem())),
            identity: Some((cert.clone(), key.clone())),
        },
        ..Config::new(Endpoint::of_receiver(&receiver.url).unwrap())
    };
    let (good, bad) = (config("theirs.pem", &theirs), config("ours.pem", &ours));
    check_page(&export(good, 2).await, &["skopos_trace_spans_total 2"]);
    assert_eq!(receiver.next().spans().len(), 2);
    check_page(
        &export(bad, 2).await,
        &[
            "skopos_trace_spans_total 0",
            r#"skopos_trace_lost_spans_total{reason="ended"} 2"#,
        ],
    );
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let told = |tls| {
        let endpoint = Endpoint::of_receiver("https://localhost:4318").unwrap();
        let config = Config {
            tls,
            ..Config::new(endpoint)
        };
        Exporter::new(config).map(drop).unwrap_err()
    };
    let missing = TlsFiles {
        ca: Some("no/such.pem".into()),
        identity: None,
    };
    let error = told(missing);
    assert!(matches!(&error, ConfigError::Pem { path, .. } if path == Path::new("no/such.pem")));
    assert!(error.to_string().contains("no/such.pem"), "{error}");
}
