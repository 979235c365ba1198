//! A full disk: deliveries wait for room, and go on by themselves.

use std::time::Duration;

use skopos_api::Delivery;
use tokio::time::sleep;

use super::{route, simple};
use crate::delivery::{
    Error, Letters,
    tests::kit::{Mood, Recorder},
};

/// Nothing more can be written, not even one page.
const NONE: usize = 0;

#[tokio::test(start_paused = true)]
async fn deliveries_wait_for_room_and_lose_nothing() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    log.set("a", 1);
    life.until_quiet().await;
    life.disk.fill(NONE);
    log.set("a", 2);
    let status = life.until("it waits", |status| status.no_space.is_some()).await;
    assert!(status.no_space.unwrap().contains("storage"), "it says why");
    log.set("a", 3);
    sleep(Duration::from_secs(600)).await;
    let n_sent = sink.arrived().len();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(
        sink.arrived().len(),
        n_sent,
        "what cannot be written down is not sent"
    );
    life.disk.free();
    let status = life.until("it goes on", |status| status.no_space.is_none()).await;
    assert!(status.rules.contains_key("r"));
    let status = life.until_quiet().await;
    assert_eq!(route(&status).delivered, 3);
    let ids: Vec<String> = sink.distinct().iter().map(|event| event.id.clone()).collect();
    assert_eq!(ids, ["r.u1.created", "r.u1.2", "r.u1.3"]);
    life.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_little_room_is_not_enough_to_send_the_same_again_and_again() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    life.disk.fill(NONE);
    log.set("a", 1);
    life.until("it waits", |status| status.no_space.is_some()).await;
    let n_sent = sink.arrived().len();
    for _ in 0..600 {
        // Enough to open the file, and to send something.
        life.disk.fill(200_000);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(sink.arrived().len(), n_sent);
    life.disk.free();
    life.until("it goes on", |status| status.no_space.is_none()).await;
    life.until_quiet().await;
    assert_eq!(sink.distinct().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_asks_meanwhile_is_told_that_there_is_no_room() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        refuses: Some(1),
        ..Mood::default()
    });
    log.set("a", 1);
    life.until("given up", |status| route(status).dead == 1).await;
    life.disk.fill(NONE);
    log.set("a", 2);
    life.until("it waits", |status| status.no_space.is_some()).await;
    let reactor = life.reactor.clone();
    let refused = reactor.pause("r", "enough").await.unwrap_err();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    let refused = reactor.redrive(&Letters::All).await.unwrap_err();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    life.disk.free();
    life.until("it goes on", |status| status.no_space.is_none()).await;
    reactor.pause("r", "enough").await.unwrap();
    assert!(reactor.redrive(&Letters::All).await.unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_room_stops_when_told_to() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    life.disk.fill(NONE);
    log.set("a", 1);
    life.until("it waits", |status| status.no_space.is_some()).await;
    life.end().await;
}
