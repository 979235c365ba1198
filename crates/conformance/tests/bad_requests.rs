//! Requests that no sane client sends. The server answers as kube-apiserver does, stays small, and lives on.
//!
//! Expected answers are recorded from kube-apiserver: `scripts/requests`.

use std::time::Duration;

use skopos_conformance::{Request, Target, play_requests, set_requests_stage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const APPS: &str = "/apis/myapps.example.com/v1/namespaces/default/applications";
const MIB: u64 = 1 << 20;

async fn check(name: &str) -> anyhow::Result<()> {
    let target = Target::start()?;
    let endpoint = target.endpoint()?;
    set_requests_stage(&endpoint).await?;
    let asker = if name == "identities" {
        target.anonymous()?
    } else {
        endpoint.clone()
    };
    let result = play_requests(&asker, name).await;
    endpoint.send(Request::get("/readyz")).await?.success()?;
    if let Some(server) = target.embedded() {
        let (_, peak) = server.memory()?;
        anyhow::ensure!(peak < 300 * MIB, "memory went up to {} MiB", peak / MIB);
    }
    result
}

#[tokio::test]
async fn refuses_broken_bodies() -> anyhow::Result<()> {
    check("bodies").await
}

#[tokio::test]
async fn refuses_broken_patches() -> anyhow::Result<()> {
    check("patches").await
}

#[tokio::test]
async fn refuses_absurd_reads_and_paths() -> anyhow::Result<()> {
    check("reads").await
}

#[tokio::test]
async fn refuses_strangers() -> anyhow::Result<()> {
    check("identities").await
}

#[tokio::test]
async fn serves_beside_a_thousand_idle_connections_and_slow_senders() -> anyhow::Result<()> {
    let target = Target::start()?;
    let endpoint = target.endpoint()?;
    set_requests_stage(&endpoint).await?;
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
    set_requests_stage(&endpoint).await?;
    let request =
        Request::new(http::Method::POST, APPS).body("application/vnd.kubernetes.protobuf", "k8s\0nonsense");
    let answer = endpoint.send(request).await?;
    anyhow::ensure!(answer.status.is_client_error(), "{}", answer.status);
    Ok(())
}
