//! Where rules begin, what they remember, and what they leave.

use std::time::Duration;

use skopos_api::{Delivery, Existing};
use tokio::time::sleep;

use super::{begin, route, simple};
use crate::delivery::{
    Plan, PlannedRule,
    tests::kit::{Life, MemoryLog, Mood, Recorder, When, plan, rule},
};

#[tokio::test(start_paused = true)]
async fn objects_that_were_there_are_ignored_or_told_once_before_their_changes() {
    for (existing, expected) in [
        (Existing::Ignore, vec!["r.u1.401", "r.u2.deleted"]),
        (
            Existing::Emit,
            vec!["r.u1.created", "r.u1.401", "r.u2.created", "r.u2.deleted"],
        ),
    ] {
        let log = MemoryLog::new();
        for n in 0..400 {
            log.set(&format!("w{n:03}"), n);
        }
        let sink = Recorder::new(100);
        let planned = PlannedRule {
            existing,
            ..rule("r", When::Always, &["s"])
        };
        let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
        life.until("the rule is there", |status| status.rules.contains_key("r"))
            .await;
        log.set("w000", 9);
        log.delete("w001");
        life.until_quiet().await;
        let mut ids = sink.ids();
        ids.retain(|id| id.starts_with("r.u1.") || id.starts_with("r.u2."));
        ids.sort_by_key(|id| id.starts_with("r.u2."));
        assert_eq!(ids, expected);
        assert_eq!(sink.ids().len(), if existing == Existing::Emit { 402 } else { 2 });
    }
}

/// Only a few of them are in memory at once.
#[tokio::test(start_paused = true)]
async fn large_objects_are_all_told_and_all_their_timers_fire() {
    let held = (Existing::Ignore, When::Held(60));
    for ((existing, when), n_trimmed) in [((Existing::Emit, When::Always), 0), (held, 0), (held, 40)] {
        let log = MemoryLog::new();
        log.pad(1 << 20);
        for n in 0..40 {
            log.set(&format!("w{n}"), 9);
        }
        log.trim(n_trimmed);
        let sink = Recorder::new(100);
        let planned = PlannedRule {
            existing,
            ..rule("r", when, &["s"])
        };
        let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
        let all = |status: &crate::delivery::Status| {
            status.rules.contains_key("r") && route(status).delivered == 40
        };
        let state = life.until("all arrived", all).await.rules["r"].clone();
        assert_eq!((sink.ids().len(), state.matched, state.failed), (40, 40, 0));
    }
}

/// It was passed over, and nothing said so.
#[tokio::test(start_paused = true)]
async fn an_existing_object_whose_state_is_damaged_is_counted_and_named() {
    for (existing, when) in [(Existing::Emit, When::Always), (Existing::Ignore, When::Became)] {
        let log = MemoryLog::new();
        for name in ["a", "b", "c"] {
            log.set(name, 1);
        }
        log.lose_state("b");
        let sink = Recorder::new(1);
        let planned = PlannedRule {
            existing,
            ..rule("r", when, &["s"])
        };
        let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
        life.until("the rule is there", |status| status.rules.contains_key("r"))
            .await;
        let state = life.until_quiet().await.rules["r"].clone();
        let error = "the last state of widgets/home/b is damaged";
        assert_eq!((state.missed, state.last_error.as_str()), (1, error));
        let told = if existing == Existing::Emit { 2 } else { 0 };
        assert_eq!(sink.ids().len(), told);
    }
}

