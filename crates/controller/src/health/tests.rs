//! The pages, and the port spoken to over plain sockets.

use std::net::Ipv4Addr;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Health, HealthServer};

struct Served {
    address: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Served {
    async fn start() -> Self {
        let health = Health::new();
        let server = HealthServer::bind(&health, (Ipv4Addr::LOCALHOST, 0).into())
            .await
            .unwrap();
        let (address, stop) = (server.address().unwrap(), CancellationToken::new());
        let task = tokio::spawn(server.run(stop.clone()));
        Self { address, stop, task }
    }

    async fn say(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }
}

/// Everything until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut text));
    // A reset is an end too.
    let _ = read.await.expect("the server closes");
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn answers_and_stops_in_good_order() {
    let served = Served::start().await;
    let mut idle = served.say("").await;
    let mut asking = served
        .say("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    let answer = rest(&mut asking).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok"),
        "{answer}"
    );
    served.stop.cancel();
    served.task.await.unwrap();
    assert_eq!(rest(&mut idle).await, "");
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn refuses_a_head_that_is_too_large() {
    let served = Served::start().await;
    let head = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(64 * 1024));
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    // It may close before it has read all of it.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn serves_others_while_many_say_nothing() {
    let served = Served::start().await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(served.say("GET /healthz HTTP/1.1\r\n").await);
    }
    let mut asking = served
        .say("GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    assert!(rest(&mut asking).await.ends_with("ok"));
}

fn health() -> Health {
    let health = Health::new();
    health.add_readiness("caches", || Ok(()));
    health.add_readiness("leader", || Err("standing by".to_owned()));
    health
}

fn check(uri: &str, code: u16, expect: &str) {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let response = health().answer(&Method::GET, path, query);
    assert_eq!(
        (response.status().as_u16(), &**response.body()),
        (code, expect),
        "{uri}"
    );
}

#[test]
fn lists_checks_as_kube_apiserver_does() {
    check("/healthz", 200, "ok");
    check("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n");
    let failed = "[+]ping ok\n[+]caches ok\n[-]leader failed: standing by\nreadyz check failed\n";
    check("/readyz", 500, failed);
    check("/readyz?exclude=leader", 200, "ok");
    let passed = "[+]ping ok\n[+]caches ok\n[+]leader excluded: ok\nreadyz check passed\n";
    check("/readyz?verbose&exclude=leader", 200, passed);
    check("/readyz/caches", 200, "ok");
    check("/readyz/nothing", 404, "404 page not found\n");
    check("/", 404, "404 page not found\n");
}

#[test]
fn a_check_of_the_same_name_is_replaced() {
    let health = health();
    health.add_readiness("leader", || Ok(()));
    assert_eq!(health.answer(&Method::GET, "/readyz", "").body(), "ok");
}

#[test]
fn shows_what_was_registered() {
    let health = Health::new();
    let counter = prometheus_client::metrics::counter::Counter::<u64>::default();
    health.register(|registry| registry.register("things", "Things", counter.clone()));
    counter.inc();
    let page = health.answer(&Method::GET, "/metrics", "");
    assert!(page.body().contains("things_total 1"), "{}", page.body());
    assert_eq!(health.answer(&Method::POST, "/metrics", "").status(), 405);
}
