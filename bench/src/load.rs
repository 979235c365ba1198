//! Creates and lists.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use skopos_conformance::{Endpoint, Request};

use crate::shape::Shape;

pub(crate) const APPS: &str = "/apis/myapps.example.com/v1/namespaces/default/applications";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = include_str!("../crd.yaml");

/// Installs the kind and stores a first object; notes how long that took together.
pub(crate) async fn define<T>(
    endpoint: &Endpoint,
    note: &mut impl FnMut(&str, f64) -> T,
) -> anyhow::Result<Shape> {
    let mut connection = endpoint.connect().await?;
    let crd = Request::new(http::Method::POST, CRDS).body("application/yaml", CRD);
    let first = Shape::default().object("first").to_string();
    let begun = Instant::now();
    connection.send(crd).await?.success()?;
    let answer = loop {
        let answer = connection.send(Request::post(APPS, first.clone())).await?;
        if answer.status != 404 {
            break answer.success()?;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    note("definition_to_object_ms", begun.elapsed().as_secs_f64() * 1e3);
    Ok(Shape::filled(answer.body.len()))
}

/// Creates objects from several clients at once; returns how many per second.
pub(crate) async fn create(
    endpoint: &Endpoint,
    shape: &Shape,
    numbers: Range<usize>,
    clients: usize,
) -> anyhow::Result<f64> {
    let shape = shape.clone();
    let request = move |number| Request::post(APPS, shape.object(&name(number)).to_string());
    send(endpoint, numbers, clients, request).await
}

/// Writes the status of objects, as their controller does.
pub(crate) async fn report(endpoint: &Endpoint, numbers: Range<usize>, clients: usize) -> anyhow::Result<()> {
    send(endpoint, numbers, clients, |number| status(&name(number))).await?;
    Ok(())
}

/// The shape of objects that have a status, as the first one gets it now.
pub(crate) async fn reported(endpoint: &Endpoint) -> anyhow::Result<Shape> {
    let answer = endpoint.send(status("first")).await?.success()?;
    Ok(Shape::filled(answer.body.len()))
}

fn name(number: usize) -> String {
    format!("app-{number:06}")
}

fn status(name: &str) -> Request {
    let path = format!("{APPS}/{name}/status?fieldManager=application-controller");
    let phase = r#"{"status":{"phase":"Ready"}}"#;
    Request::patch(path, "application/merge-patch+json", phase)
}

/// Sends a request for every number, from several clients at once; returns how many per second.
async fn send(
    endpoint: &Endpoint,
    numbers: Range<usize>,
    clients: usize,
    request: impl Fn(usize) -> Request + Clone + Send + 'static,
) -> anyhow::Result<f64> {
    let (next, requests) = (Arc::new(AtomicUsize::new(numbers.start)), numbers.len());
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(endpoint.connect().await?);
    }
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for mut connection in connections {
        let (next, request, end) = (next.clone(), request.clone(), numbers.end);
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return anyhow::Ok(());
                }
                connection.send(request(number)).await?.success()?;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(requests as f64 / begun.elapsed().as_secs_f64())
}

/// How long a list took.
pub(crate) struct List {
    pub(crate) seconds: f64,
    pub(crate) bytes: usize,
}

/// Lists everything in one answer, three times; returns the median.
pub(crate) async fn list(endpoint: &Endpoint) -> anyhow::Result<List> {
    let mut connection = endpoint.connect().await?;
    let mut lists = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let response = connection.open(Request::get(APPS)).await?;
        anyhow::ensure!(response.status().is_success(), "list: {}", response.status());
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.into_data().map_or(0, |data| data.len());
        }
        lists.push(List {
            seconds: begun.elapsed().as_secs_f64(),
            bytes,
        });
    }
    lists.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(lists.swap_remove(1))
}
