//! How it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use super::super::*;
use super::harness::{Server, Trivial, head, read_reply, read_until, until};

#[tokio::test]
async fn shutdown_ends_open_streams_cleanly_on_both_protocols() {
    let server = Server::start(Limits::default()).await;
    let mut stream = server.connect("http/1.1").await;
    stream
        .write_all(head("GET", "/stream", &server.authorization()).as_bytes())
        .await
        .unwrap();
    read_until(&mut stream, "first\n").await;

    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder
        .handshake(TokioIo::new(server.connect("h2").await))
        .await
        .unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::get("https://localhost/stream")
        .header("authorization", format!("Bearer {}", server.pki.token()))
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());

    server.shutdown.cancel();
    let reply = read_reply(&mut stream).await;
    assert!(
        reply.head.ends_with("0\r\n") || reply.head.ends_with('0') || reply.body.is_empty(),
        "{reply:?}"
    );
    while let Some(frame) = body.frame().await {
        assert!(
            frame.unwrap().into_data().unwrap().is_empty(),
            "the stream ended without an error"
        );
    }
    driver.await.unwrap().unwrap();
    server.task.await.unwrap();
    assert_eq!(server.edge.shared().metrics.connections.get(), 0);
}

#[tokio::test]
async fn shutdown_waits_for_requests_and_fails_readiness() {
    let gate = Arc::new(Semaphore::new(0));
    let handler = Trivial {
        gate: Some(Arc::clone(&gate)),
        ..Trivial::default()
    };
    let server = Server::start_with(Limits::default(), handler).await;
    let mut stream = server.connect("http/1.1").await;
    stream
        .write_all(head("GET", "/gate", &server.authorization()).as_bytes())
        .await
        .unwrap();
    until(|| server.handler.n_gated.load(Ordering::SeqCst) == 1).await;
    server.shutdown.cancel();
    until(|| server.edge.shared().draining.is_cancelled()).await;
    let ready = http::Request::get("/readyz")
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let mut service = server.edge.in_process(User::admin());
    let ready = tower::Service::call(&mut service, ready).await.unwrap();
    assert_eq!(ready.status(), 500);
    gate.add_permits(1);
    assert_eq!(read_reply(&mut stream).await.body, "through");
    server.task.await.unwrap();
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_end_in_time() {
    let limits = Limits {
        shutdown_grace: Duration::from_millis(20),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut stream = server.connect("http/1.1").await;
    stream
        .write_all(head("GET", "/never", &server.authorization()).as_bytes())
        .await
        .unwrap();
    let request = server
        .http2(http::Method::GET, "/echo", bytes::Bytes::new())
        .await;
    assert_eq!(request.status(), 200);
    server.shutdown.cancel();
    server.task.await.unwrap();
    assert_eq!(read_reply(&mut stream).await.code, 0);
}
