//! What the tests of destinations share.

use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use skopos_api::{SecretKey, SinkSpec};
use skopos_sink::{
    Allowed, BadSink, Context, Destination, Event, Failure, SecretError, Secrets, Sent, connect,
};

/// Secrets by their keys, whatever the name of the Secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(pub(crate) BTreeMap<String, String>);

impl Known {
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }
}

impl Secrets for Known {
    fn secret<'a>(&'a self, key: &'a SecretKey) -> BoxFuture<'a, Result<Vec<u8>, SecretError>> {
        let found = self.0.get(&key.key);
        let found = found
            .map(|value| value.clone().into_bytes())
            .ok_or(SecretError::Missing);
        Box::pin(std::future::ready(found))
    }
}

pub(crate) fn spec(yaml: &str) -> SinkSpec {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"))
}

pub(crate) const ALL: Allowed = Allowed {
    exec: true,
    file: true,
};

pub(crate) async fn try_sink(yaml: &str, secrets: &Known) -> Result<Arc<dyn Destination>, BadSink> {
    let path = "/usr/bin:/bin".into();
    let context = Context {
        namespace: "default",
        secrets,
        allowed: ALL,
        search_path: Some(&path),
        client: None,
    };
    connect(&spec(yaml), context).await
}

pub(crate) async fn sink(yaml: &str, secrets: &Known) -> Arc<dyn Destination> {
    try_sink(yaml, secrets)
        .await
        .unwrap_or_else(|error| panic!("{yaml}: {error}"))
}

pub(crate) fn event(n: usize, lane: &str) -> Event {
    Event {
        id: format!("{lane}/{n}"),
        what: skopos_api::Event::Updated,
        source: "/clusters/test/apps/deployments".into(),
        subject: format!("default/{lane}"),
        rule: "default/all".into(),
        time: "2026-01-02T03:04:05.678Z".into(),
        lane: lane.into(),
        content_type: "application/json",
        data: Bytes::from(format!("{{\"n\":{n}}}")),
        traceparent: None,
        account: None,
    }
}

/// Events of several objects, in turns.
pub(crate) fn events(numbers: std::ops::Range<usize>, lanes: usize) -> Vec<Event> {
    numbers
        .map(|n| event(n, &format!("object-{}", n % lanes)))
        .collect()
}

/// Sends until all arrived, as whoever delivers does.
pub(crate) async fn deliver(destination: &dyn Destination, events: &[Event]) {
    let mut rest = events;
    let mut last = String::new();
    for _ in 0..2_000 {
        if rest.is_empty() {
            return;
        }
        let size = rest.len().min(destination.max_batch());
        let sent = match tokio::time::timeout(Duration::from_secs(10), destination.send(&rest[..size])).await
        {
            Ok(sent) => sent,
            Err(_) => Sent::failed(0, Failure::unavailable("took too long")),
        };
        rest = &rest[sent.n_delivered..];
        if let Some(failure) = sent.failure {
            last = told(&failure);
            assert!(matches!(failure, Failure::Unavailable { .. }), "{last}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    panic!("{} events were not delivered: {last}", rest.len());
}

/// Sends one event that must fail, and returns what is said about it.
pub(crate) async fn unavailable(destination: &dyn Destination) -> String {
    let sent = destination.send(&[event(0, "a")]).await;
    assert_eq!(sent.n_delivered, 0);
    match sent.failure {
        Some(failure @ Failure::Unavailable { .. }) => told(&failure),
        other => panic!("{other:?}"),
    }
}

/// Sends one event that must be refused, and returns what is said about it.
pub(crate) async fn refused(destination: &dyn Destination, event: Event) -> String {
    let sent = destination.send(&[event]).await;
    assert_eq!(sent.n_delivered, 0);
    match sent.failure {
        Some(failure @ Failure::Refused(_)) => told(&failure),
        other => panic!("{other:?}"),
    }
}

/// An error with its causes.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// The ids without repetitions, each where it came first.
pub(crate) fn first_of_each(ids: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    ids.iter()
        .filter(|id| seen.insert(id.as_str()))
        .cloned()
        .collect()
}

/// Fails unless exactly these events arrived, those of each object in their order; repetitions do not count.
pub(crate) fn check_arrived(received: &[String], expect: &[Event]) {
    let received = first_of_each(received);
    let lane = |id: &String| id.rsplit_once('/').expect("lane/number").0.to_owned();
    let mut lanes: BTreeMap<String, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for event in expect {
        lanes
            .entry(event.lane.clone())
            .or_default()
            .0
            .push(event.id.clone());
    }
    for id in received {
        lanes.entry(lane(&id)).or_default().1.push(id);
    }
    for (lane, (expected, received)) in lanes {
        assert_eq!(received, expected, "{lane}");
    }
}
