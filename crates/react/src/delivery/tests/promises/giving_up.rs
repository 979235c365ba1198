//! Dead letters and replays.

use std::{sync::Arc, time::Duration};

use skopos_api::Delivery;
use skopos_journal::Seq;
use tokio::time::sleep;

use super::{begin, route, simple};
use crate::delivery::{
    Error, Letters, PlannedRule, Replay, Status, Trigger,
    tests::kit::{Life, MemoryLog, Mood, Recorder, Toy, When, plan, rule},
};

#[tokio::test(start_paused = true)]
async fn what_is_refused_or_tried_too_often_becomes_a_dead_letter_and_the_object_goes_on() {
    let sink = Recorder::new(1);
    let delivery = Delivery {
        max_attempts: Some(3),
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    sink.be(Mood {
        failing: ["home/a".to_owned()].into(),
        ..Mood::default()
    });
    log.set("a", 1);
    life.until("it is dead", |status| route(status).dead == 1).await;
    sink.be(Mood {
        refuses: Some(1),
        ..Mood::default()
    });
    log.set("a", 2);
    life.until("both are dead", |status| route(status).dead == 2)
        .await;
    sink.be(Mood::default());
    log.set("a", 3);
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u1.3"]);
    let letters = life.reactor.dead_letters(&Letters::All, None, 10).await.unwrap();
    let said: Vec<_> = letters
        .iter()
        .map(|letter| (letter.attempts, letter.error.as_str()))
        .collect();
    assert_eq!(said, [(3, "out of order"), (1, "not wanted")]);
    assert_eq!(letters[0].object, "widgets/home/a");
    assert_eq!(letters[0].trigger, Trigger::Change);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_keeps_its_change_until_it_is_taken() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        refuses: Some(1),
        ..Mood::default()
    });
    log.set("a", 1);
    life.until("it is dead", |status| route(status).dead == 1).await;
    sink.be(Mood::default());
    for n in 0..5 {
        log.set("b", n);
    }
    life.until_quiet().await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(log.hold_of("rule/r"), Some(Seq(0)));
    life.reactor.redrive(&Letters::All).await.unwrap();
    life.until_quiet().await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(log.hold_of("rule/r"), Some(Seq(6)));
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_in_pages_shown_redriven_and_dropped() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        refuses: Some(1),
        ..Mood::default()
    });
    for n in 0..5 {
        log.set(&format!("w{n}"), n);
    }
    life.until("all are dead", |status| route(status).dead == 5).await;
    sink.be(Mood::default());
    let reactor = &life.reactor;
    let first = reactor
        .dead_letters(&Letters::Rule("r".into()), None, 2)
        .await
        .unwrap();
    let after = first.last().map(|letter| letter.id.as_str());
    let rest = reactor
        .dead_letters(&Letters::Sink("s".into()), after, 10)
        .await
        .unwrap();
    assert_eq!((first.len(), rest.len()), (2, 3));
    let (letter, event) = reactor.dead_letter(&rest[0].id).await.unwrap();
    assert_eq!((letter.seq, event.unwrap().id.as_str()), (Seq(3), "r.u3.created"));
    assert_eq!(
        reactor.redrive(&Letters::One(letter.id.clone())).await.unwrap(),
        1
    );
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u3.created"]);
    assert!(matches!(
        reactor.dead_letter(&letter.id).await,
        Err(Error::NoSuchLetter(_))
    ));
    assert_eq!(
        reactor
            .drop_letters(&Letters::One(first[0].id.clone()))
            .await
            .unwrap(),
        1
    );
    assert_eq!(reactor.redrive(&Letters::Sink("s".into())).await.unwrap(), 3);
    let status = life.until_quiet().await;
    assert_eq!((route(&status).dead, route(&status).delivered), (0, 4));
    assert!(matches!(
        reactor.redrive(&Letters::One("7".into())).await,
        Err(Error::NoSuchLetter(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_made_or_is_too_large_becomes_a_dead_letter() {
    let sink = Recorder::new(10);
    let log = MemoryLog::new();
    let mut toy = Toy::new("r", When::Always);
    toy.unprintable = Some(7);
    let delivery = Delivery {
        max_bytes: Some(2),
        ..Delivery::default()
    };
    let planned = PlannedRule::new(Arc::new(toy), ["s"]);
    let life = begin(&log, plan([("r", planned)], [("s", sink.planned_with(delivery))]));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    for n in [1, 7, 2, 1000, 3] {
        log.set("a", n);
    }
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u1.created", "r.u1.3", "r.u1.5"]);
    let letters = life.reactor.dead_letters(&Letters::All, None, 10).await.unwrap();
    let errors: Vec<_> = letters.iter().map(|letter| letter.error.as_str()).collect();
    assert_eq!(
        errors,
        [
            "cannot make the event: cannot be printed",
            "the event has 4 bytes, more than 2"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_replay_sends_a_range_again_with_the_same_ids_beside_normal_work() {
    let (sink, other) = (Recorder::new(1), Recorder::new(1));
    let log = MemoryLog::new();
    let sinks = [("s", sink.planned()), ("other", other.planned())];
    let life = begin(&log, plan([("r", rule("r", When::Even, &["s"]))], sinks));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    for n in 0..20 {
        log.set(&format!("w{}", n % 3), n);
    }
    life.until_quiet().await;
    let replay = Replay {
        rule: "r".into(),
        from: Seq(5),
        to: Seq(12),
        sink: Some("other".into()),
        is_dry: false,
    };
    let name = life.reactor.replay(&replay).await.unwrap();
    log.set("w0", 100);
    let status = life
        .until("it is finished", |status| status.replays[&name].is_finished)
        .await;
    let state = &status.replays[&name];
    assert_eq!((state.matched, state.delivered, state.position), (4, 4, Seq(12)));
    let sent: Vec<String> = sink.ids();
    assert!(other.ids().iter().all(|id| sent.contains(id)), "the same ids");
    life.until_quiet().await;
    assert_eq!(
        sink.arrived().len(),
        11,
        "nothing was sent twice to the rule's own sink"
    );
    let dry = Replay {
        is_dry: true,
        ..replay.clone()
    };
    let name = life.reactor.replay(&dry).await.unwrap();
    let status = life
        .until("it is finished", |status| status.replays[&name].is_finished)
        .await;
    assert_eq!((status.replays[&name].matched, other.arrived().len()), (4, 4));
    // The journal is told every few seconds what is no longer needed.
    sleep(Duration::from_secs(6)).await;
    log.trim(10);
    assert!(matches!(
        life.reactor.replay(&replay).await,
        Err(Error::NotKept { first: 11 })
    ));
}

/// It did not end while there were dead letters, and whoever waited for it waited for ever.
#[tokio::test(start_paused = true)]
async fn a_replay_ends_although_some_was_given_up_which_stays_until_it_is_taken() {
    let (sink, other) = (Recorder::new(1), Recorder::new(1));
    let log = MemoryLog::new();
    let planned = || {
        let sinks = [("s", sink.planned()), ("other", other.planned())];
        plan([("r", rule("r", When::Always, &["s"]))], sinks)
    };
    let life = begin(&log, planned());
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    for n in 0..3 {
        log.set(&format!("w{n}"), n);
    }
    life.until_quiet().await;
    other.be(Mood {
        refuses: Some(1),
        ..Mood::default()
    });
    let replay = Replay {
        rule: "r".into(),
        from: Seq(2),
        to: Seq(3),
        sink: Some("other".into()),
        is_dry: false,
    };
    let name = life.reactor.replay(&replay).await.unwrap();
    let ended = |status: &Status| status.replays[&name].is_finished;
    let status = life.until("it has ended", ended).await;
    assert_eq!(
        (status.replays[&name].dead, status.replays[&name].pending),
        (2, 0)
    );
    let life = Life::begin(life.end().await, &log, planned(), 1);
    let status = life.until("the rule is there", |status| status.rules["r"].lag_changes == 0);
    assert!(status.await.replays[&name].is_finished, "also after a restart");
    log.set("w0", 7);
    life.until_quiet().await;
    sleep(Duration::from_secs(20)).await;
    let hold = format!("rule/{name}");
    assert_eq!(
        log.hold_of(&hold),
        Some(Seq(1)),
        "the first letter needs change 2"
    );
    let which = Letters::Rule(name.clone());
    let letters = life.reactor.dead_letters(&which, None, 10).await.unwrap();
    let (_, event) = life.reactor.dead_letter(&letters[0].id).await.unwrap();
    assert_eq!(event.unwrap().id, "r.u2.created");
    let first = Letters::One(letters[0].id.clone());
    assert_eq!(life.reactor.drop_letters(&first).await.unwrap(), 1);
    other.be(Mood::default());
    assert_eq!(life.reactor.redrive(&which).await.unwrap(), 1);
    let status = life
        .until("all is taken", |status| {
            status.replays[&name].delivered == 1 && log.hold_of(&hold).is_none()
        })
        .await;
    assert_eq!((status.replays[&name].dead, ended(&status)), (0, true));
    assert_eq!(other.ids(), ["r.u3.created"]);
}

#[tokio::test(start_paused = true)]
async fn two_actions_to_one_sink_both_arrive() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let mut toy = Toy::new("r", When::Always);
    toy.names_actions = true;
    let planned = PlannedRule::new(Arc::new(toy), ["s", "s"]);
    let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    log.set("a", 1);
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u1.created.0", "r.u1.created.1"]);
}
