//! Positions, limits, pauses and trouble with rules and the journal.

use std::time::Duration;

use skopos_api::{Delivery, Limits, OnExceed};
use skopos_journal::{Log as _, Seq};
use tokio::time::{Instant, sleep};

use super::{begin, route, simple};
use crate::delivery::{
    Error, PlannedRule,
    tests::kit::{Life, MemoryLog, Mood, Recorder, When, plan, rule},
};

#[tokio::test(start_paused = true)]
async fn positions_advance_when_nothing_matches_and_the_journal_may_go() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let life = begin(
        &log,
        plan([("r", rule("r", When::Never, &["s"]))], [("s", sink.planned())]),
    );
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    for n in 0..1000 {
        log.set("a", n);
    }
    life.until("it has looked", |status| status.rules["r"].position == Seq(1000))
        .await;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(log.hold_of("rule/r"), Some(Seq(1000)));
    assert_eq!(log.trim(1000), 1001);
}

#[tokio::test(start_paused = true)]
async fn what_is_pending_is_kept_in_the_journal_across_restarts() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    log.set("a", 1);
    life.until_quiet().await;
    sink.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    log.set("a", 2);
    log.set("a", 3);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(log.hold_of("rule/r"), Some(Seq(1)));
    let disk = life.end().await;
    log.hold("rule/r", None);
    let planned = plan([("r", rule("r", When::Always, &["s"]))], [("s", sink.planned())]);
    let life = Life::begin(disk, &log, planned, 2);
    assert_eq!(log.hold_of("rule/r"), Some(Seq(1)), "said before anything runs");
    log.trim(100);
    sink.be(Mood::default());
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u1.created", "r.u1.2", "r.u1.3"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_beyond_its_limit_stands_still_until_resumed_and_loses_nothing() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let limited = |on_exceed| {
        let limits = Limits {
            max_actions_per_minute: 3,
            on_exceed,
        };
        let rule = PlannedRule {
            limits: Some(limits),
            ..rule("r", When::Always, &["s"])
        };
        plan([("r", rule)], [("s", sink.planned())])
    };
    let life = begin(&log, limited(OnExceed::Suspend));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    for n in 0..8 {
        log.set("a", n);
    }
    let status = life
        .until("suspended", |status| status.rules["r"].suspended.is_some())
        .await;
    assert_eq!(
        status.rules["r"].suspended.as_deref(),
        Some("more than 3 matches in a minute")
    );
    assert_eq!(status.rules["r"].position, Seq(3));
    sleep(Duration::from_secs(3600)).await;
    let life = Life::begin(life.end().await, &log, limited(OnExceed::Suspend), 1);
    sleep(Duration::from_secs(10)).await;
    assert!(sink.ids().len() <= 3, "it stands still after a restart too");
    life.reactor.resume("r").await.unwrap();
    life.until("the next three", |status| status.rules["r"].position == Seq(6))
        .await;
    life.reactor.swap(limited(OnExceed::Delay));
    life.reactor.resume("r").await.unwrap();
    life.until_quiet().await;
    assert_eq!(sink.ids().len(), 8);
    assert!(matches!(
        life.reactor.resume("x").await,
        Err(Error::NoSuchRule(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn what_is_beyond_the_limit_waits_for_its_minute_if_asked_to() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let planned = PlannedRule {
        limits: Some(Limits {
            max_actions_per_minute: 10,
            on_exceed: OnExceed::Delay,
        }),
        ..rule("r", When::Always, &["s"])
    };
    let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    let began = Instant::now();
    for n in 0..35 {
        log.set("a", n);
    }
    life.until_quiet().await;
    assert!(began.elapsed() >= Duration::from_secs(180));
    assert_eq!(sink.ids().len(), 35);
}

/// It is looked at again, and was taken for another match of the object each time.
#[tokio::test(start_paused = true)]
async fn a_change_that_waits_for_its_minute_counts_once_as_a_sign_of_a_loop() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let planned = PlannedRule {
        limits: Some(Limits {
            max_actions_per_minute: 20,
            on_exceed: OnExceed::Delay,
        }),
        writes_objects: true,
        ..rule("r", When::Always, &["s"])
    };
    let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    // So many of one object are no loop yet.
    for n in 0..60 {
        log.set("a", n);
    }
    let status = life
        .until("it has looked", |status| {
            let rule = &status.rules["r"];
            rule.position == Seq(60) || rule.suspended.is_some()
        })
        .await;
    assert_eq!(status.rules["r"].suspended, None);
}

#[tokio::test(start_paused = true)]
async fn a_paused_rule_and_a_dry_one_send_nothing() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    life.reactor.pause("r", "maintenance").await.unwrap();
    log.set("a", 1);
    sleep(Duration::from_secs(60)).await;
    assert!(sink.arrived().is_empty());
    assert_eq!(life.status().rules["r"].lag_changes, 1);
    life.reactor.resume("r").await.unwrap();
    life.until_quiet().await;
    assert_eq!(sink.arrived().len(), 1);
    let dry = PlannedRule {
        dry_run: true,
        ..rule("r", When::Always, &["s"])
    };
    life.reactor.swap(plan([("r", dry)], [("s", sink.planned())]));
    sleep(Duration::from_secs(1)).await;
    log.set("a", 2);
    let status = life.until_quiet().await;
    assert_eq!((status.rules["r"].matched, sink.arrived().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_fails_or_panics_is_counted_and_harms_nobody() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let rules = [
        ("fails", rule("fails", When::Fails, &["s"])),
        ("panics", rule("panics", When::Panics, &["s"])),
        ("r", rule("r", When::Always, &["s"])),
    ];
    let life = begin(&log, plan(rules, [("s", sink.planned())]));
    life.until("the rules are there", |status| status.rules.len() == 3)
        .await;
    log.set("a", 1);
    let status = life.until_quiet().await;
    assert_eq!(status.rules["fails"].last_error, "change 1: no such field");
    assert_eq!(status.rules["panics"].failed, 1);
    assert_eq!(sink.arrived().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_that_cannot_be_read_are_passed_over_and_counted() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    life.reactor
        .pause("r", "so that all are read at once")
        .await
        .unwrap();
    for n in 0..10 {
        log.set("a", n);
    }
    log.damage(4, 6);
    log.fail_reads(3);
    life.reactor.resume("r").await.unwrap();
    let status = life.until_quiet().await;
    assert_eq!((status.rules["r"].missed, sink.arrived().len()), (3, 7));
    assert!(status.rules["r"].last_error.contains("bad checksum"));
}

#[tokio::test(start_paused = true)]
async fn memory_does_not_grow_while_a_sink_is_dead() {
    let sink = Recorder::new(10);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    // What is pending grows for hours, over many objects; what is held of it does not.
    let mut most = 0;
    for round in 0..20 {
        for n in 0..1000 {
            log.set(&format!("o{}", n % 300), round);
        }
        let wanted = u64::try_from(round + 1).unwrap() * 1000;
        let status = life
            .until("all is pending", |status| route(status).pending == wanted)
            .await;
        sleep(Duration::from_secs(600)).await;
        most = most.max(life.status().sinks["s"].in_memory);
        assert!(status.sinks["s"].in_flight <= 8);
    }
    assert!((1..=1024).contains(&most), "{most} deliveries in memory");
    assert!(sink.calls().iter().all(|call| call.ids.len() <= 10));
    sink.be(Mood::default());
    life.until_quiet().await;
    assert_eq!(sink.ids().len(), 20_000, "nothing was lost meanwhile");
}
