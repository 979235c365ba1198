//! Destinations, those of other servers against the real ones, which `cargo xtask parts` installs.
#![expect(clippy::unwrap_used, reason = "tests")]

mod exec;
mod file;
mod guide;
mod kafka;
mod kubernetes;
mod nats;
mod postgres;
mod rabbitmq;
mod silence;
mod specs;
mod stdout;
mod support;
mod webhook;

use std::sync::Arc;

use skopos_sink::{Destination, Event};
use tokio::task::JoinSet;

use support::{Known, check_arrived, deliver, events};

/// A server that a test stops and starts, and reads what it got.
trait Server {
    async fn stop(&mut self);
    async fn start(&mut self);
    /// The ids of all messages, in the order of the server.
    async fn received(&self) -> Vec<String>;
}

/// So many deliver at the same time.
const N_SENDERS: usize = 3;

/// How a server treats a message that comes again.
#[derive(PartialEq, Eq)]
enum Repeats {
    /// It drops it.
    Dropped,
    /// The receiver knows it by its id.
    Kept,
}

/// Delivers, repeats, stops and starts the server in the middle of a delivery, and compares.
async fn check_delivery(server: &mut impl Server, destination: Arc<dyn Destination>, repeats: Repeats) {
    let first = events(0..60, 7);
    deliver(&*destination, &first).await;
    deliver(&*destination, &first[30..]).await;
    let received = server.received().await;
    check_arrived(&received, &first);
    if repeats == Repeats::Dropped {
        assert_eq!(received.len(), first.len());
    }

    assert!(!format!("{destination:?}").contains(skopos_testkit::parts::USER.1));

    let all = events(0..400, 7);
    let mut sending = JoinSet::new();
    for n in 0..N_SENDERS {
        // Events of one object are never under way twice.
        let mut rest = all[60..].to_vec();
        rest.retain(|event| number_of(&event.lane) % N_SENDERS == n);
        sending.spawn(send(Arc::clone(&destination), rest));
    }
    server.stop().await;
    assert!(
        sending.try_join_next().is_none(),
        "the server was stopped too late"
    );
    server.start().await;
    while let Some(done) = sending.join_next().await {
        done.expect("no panic");
    }
    let received = server.received().await;
    check_arrived(&received, &all);
    if repeats == Repeats::Dropped {
        assert_eq!(received.len(), all.len());
    }
}

async fn send(destination: Arc<dyn Destination>, events: Vec<Event>) {
    for group in events.chunks(5) {
        deliver(&*destination, group).await;
    }
}

/// The number in `object-3`.
fn number_of(lane: &str) -> usize {
    lane.trim_start_matches("object-").parse().unwrap()
}

/// The secrets of the parts: the right password, a wrong one, an authority and another one.
fn secrets(authority: &str, other: &str) -> Known {
    let (_, password) = skopos_testkit::parts::USER;
    Known::default()
        .with("password", password)
        .with("wrong", "wrong-password")
        .with("ca", authority)
        .with("other", other)
}

const AUTH: &str = "auth: {username: skopos, password: {secret: {name: s, key: password}}}";
const WRONG: &str = "auth: {username: skopos, password: {secret: {name: s, key: wrong}}}";
const TLS: &str = "tls: {ca: {secret: {name: s, key: ca}}}";
const OTHER: &str = "tls: {ca: {secret: {name: s, key: other}}}";