#[tokio::test(start_paused = true)]
async fn existing_objects_are_told_although_their_last_change_is_no_longer_kept() {
    let log = MemoryLog::new();
    for name in ["a", "b", "c"] {
        log.set(name, 1);
    }
    log.trim(3);
    let sink = Recorder::new(1);
    sink.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    let planned = PlannedRule {
        existing: Existing::Emit,
        ..rule("r", When::Always, &["s"])
    };
    let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
    life.until("all are pending", |status| {
        status.rules.contains_key("r") && route(status).pending == 3
    })
    .await;
    log.set("a", 2);
    log.delete("b");
    sleep(Duration::from_secs(10)).await;
    sink.be(Mood::default());
    life.until_quiet().await;
    let said: std::collections::BTreeSet<_> = sink
        .arrived()
        .into_iter()
        .map(|event| (event.id, event.data))
        .collect();
    let said: Vec<_> = said
        .iter()
        .map(|(id, data)| (id.as_str(), data.as_ref()))
        .collect();
    assert_eq!(
        said,
        [
            ("r.u1.4", b"2".as_slice()),
            ("r.u1.created", b"1"),
            ("r.u2.created", b"1"),
            ("r.u2.deleted", b"1"),
            ("r.u3.created", b"1")
        ]
    );
    assert_eq!(route(&life.status()).dead, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reconciling_rule_tells_everything_again_when_it_changes() {
    let log = MemoryLog::new();
    log.set("a", 1);
    let sink = Recorder::new(1);
    let planned = |generation| PlannedRule {
        existing: Existing::Reconcile,
        generation,
        ..rule("r", When::Always, &["s"])
    };
    let life = begin(&log, plan([("r", planned(1))], [("s", sink.planned())]));
    life.until("told", |_| sink.arrived().len() == 1).await;
    life.reactor
        .swap(plan([("r", planned(2))], [("s", sink.planned())]));
    life.until("told again", |_| sink.arrived().len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_found_when_a_kind_is_first_looked_at_is_no_news_unless_asked_for() {
    for (existing, n_told) in [(Existing::Ignore, 1), (Existing::Emit, 2)] {
        let log = MemoryLog::new();
        let sink = Recorder::new(1);
        let planned = PlannedRule {
            existing,
            ..rule("r", When::Became, &["s"])
        };
        let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
        life.until("the rule is there", |status| status.rules.contains_key("r"))
            .await;
        log.found("a", 9);
        log.set("a", 8);
        log.set("a", 1);
        log.set("a", 7);
        life.until_quiet().await;
        assert_eq!(sink.ids().len(), n_told, "{existing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn edge_states_survive_a_restart_and_go_with_the_expression() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let planned = |edges| {
        let became = PlannedRule {
            edges,
            ..rule("r", When::Became, &["s"])
        };
        plan([("r", became)], [("s", sink.planned())])
    };
    let life = begin(&log, planned(1));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    log.set("a", 9);
    life.until_quiet().await;
    let life = Life::begin(life.end().await, &log, planned(1), 1);
    log.set("a", 8);
    life.until_quiet().await;
    assert_eq!(sink.ids().len(), 1, "it is so already");
    log.set("a", 1);
    log.set("a", 9);
    life.until_quiet().await;
    assert_eq!(sink.ids().len(), 2);
    life.reactor.swap(planned(2));
    sleep(Duration::from_secs(1)).await;
    log.set("a", 7);
    life.until_quiet().await;
    assert_eq!(
        sink.ids().len(),
        2,
        "the state before tells that it is so already"
    );
}

#[tokio::test(start_paused = true)]
async fn timers_survive_restarts_and_overdue_ones_fire_at_the_start() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let held = || {
        plan(
            [("r", rule("r", When::Held(600), &["s"]))],
            [("s", sink.planned())],
        )
    };
    let life = begin(&log, held());
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    log.set("a", 9);
    log.set("b", 9);
    log.set("c", 9);
    sleep(Duration::from_secs(300)).await;
    log.set("b", 1);
    sleep(Duration::from_secs(1)).await;
    let disk = life.end().await;
    sleep(Duration::from_secs(400)).await;
    log.set("c", 1);
    let life = Life::begin(disk, &log, held(), 1);
    life.until("two were held", |_| sink.ids().len() == 2).await;
    sleep(Duration::from_secs(3600)).await;
    let mut ids = sink.ids();
    ids.sort();
    assert_eq!(ids, ["r.u1.created.held", "r.u3.created.held"]);
    drop(life);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_is_gone_leaves_nothing_unless_the_plan_is_incomplete() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    for n in 0..10 {
        log.set("a", n);
    }
    life.until("pending", |status| route(status).pending == 10).await;
    let incomplete = Plan {
        complete: false,
        ..Plan::default()
    };
    life.reactor.swap(incomplete);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(route(&life.status()).pending, 10);
    let set_aside = Plan {
        set_aside: ["r".to_owned()].into(),
        ..plan([], [])
    };
    life.reactor.swap(set_aside);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(route(&life.status()).pending, 10);
    life.reactor.swap(plan([], []));
    life.until("gone", |status| status.rules.is_empty()).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(log.hold_of("rule/r"), None);
}

#[tokio::test(start_paused = true)]
async fn a_rule_made_anew_has_nothing_of_the_one_before() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let of = |uid: &str| {
        let planned = PlannedRule {
            uid: uid.to_owned(),
            ..rule("r", When::Always, &["s"])
        };
        plan([("r", planned)], [])
    };
    let life = begin(&log, of("one"));
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    log.set("a", 1);
    life.until("pending", |status| route(status).pending == 1).await;
    // One of before who made the rule was written down: it is taken to be the same.
    let life = Life::begin(life.end().await, &log, of(""), 1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(route(&life.status()).pending, 1);
    let life = Life::begin(life.end().await, &log, of("two"), 1);
    life.until("it began anew", |status| route(status).pending == 0)
        .await;
    log.set("a", 2);
    let mut delivering = of("two");
    delivering.sinks.insert("s".to_owned(), sink.planned());
    life.reactor.swap(delivering);
    life.until("sent", |_| sink.ids() == ["r.u1.2"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_holds_already_when_a_rule_is_made_is_told_in_time() {
    let log = MemoryLog::new();
    for (name, n) in [("high", 9), ("low", 1), ("falls", 9)] {
        log.set(name, n);
    }
    sleep(Duration::from_secs(300)).await;
    let sink = Recorder::new(1);
    let held = plan(
        [("r", rule("r", When::Held(600), &["s"]))],
        [("s", sink.planned())],
    );
    let life = begin(&log, held);
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    log.set("falls", 2);
    sleep(Duration::from_secs(290)).await;
    assert_eq!(sink.ids(), [""; 0]);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(sink.ids(), ["r.u1.created.held"]);
    drop(life);
}

#[tokio::test(start_paused = true)]
async fn a_rule_beyond_the_end_of_the_journal_goes_on_from_there() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let all = || plan([("r", rule("r", When::Always, &["s"]))], [("s", sink.planned())]);
    let life = begin(&log, all());
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    for n in 0..5 {
        log.set("a", n);
    }
    life.until_quiet().await;
    let disk = life.end().await;
    let restored = MemoryLog::new();
    restored.set("b", 1);
    let life = Life::begin(disk, &restored, all(), 1);
    let status = life
        .until("it is noticed", |status| status.rules["r"].position.0 == 1)
        .await;
    assert!(
        status.rules["r"]
            .last_error
            .contains("the journal ends at change 1")
    );
    restored.set("b", 2);
    life.until("sent", |_| sink.ids().contains(&"r.u1.2".to_owned()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_read_the_objects_there_are_holds_up_no_other() {
    let log = MemoryLog::new();
    log.set("a", 1);
    log.hide_current(true);
    let sink = Recorder::new(1);
    let telling = PlannedRule {
        existing: Existing::Emit,
        ..rule("t", When::Always, &["s"])
    };
    let rules = [("r", rule("r", When::Always, &["s"])), ("t", telling)];
    let life = begin(&log, plan(rules, [("s", sink.planned())]));
    life.until("it is said", |status| {
        let telling = status.rules.get("t");
        telling.is_some_and(|rule| rule.last_error.contains("bad checksum"))
    })
    .await;
    let began = tokio::time::Instant::now();
    log.set("a", 2);
    life.until("the other is served", |_| sink.ids() == ["r.u1.2"])
        .await;
    assert!(began.elapsed() < Duration::from_millis(500));
    log.hide_current(false);
    life.until("it goes on", |_| sink.ids().len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_learn_what_held_before_it_begins_all_the_same() {
    let log = MemoryLog::new();
    log.set("a", 1);
    log.hide_current(true);
    let sink = Recorder::new(1);
    let became = plan([("r", rule("r", When::Became, &["s"]))], [("s", sink.planned())]);
    let life = begin(&log, became);
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    log.set("a", 9);
    let status = life.until_quiet().await;
    assert_eq!(
        (status.rules["r"].missed, sink.ids()),
        (1, vec!["r.u1.2".to_owned()])
    );
    assert!(status.rules["r"].last_error.contains("bad checksum"));
}
