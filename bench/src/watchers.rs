//! Many watchers of one resource: how long until the last one knows of a write.

use std::time::Instant;

use anyhow::Context;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use skopos_conformance::{Endpoint, Request};
use tokio::sync::mpsc;

use crate::load::APPS;
use crate::shape::Shape;

/// Watches on one connection, as many as kube-apiserver allows.
const STREAMS: usize = 100;
/// How many writes are measured.
const WRITES: usize = 21;

/// From the write to the last of the watchers.
pub(crate) struct FanOut {
    pub(crate) median_ms: f64,
    pub(crate) worst_ms: f64,
}

/// Opens the watches, as clients do many on an HTTP/2 connection, then writes again and again.
pub(crate) async fn fan_out(endpoint: &Endpoint, shape: &Shape, watchers: usize) -> anyhow::Result<FanOut> {
    let page = endpoint
        .send(Request::get(format!("{APPS}?limit=1")))
        .await?
        .success()?
        .json();
    let from = page["metadata"]["resourceVersion"]
        .as_str()
        .context("no revision")?
        .to_owned();
    // Full means that the counter below is behind: the watchers wait for it.
    let (seen, mut sightings) = mpsc::channel(watchers.max(1));
    let mut tasks = tokio::task::JoinSet::new();
    let mut connections = Vec::new();
    for number in 0..watchers {
        if number % STREAMS == 0 {
            connections.push(endpoint.connect_h2().await?);
        }
        let connection = connections.last().context("a connection was made above")?;
        let response = connection
            .open(Request::get(format!("{APPS}?watch=1&resourceVersion={from}")))
            .await?;
        anyhow::ensure!(response.status().is_success(), "watch: {}", response.status());
        tasks.spawn(count(response.into_body(), seen.clone()));
    }
    let mut writer = endpoint.connect().await?;
    let mut times = Vec::new();
    for number in 0..WRITES {
        let object = shape.object(&format!("seen-{number:03}")).to_string();
        let begun = Instant::now();
        writer.send(Request::post(APPS, object)).await?.success()?;
        for _ in 0..watchers {
            sightings.recv().await.context("the watchers are gone")?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    tasks.abort_all();
    times.sort_by(f64::total_cmp);
    Ok(FanOut {
        median_ms: times[WRITES / 2],
        worst_ms: times[WRITES - 1],
    })
}

/// Tells of every event of a watch, until nobody listens.
pub(crate) async fn count(mut body: Incoming, seen: mpsc::Sender<()>) {
    while let Some(Ok(frame)) = body.frame().await {
        let events = frame
            .data_ref()
            .map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
        for _ in 0..events {
            if seen.send(()).await.is_err() {
                return;
            }
        }
    }
}
