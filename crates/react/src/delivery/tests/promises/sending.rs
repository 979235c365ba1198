//! How deliveries are made, and made again.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use skopos_api::{Backoff, Delivery, Existing, OrderBy, Span};
use tokio::time::{Instant, sleep};

use super::{begin, route, simple};
use crate::delivery::{
    PlannedRule,
    tests::kit::{Call, MemoryLog, Mood, Recorder, Toy, When, plan, rule},
};

#[tokio::test(start_paused = true)]
async fn changes_of_one_object_arrive_in_order_and_of_several_at_once() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        takes: Duration::from_millis(10),
        ..Mood::default()
    });
    for n in 0..5 {
        for name in ["a", "b", "c"] {
            log.set(name, n);
        }
    }
    life.until_quiet().await;
    let numbers = |name: &str| -> Vec<String> {
        let subject = format!("home/{name}");
        let of = sink
            .arrived()
            .into_iter()
            .filter(|event| event.subject == subject);
        of.map(|event| String::from_utf8(event.data.to_vec()).unwrap())
            .collect()
    };
    assert_eq!(numbers("a"), ["0", "1", "2", "3", "4"]);
    assert_eq!(numbers("c"), numbers("a"));
    assert_eq!(sink.most_at_once(), 3);
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_at_once_than_allowed() {
    let sink = Recorder::new(1);
    let delivery = Delivery {
        concurrency: Some(2),
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    sink.be(Mood {
        takes: Duration::from_millis(10),
        ..Mood::default()
    });
    for n in 0..20 {
        log.set(&format!("w{n}"), n);
    }
    life.until_quiet().await;
    assert_eq!(sink.most_at_once(), 2);
}

/// What the second rule has about the object waits behind what the first has, and must not wait for ever.
#[tokio::test(start_paused = true)]
async fn a_rule_that_goes_while_an_object_fails_takes_nothing_of_other_rules_with_it() {
    let log = MemoryLog::new();
    let sink = Recorder::new(1);
    let rules = |names: &[&'static str]| {
        let rules = names.iter().map(|name| (*name, rule(name, When::Always, &["s"])));
        plan(rules, [("s", sink.planned())])
    };
    let life = begin(&log, rules(&["q", "r"]));
    life.until("the rules are there", |status| status.rules.len() == 2)
        .await;
    sink.be(Mood {
        failing: ["home/a".to_owned()].into(),
        ..Mood::default()
    });
    log.set("a", 1);
    sleep(Duration::from_secs(5)).await;
    // Whichever of them came first.
    let first = sink.calls()[0].ids[0].clone();
    let stays = if first.starts_with("q.") { "r" } else { "q" };
    life.reactor.swap(rules(&[stays]));
    sleep(Duration::from_secs(5)).await;
    sink.be(Mood::default());
    log.set("a", 2);
    life.until_quiet().await;
    assert_eq!(
        sink.ids(),
        [format!("{stays}.u1.created"), format!("{stays}.u1.2")]
    );
}

/// A destination that has to take a batch apart may not have the time for all of it.
#[tokio::test(start_paused = true)]
async fn what_a_destination_did_not_come_to_is_no_failure_and_goes_on_at_once() {
    let sink = Recorder::new(50);
    let delivery = Delivery {
        max_attempts: Some(1),
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    sink.be(Mood {
        takes_at_most: Some(3),
        ..Mood::default()
    });
    let began = Instant::now();
    for n in 0..100 {
        log.set(&format!("w{}", n % 7), n);
    }
    let status = life.until_quiet().await;
    assert_eq!((route(&status).dead, sink.arrived().len()), (0, 100));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_fails_rests_alone() {
    let sink = Recorder::new(50);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        failing: ["home/bad".to_owned()].into(),
        ..Mood::default()
    });
    for n in 0..200 {
        log.set("bad", n);
        log.set(&format!("w{}", n % 7), n);
        sleep(Duration::from_millis(20)).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sink.arrived().len(), 200, "the others do not wait");
    assert_eq!(route(&life.status()).pending, 200);
    sink.be(Mood::default());
    life.until_quiet().await;
    assert_eq!(sink.arrived().len(), 400);
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_the_longest_and_keep_to_retry_after() {
    let sink = Recorder::new(1);
    let delivery = Delivery {
        backoff: Backoff {
            initial: Some(Span(Duration::from_secs(1))),
            max: Some(Span(Duration::from_secs(8))),
        },
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    sink.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    log.set("a", 1);
    sleep(Duration::from_secs(60)).await;
    let pauses = |calls: &[Call]| -> Vec<f64> {
        let pairs = calls.windows(2);
        pairs
            .map(|pair| (pair[1].at - pair[0].at).as_secs_f64())
            .collect()
    };
    let first = pauses(&sink.calls());
    for (pause, most) in first.iter().zip([1.0, 2.0, 4.0, 8.0, 8.0]) {
        assert!((most * 0.74..=most * 1.01).contains(pause), "{first:?}");
    }
    sink.be(Mood {
        is_down: true,
        retry_after: Some(Duration::from_secs(100)),
        ..Mood::default()
    });
    let n_calls = sink.calls().len();
    sleep(Duration::from_secs(320)).await;
    let later = pauses(&sink.calls()[n_calls..]);
    assert!(later.iter().all(|pause| *pause >= 100.0), "{later:?}");
    sink.be(Mood::default());
    life.until_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_gets_one_probe_at_a_time_and_holds_up_nobody() {
    let (dead, fine) = (Recorder::new(1), Recorder::new(1));
    let log = MemoryLog::new();
    let sinks = [("dead", dead.planned()), ("fine", fine.planned())];
    let life = begin(
        &log,
        plan([("r", rule("r", When::Always, &["dead", "fine"]))], sinks),
    );
    life.until("the rule is there", |status| status.rules.contains_key("r"))
        .await;
    dead.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    for n in 0..5000 {
        log.set(&format!("w{}", n % 500), n);
    }
    life.until("the other has everything", |status| {
        status.rules["r"].routes["fine"].delivered == 5000
    })
    .await;
    sleep(Duration::from_secs(3600)).await;
    let status = life.status();
    assert!(
        status.sinks["dead"]
            .down_for
            .is_some_and(|time| time > Duration::from_secs(3000))
    );
    assert_eq!(status.rules["r"].routes["dead"].pending, 5000);
    let calls = dead.calls();
    assert!(calls.len() < 60, "{} calls in an hour", calls.len());
    dead.be(Mood::default());
    life.until_quiet().await;
    assert_eq!(dead.arrived().len(), 5000);
    assert!(life.status().sinks["dead"].down_for.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_given_up_after_the_timeout_and_tried_again() {
    let sink = Recorder::new(1);
    let delivery = Delivery {
        timeout: Some(Span(Duration::from_secs(3))),
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    sink.be(Mood {
        hangs: true,
        ..Mood::default()
    });
    log.set("a", 1);
    let status = life
        .until("it failed", |status| status.sinks["s"].failed_attempts > 0)
        .await;
    assert_eq!(status.sinks["s"].last_error, "no answer within 3s");
    assert_eq!(route(&status).last_error, "no answer within 3s");
    sink.be(Mood::default());
    life.until_quiet().await;
    assert_eq!(sink.arrived().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_panics_has_failed() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    sink.be(Mood {
        panics: true,
        ..Mood::default()
    });
    log.set("a", 1);
    sleep(Duration::from_millis(100)).await;
    sink.be(Mood::default());
    life.until_quiet().await;
    assert_eq!(sink.arrived().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_events_a_second_than_allowed() {
    let sink = Recorder::new(10);
    let delivery = Delivery {
        max_per_second: NonZeroU32::new(20).map(NonZeroU32::get),
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    let began = Instant::now();
    for n in 0..100 {
        log.set(&format!("w{n}"), n);
    }
    life.until_quiet().await;
    let last = sink.calls().last().unwrap().at - began;
    assert!(last >= Duration::from_millis(4800), "{last:?}");
    for second in 0..5u64 {
        let range = Duration::from_secs(second)..Duration::from_secs(second + 1);
        let calls = sink
            .calls()
            .into_iter()
            .filter(|call| range.contains(&(call.at - began)));
        assert!(calls.map(|call| call.ids.len()).sum::<usize>() <= 22);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_order_an_event_that_fails_does_not_hold_up_later_ones_of_its_object() {
    let sink = Recorder::new(1);
    let delivery = Delivery {
        order_by: OrderBy::None,
        concurrency: Some(1),
        ..Delivery::default()
    };
    let (log, life) = simple(&sink, delivery).await;
    sink.be(Mood {
        is_down: true,
        ..Mood::default()
    });
    log.set("a", 1);
    sleep(Duration::from_millis(50)).await;
    sink.be(Mood::default());
    log.set("a", 2);
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u1.2", "r.u1.created"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_comes_after_the_one_before_of_its_name() {
    let sink = Recorder::new(1);
    let (log, life) = simple(&sink, Delivery::default()).await;
    log.set("a", 1);
    life.until_quiet().await;
    sink.be(Mood {
        failing: ["home/a".to_owned()].into(),
        ..Mood::default()
    });
    log.delete("a");
    life.until("it failed", |status| !route(status).last_error.is_empty())
        .await;
    sink.be(Mood::default());
    log.set("a", 2);
    life.until_quiet().await;
    assert_eq!(sink.ids(), ["r.u1.created", "r.u1.deleted", "r.u2.created"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_no_more_events_than_fit_into_a_few_megabytes() {
    let log = MemoryLog::new();
    for n in 0..10 {
        log.set(&format!("w{n}"), n);
    }
    let sink = Recorder::new(100);
    let mut toy = Toy::new("r", When::Always);
    toy.n_bytes = 1 << 20;
    let planned = PlannedRule {
        existing: Existing::Emit,
        ..PlannedRule::new(Arc::new(toy), ["s"])
    };
    let life = begin(&log, plan([("r", planned)], [("s", sink.planned())]));
    life.until("all are sent", |status| {
        status.rules.contains_key("r") && route(status).delivered == 10
    })
    .await;
    let sizes: Vec<usize> = sink.calls().iter().map(|call| call.ids.len()).collect();
    assert_eq!((sizes.iter().max(), sizes.len()), (Some(&4), 3), "{sizes:?}");
}
