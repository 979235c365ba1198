//! Many connections.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::*;
use super::harness::{Server, read_until, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_connections_leave_room_for_a_request() {
    let server = Server::start(Limits::default()).await;
    let mut idle = Vec::new();
    for at in 0..1000 {
        let alpn = if at % 2 == 0 { "h2" } else { "http/1.1" };
        idle.push(server.connect(alpn).await);
    }
    until(|| server.open_connections() == 1000).await;
    assert_eq!(server.admin_get("/echo").await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn when_full_idle_connections_make_room() {
    let limits = Limits {
        max_connections: 3,
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut watching = server.connect("http/1.1").await;
    let request = format!(
        "GET /stream HTTP/1.1\r\nHost: x\r\n{}\r\n",
        server.authorization()
    );
    watching.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut watching, "first\n").await;
    let mut idle = server.connect("http/1.1").await;
    let _other_idle = server.connect("http/1.1").await;
    let reply = server.admin_get("/echo").await;
    assert_eq!(reply.code, 200);
    assert_eq!(
        idle.read(&mut [0; 16]).await.unwrap_or(0),
        0,
        "an idle connection was closed"
    );
    let metrics = server.admin_get("/metrics").await.body;
    assert!(
        metrics.contains("apiserver_longrunning_requests{") && metrics.contains("} 1\n"),
        "{metrics}"
    );
    server.stop().await;
}

#[tokio::test]
async fn idle_connections_end_after_a_while_and_busy_ones_do_not() {
    let limits = Limits {
        idle_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut watching = server.connect("http/1.1").await;
    let request = format!(
        "GET /stream HTTP/1.1\r\nHost: x\r\n{}\r\n",
        server.authorization()
    );
    watching.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut watching, "first\n").await;
    for alpn in ["http/1.1", "h2"] {
        let mut idle = server.connect(alpn).await;
        let mut rest = Vec::new();
        let _ = idle.read_to_end(&mut rest).await;
    }
    until(|| server.open_connections() == 1).await;
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_stream() {
    let server = Server::start(Limits::default()).await;
    let mut watching = server.connect("http/1.1").await;
    let request = format!(
        "GET /stream HTTP/1.1\r\nHost: x\r\n{}\r\n",
        server.authorization()
    );
    watching.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut watching, "first\n").await;
    drop(watching);
    until(|| server.open_connections() == 0).await;
    let metrics = server.admin_get("/metrics").await.body;
    assert!(metrics.contains("verb=\"GET\",version=\"\"} 0\n"), "{metrics}");
    server.stop().await;
}
