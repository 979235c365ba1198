//! Requests good and bad.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use super::super::*;
use super::harness::{Server, Trivial, exchange, head, read_reply, until};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn answers_on_both_protocols_with_the_usual_headers() {
    let server = Server::start(Limits::default()).await;
    let reply = server.admin_get("/echo").await;
    assert_eq!((reply.code, reply.body.as_str()), (200, "kubernetes-admin 0"));
    assert!(
        reply.has_header("cache-control: no-cache, private"),
        "{}",
        reply.head
    );
    assert!(reply.head.contains("\r\naudit-id: "), "{}", reply.head);
    let reply = server
        .http2(Method::POST, "/echo", Bytes::from(vec![b'x'; MIB]))
        .await;
    assert_eq!(reply.body(), "kubernetes-admin 1048576");
    assert_eq!(reply.headers()["cache-control"], "no-cache, private");
    let reply = server.http2(Method::GET, "/big", Bytes::new()).await;
    assert_eq!(reply.body().len(), 8 * MIB);
    server.stop().await;
}

#[tokio::test]
async fn keeps_the_audit_id_of_the_client() {
    let server = Server::start(Limits::default()).await;
    let headers = format!("{}Audit-ID: mine-1\r\n", server.authorization());
    assert!(server.get("/echo", &headers).await.has_header("audit-id: mine-1"));
    server.stop().await;
}

#[tokio::test]
async fn takes_bodies_up_to_three_mebibytes() {
    let server = Server::start(Limits::default()).await;
    let most = server
        .http2(Method::POST, "/echo", Bytes::from(vec![b'x'; 3 * MIB]))
        .await;
    assert_eq!(most.body(), "kubernetes-admin 3145728");
    let reply = server
        .http2(Method::POST, "/echo", Bytes::from(vec![b'x'; 3 * MIB + 1]))
        .await;
    assert_eq!(reply.status(), 413);
    let status: serde_json::Value = serde_json::from_slice(reply.body()).unwrap();
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
    assert_eq!(status["reason"], "RequestEntityTooLarge");
    let mut stream = server.connect("http/1.1").await;
    let length = format!("{}Content-Length: {}\r\n", server.authorization(), 3 * MIB + 1);
    stream
        .write_all(head("POST", "/echo", &length).as_bytes())
        .await
        .unwrap();
    stream.write_all(&vec![b'x'; 3 * MIB + 1]).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.code, 413);
    let mut stream = server.connect("http/1.1").await;
    let length = format!("{}Content-Length: 99999999999\r\n", server.authorization());
    let reply = exchange(&mut stream, &head("POST", "/echo", &length)).await;
    assert_eq!(reply.code, 413, "refused without reading");
    server.stop().await;
}

