//! Connections that no sane client makes. The server stays small, and lives on.
//!
//! How it answers to bad requests is compared with kube-apiserver: `scenarios/refusals`.

use std::time::Duration;

use skopos_conformance::{Endpoint, Request, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const APPS: &str = "/apis/myapps.example.com/v1/namespaces/default/applications";
const MIB: u64 = 1 << 20;

/// Makes what the requests speak of: the kind `Application` and an object `steady`.
async fn set_stage(endpoint: &Endpoint) -> anyhow::Result<()> {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = include_str!("../scripts/fixtures/crd.yaml");
    endpoint
        .send(Request::new(http::Method::POST, crds).body("application/yaml", crd))
        .await?;
    let app = r#"{"apiVersion":"myapps.example.com/v1","kind":"Application","metadata":{"name":"steady"},"spec":{"image":"nginx"}}"#;
    while endpoint.send(Request::post(APPS, app)).await?.status == 404 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test]
async fn serves_beside_a_thousand_idle_connections_and_slow_senders() -> anyhow::Result<()> {
    let target = Target::start()?;
    let endpoint = target.endpoint()?;
    set_stage(&endpoint).await?;
    let mut held = Vec::new();
    for _ in 0..1_000 {
        held.push(endpoint.raw().await?);
    }
    // Each sender gives the head of a request and a few bytes of a body that never comes.
    let token = endpoint.token().unwrap_or_default();
    let head = format!(
        "POST {APPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 1000000\r\n\r\n{{\"a"
    );
    for stream in held.iter_mut().take(100) {
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
    }
    endpoint
        .send(Request::get(format!("{APPS}/steady")))
        .await?
        .success()?;
    if let Some(server) = target.embedded() {
        let (now, _) = server.memory()?;
        anyhow::ensure!(
            now < 250 * MIB,
            "a thousand idle connections take {} MiB",
            now / MIB
        );
    }
    drop(held);
    endpoint
        .send(Request::get(format!("{APPS}/steady")))
        .await?
        .success()?;
    Ok(())
}

#[tokio::test]
async fn drops_what_is_not_http() -> anyhow::Result<()> {
    let target = Target::start()?;
    let endpoint = target.endpoint()?;
    for bytes in [
        &b"\0\0\0\0nonsense\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = endpoint.raw().await?;
        stream.write_all(bytes).await?;
        let mut answer = [0; 64];
        // An answer with 400 or a closed connection are both fine; hanging is not.
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut answer)).await;
        anyhow::ensure!(read.is_ok(), "hangs after {:?}", String::from_utf8_lossy(bytes));
    }
    endpoint.send(Request::get("/readyz")).await?.success()?;
    Ok(())
}

// A custom resource has no protobuf form; kube-apiserver itself drops the connection here.
#[tokio::test]
async fn refuses_protobuf_of_a_custom_resource() -> anyhow::Result<()> {
    let target = Target::start()?;
    if target.embedded().is_none() {
        return Ok(());
    }
    let endpoint = target.endpoint()?;
    set_stage(&endpoint).await?;
    let request =
        Request::new(http::Method::POST, APPS).body("application/vnd.kubernetes.protobuf", "k8s\0nonsense");
    let answer = endpoint.send(request).await?;
    anyhow::ensure!(answer.status.is_client_error(), "{}", answer.status);
    Ok(())
}