#[tokio::test]
async fn gives_up_on_a_slow_sender() {
    let limits = Limits {
        body_read_timeout: Duration::from_millis(20),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut stream = server.connect("http/1.1").await;
    let length = format!("{}Content-Length: 10\r\n", server.authorization());
    let request = head("POST", "/echo", &length) + "only";
    let reply = exchange(&mut stream, &request).await;
    assert_eq!(reply.code, 504);
    assert!(
        reply
            .body
            .contains("Timeout: request did not complete within the allotted timeout"),
        "{}",
        reply.body
    );
    server.stop().await;
}

#[tokio::test]
async fn ends_connections_that_do_not_finish_the_handshake() {
    let limits = Limits {
        handshake_timeout: Duration::from_millis(20),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut raw = tokio::net::TcpStream::connect(server.addr).await.unwrap();
    raw.write_all(&[0x16, 0x03]).await.unwrap();
    // Closed or reset: either way it ends.
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut raw, &mut Vec::new()).await;
    until(|| server.open_connections() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn ends_connections_that_send_no_whole_request() {
    let limits = Limits {
        header_read_timeout: Duration::from_millis(20),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut stream = server.connect("http/1.1").await;
    // The server may be faster than we are.
    let _ = stream.write_all(b"GET /echo HTT").await;
    let reply = read_reply(&mut stream).await;
    assert!(matches!(reply.code, 0 | 408), "{reply:?}");
    until(|| server.open_connections() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn answers_504_when_the_handler_takes_too_long() {
    let limits = Limits {
        write_timeout: Duration::from_millis(10),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let reply = server.admin_get("/never?timeout=10ms").await;
    let expect = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
                  \"message\":\"Timeout: request did not complete within the allotted timeout\",\
                  \"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";
    assert_eq!((reply.code, reply.body.as_str()), (504, expect));
    let reply = server.http2(Method::POST, "/never", Bytes::new()).await;
    assert!(String::from_utf8_lossy(reply.body()).contains("requested timeout - context deadline exceeded"));
    server.stop().await;
}

#[tokio::test]
async fn heeds_the_timeout_parameter() {
    let server = Server::start(Limits::default()).await;
    assert_eq!(
        server.admin_get("/echo?timeout=1h").await.code,
        200,
        "no longer than the server's own"
    );
    let reply = server.admin_get("/echo?timeout=xx").await;
    assert_eq!(reply.code, 400);
    let message = "invalid timeout specified in the request URL - time: invalid duration \\\"xx\\\"";
    assert!(reply.body.contains(message), "{}", reply.body);
    server.stop().await;
}

#[tokio::test]
async fn a_panic_is_an_answer_and_a_count() {
    let server = Server::start(Limits::default()).await;
    let reply = server.admin_get("/panic").await;
    assert_eq!(reply.code, 500);
    assert_eq!(
        reply.body,
        "This request caused apiserver to panic. Look in the logs for details.\n"
    );
    let reply = server.admin_get("/bad-stream").await;
    assert_eq!(reply.body, "", "cut short");
    let metrics = server.admin_get("/metrics").await.body;
    assert!(metrics.contains("apiserver_request_panics_total 1"), "{metrics}");
    assert_eq!(server.admin_get("/echo").await.code, 200, "the server goes on");
    server.stop().await;
}

#[tokio::test]
async fn refuses_what_exceeds_the_requests_in_flight() {
    let gate = Arc::new(Semaphore::new(0));
    let limits = Limits {
        max_requests_in_flight: 1,
        max_privileged_overflow: 1,
        ..Limits::default()
    };
    let handler = Trivial {
        gate: Some(Arc::clone(&gate)),
        ..Trivial::default()
    };
    let server = Server::start_with(limits, handler).await;
    let as_eve = "Authorization: Bearer eves-token\r\n";
    let waiting = server.get("/gate", as_eve);
    let others = async {
        until(|| server.handler.n_gated.load(Ordering::SeqCst) == 1).await;
        let refused = server.get("/echo", as_eve).await;
        assert_eq!(
            (refused.code, refused.body.as_str()),
            (429, "Too many requests, please try again later.\n")
        );
        assert!(refused.has_header("retry-after: 1"));
        assert_eq!(
            server.admin_get("/echo").await.code,
            200,
            "the administrator gets an answer"
        );
        assert_eq!(
            server.get("/healthz", "").await.code,
            200,
            "health is not counted"
        );
        assert!(
            server
                .admin_get("/metrics")
                .await
                .body
                .contains("requests{request_kind=\"readOnly\"} 1")
        );
        gate.add_permits(1);
    };
    let (waited, ()) = tokio::join!(waiting, others);
    assert_eq!(waited.body, "through");
    assert_eq!(server.get("/echo", as_eve).await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn malformed_requests_end_in_400_and_harm_nobody() {
    let server = Server::start(Limits::default()).await;
    let long_header = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(300 * 1024));
    let bad = [
        "GET\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET /echo HTTP/9.9\r\n\r\n",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long_header.as_str(),
    ];
    for request in bad {
        let mut stream = server.connect("http/1.1").await;
        // The server may answer and close before all is sent.
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.shutdown().await;
        let reply = read_reply(&mut stream).await;
        assert!(
            matches!(reply.code, 0 | 400 | 401 | 431 | 505),
            "{request:.40?}: {reply:?}"
        );
    }
    let mut stream = server.connect("h2").await;
    stream.write_all(&[0xff; 4096]).await.unwrap();
    read_reply(&mut stream).await;
    assert_eq!(server.admin_get("/echo").await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn tells_a_plain_http_client_what_is_wrong() {
    let server = Server::start(Limits::default()).await;
    let mut stream = tokio::net::TcpStream::connect(server.addr).await.unwrap();
    stream
        .write_all(b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut reply = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut reply)
        .await
        .unwrap();
    let expect = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    assert_eq!(reply, expect);
    server.stop().await;
}

#[tokio::test]
async fn serves_health_version_index_and_metrics() {
    let server = Server::start(Limits::default()).await;
    let reply = server.get("/readyz", "").await;
    assert_eq!((reply.code, reply.body.as_str()), (200, "ok"));
    assert!(reply.has_header("content-type: text/plain; charset=utf-8"));
    assert!(reply.has_header("x-content-type-options: nosniff"));
    let reply = server.get("/readyz?verbose&exclude=ping&exclude=foo", "").await;
    let expect = "[+]ping excluded: ok\n[+]log ok\n[+]shutdown ok\n\
                  warn: some health checks cannot be excluded: no matches for \"foo\"\nreadyz check passed\n";
    assert_eq!(reply.body, expect);
    assert_eq!(
        server.get("/livez?verbose", "").await.body,
        "[+]ping ok\n[+]log ok\nlivez check passed\n"
    );
    assert_eq!(server.admin_get("/readyz/ping").await.body, "ok");
    let reply = server.admin_get("/readyz/nope").await;
    assert_eq!((reply.code, reply.body.as_str()), (404, "404 page not found\n"));
    let version: serde_json::Value = serde_json::from_str(&server.get("/version", "").await.body).unwrap();
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&"1".into(), &"36".into())
    );
    assert_eq!(version["minCompatibilityMinor"], "35");
    let index: serde_json::Value = serde_json::from_str(&server.admin_get("/").await.body).unwrap();
    assert_eq!(index["paths"][0], "/api");
    assert!(
        index["paths"]
            .as_array()
            .unwrap()
            .contains(&"/readyz/shutdown".into())
    );
    let metrics = server.admin_get("/metrics").await.body;
    assert!(
        metrics.contains("apiserver_storage_objects{resource=\"pods\"} 7"),
        "{metrics}"
    );
    assert!(
        metrics.contains("subresource=\"/readyz\",verb=\"GET\",version=\"\"} "),
        "{metrics}"
    );
    server.stop().await;
}
