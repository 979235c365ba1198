//! How reconciles run, fail and are tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use skopos_client::{Api, ListParams, Resource};
use skopos_controller::{Action, Context, Controller, ControllerConfig, Failure, Predicate};
use skopos_object::{GroupVersionKind, Object, ResourceVersion};
use skopos_testkit::{Fault, Rule, eventually};
use tokio::time::Instant;

use crate::stage::{Notes, Stage, n_of};

/// A controller whose reconcile does what the app's `n` says.
fn obeying(notes: &Notes, config: ControllerConfig) -> Controller {
    let notes = notes.clone();
    Controller::for_("apps.x.io")
        .with(config)
        .reconcile(move |app: Object, context: Context| {
            let notes = notes.clone();
            async move {
                notes.add(app.name());
                match n_of(&app) {
                    1 => Ok(Action::Done),
                    2 => Err(Failure::new("not today")),
                    3 => Err(Failure::terminal("never")),
                    4 => panic!("oh no"),
                    5 => std::future::pending().await,
                    6 if context.attempt() < 4 => Err(Failure::new("a little later")),
                    7 => Ok(Action::RequeueAfter(Duration::from_secs(3600))),
                    _ => Ok(Action::Done),
                }
            }
        })
}

#[tokio::test(start_paused = true)]
async fn a_failed_reconcile_is_tried_again_until_it_succeeds() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(obeying(&notes, ControllerConfig::default()));
    stage.create("a").await;
    stage.set("a", 6).await;
    notes.until_count("a", 4).await;
    eventually(async || {
        let waiting = running.queue.n_waiting() + running.queue.n_running();
        if waiting == 0 { Ok(()) } else { Err("still tried") }
    })
    .await;
    assert_eq!(running.metric("controller_runtime_reconcile_errors_total"), 3.0);
    running.stop().await;
}

/// What a reconcile writes before it fails has to be in the cache before the next one; that it is waited for does not
/// make it the first attempt again.
#[tokio::test(start_paused = true)]
async fn attempts_count_although_a_slow_cache_is_waited_for_in_between() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let mut config = ControllerConfig::default();
    config.queue.max_attempts = Some(3);
    let controller =
        Controller::for_("apps.x.io")
            .with(config)
            .reconcile(move |_: Object, context: Context| {
                let seen = seen.clone();
                async move {
                    let attempt = context.attempt();
                    seen.add(attempt.to_string());
                    context.status(|status| _ = status.set("tried", attempt)).await?;
                    Err(Failure::new("not today"))
                }
            });
    stage.server.faults().lag("apps", Duration::from_secs(3));
    let running = stage.run(controller);
    stage.create("a").await;
    eventually(async || match running.queue.dead_letters().len() {
        1 => Ok(()),
        n => Err(format!("{n} dead letters after {:?}", notes.all())),
    })
    .await;
    assert_eq!(notes.all(), ["1", "2", "3"]);
    assert!(running.metric("skopos_controller_cache_waits_total") >= 2.0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_among_the_metrics_by_code_method_and_host() {
    let stage = Stage::new().await;
    let refused = Rule::write().resource("configmaps").nth(1).then(Fault::Refused);
    stage.server.faults().add(refused);
    let controller = Controller::for_("apps.x.io").reconcile(|app: Object, context: Context| async move {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": app.name()}});
        context.apply_owned(&map).await?;
        Ok::<_, Failure>(Action::Done)
    });
    let running = stage.run(controller);
    stage.create("a").await;
    let count = |code: &str, method: &str| {
        let labels = format!(r#"{{code="{code}",host="in process",method="{method}"}}"#);
        running.sample(&format!("rest_client_requests_total{labels}"))
    };
    eventually(async || match count("201", "PATCH") {
        Some(1.0) => Ok(()),
        n => Err(format!("{n:?} maps made")),
    })
    .await;
    assert_eq!(count("<error>", "PATCH"), Some(1.0));
    let durations = r#"rest_client_request_duration_seconds_count{host="in process",verb="PATCH"}"#;
    assert_eq!(running.sample(durations), Some(2.0));
    assert!(count("200", "GET") > Some(0.0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_for_good_is_set_aside_until_it_changes() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(obeying(&notes, ControllerConfig::default()));
    stage.create("a").await;
    stage.set("a", 3).await;
    eventually(async || {
        if running.queue.dead_letters().len() == 1 {
            Ok(())
        } else {
            Err("none")
        }
    })
    .await;
    let before = notes.count("a");
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert_eq!(notes.count("a"), before);
    assert_eq!(running.queue.dead_letters()[0].error, "never");
    stage.set("a", 8).await;
    notes.until_count("a", before + 1).await;
    assert!(running.queue.dead_letters().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_counted_and_tried_again_and_others_go_on() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(obeying(&notes, ControllerConfig::default()));
    stage.create("bad").await;
    stage.set("bad", 4).await;
    notes.until_count("bad", 5).await;
    stage.create("good").await;
    notes.until_count("good", 1).await;
    assert!(running.metric("controller_runtime_reconcile_panics_total") >= 3.0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_cancelled_and_tried_again() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let config = ControllerConfig {
        timeout: Duration::from_secs(10),
        ..ControllerConfig::default()
    };
    let running = stage.run(obeying(&notes, config));
    stage.create("a").await;
    stage.set("a", 5).await;
    notes.until_count("a", 4).await;
    assert!(running.metric("controller_runtime_reconcile_timeouts_total") >= 2.0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_can_ask_to_be_run_again_later() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(obeying(&notes, ControllerConfig::default()));
    stage.create("a").await;
    stage.set("a", 7).await;
    eventually(async || {
        if running.queue.n_waiting() == 1 {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    let (before, begin) = (notes.count("a"), Instant::now());
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert_eq!(notes.count("a"), before);
    notes.until_count("a", before + 1).await;
    assert!(begin.elapsed() < Duration::from_secs(3700));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_object_of_an_old_name_does_not_inherit_its_failures() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(obeying(&notes, ControllerConfig::default()));
    stage.create("a").await;
    stage.set("a", 2).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    stage.delete("a").await;
    let before = notes.count("a");
    stage.create("a").await;
    let begin = Instant::now();
    notes.until_count("a", before + 1).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_limit_run_at_once_and_never_one_object_twice() {
    let stage = Stage::new().await;
    for n in 0..40 {
        stage.create(&format!("a{n}")).await;
    }
    let (running_now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let twice = Arc::new(AtomicBool::new(false));
    let in_hands = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let notes = Notes::default();
    let controller = {
        let (now, most, twice, notes) = (running_now.clone(), most.clone(), twice.clone(), notes.clone());
        Controller::for_("apps.x.io")
            .with(ControllerConfig {
                concurrency: 3,
                ..ControllerConfig::default()
            })
            .reconcile(move |app: Object, _: Context| {
                let (now, most, twice) = (now.clone(), most.clone(), twice.clone());
                let (in_hands, notes) = (in_hands.clone(), notes.clone());
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    if !in_hands.lock().unwrap().insert(app.key()) {
                        twice.store(true, Ordering::SeqCst);
                    }
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    in_hands.lock().unwrap().remove(&app.key());
                    now.fetch_sub(1, Ordering::SeqCst);
                    notes.add(app.name());
                    Ok(Action::Done)
                }
            })
    };
    let running = stage.run(controller);
    for round in 2..6 {
        stage.set("a0", round).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    notes.until_count("a39", 1).await;
    notes.until_count("a0", 1).await;
    eventually(async || {
        if notes.all().len() >= 40 {
            Ok(())
        } else {
            Err("not all")
        }
    })
    .await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert!(!twice.load(Ordering::SeqCst));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_ahead_of_the_first_list() {
    let stage = Stage::new().await;
    for n in 0..200 {
        stage.create(&format!("a{n}")).await;
    }
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io")
        .with(ControllerConfig {
            concurrency: 1,
            ..ControllerConfig::default()
        })
        .reconcile(move |app: Object, _: Context| {
            seen.add(format!("{} {}", app.name(), n_of(&app)));
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Failure>(Action::Done)
            }
        });
    let running = stage.run(controller);
    eventually(async || {
        if notes.all().len() > 2 {
            Ok(())
        } else {
            Err("not begun")
        }
    })
    .await;
    let begun = notes.all();
    let waiting = (0..200)
        .map(|n| format!("a{n}"))
        .rfind(|a| !begun.contains(&format!("{a} 1")));
    let waiting = waiting.unwrap();
    stage.set(&waiting, 2).await;
    let line = format!("{waiting} 2");
    notes.until_count(&line, 1).await;
    assert!(notes.all().len() < begun.len() + 5, "{:?}", notes.all());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_what_the_controller_was_not_told_of_yet_goes_ahead_of_the_first_list() {
    let stage = Stage::new().await;
    for n in 0..50 {
        stage.create(&format!("a{n}")).await;
    }
    let notes = Notes::default();
    let seen = notes.clone();
    // Nothing is ever sent: the gate opens when the other end is dropped.
    let (open, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let gate = std::sync::Mutex::new(gate);
    let config = ControllerConfig {
        concurrency: 1,
        ..ControllerConfig::default()
    };
    let controller = Controller::for_("apps.x.io")
        .with(config)
        // Hears nothing before the gate is open, and then everything.
        .when(Predicate::new(move |_| {
            tokio::task::block_in_place(|| gate.lock().unwrap().recv().is_err())
        }))
        .reconcile(move |app: Object, _: Context| {
            seen.add(format!("{} {}", app.name(), n_of(&app)));
            async { Ok::<_, Failure>(Action::Done) }
        });
    let running = stage.run(controller);
    let apps = running.informers.informer("apps.x.io");
    apps.synced().await.unwrap();
    stage.set("a30", 2).await;
    let version = stage.apps().get("a30").await.unwrap()["metadata"]["resourceVersion"].clone();
    apps.seen(&ResourceVersion::new(version.as_str().unwrap()))
        .await
        .unwrap();
    drop(open);
    notes.until_count("a30 2", 1).await;
    assert_eq!(notes.all()[0], "a30 2");
    assert_eq!(
        running.metric("skopos_controller_reconcile_lag_seconds_count"),
        1.0
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_wants_to_look_again_at_once_has_to_wait_a_little() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
        seen.add(app.name());
        async { Ok(Action::RequeueAfter(Duration::ZERO)) }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until_count("a", 1).await;
    let begun = Instant::now();
    notes.until_count("a", 101).await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    running.stop().await;
}

/// What people see beside an app: reason, and note.
async fn events_of(stage: &Stage, app: &str) -> Vec<(String, String)> {
    let gvk = GroupVersionKind::new("events.k8s.io", "v1", "Event");
    let events = Api::all(&stage.server.direct(), &Resource::known(&gvk, "events", true));
    let mut list = events.list(&ListParams::default());
    let mut all = Vec::new();
    while let Some(event) = list.next().await.unwrap() {
        let event = event.to_value();
        if event["regarding"]["name"] == app {
            let text = |field: &str| event[field].as_str().unwrap().to_owned();
            assert_eq!(event["type"], "Warning", "{event}");
            all.push((text("reason"), text("note")));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_given_up_says_so_in_an_event() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let mut config = ControllerConfig::default();
    config.queue.max_attempts = Some(3);
    let running = stage.run(obeying(&notes, config));
    for (name, n) in [("fine", 1), ("failing", 2), ("hopeless", 3), ("later", 6)] {
        stage.create(name).await;
        stage.set(name, n).await;
    }
    for (name, why) in [
        ("failing", "not today"),
        ("hopeless", "never"),
        ("later", "a little later"),
    ] {
        let note = format!("given up until it changes: {why}");
        let expect = [("ReconcileFailed".to_owned(), note)];
        eventually(async || match events_of(&stage, name).await {
            events if events == expect => Ok(()),
            events => Err(format!("{name}: {events:?}")),
        })
        .await;
    }
    assert_eq!(events_of(&stage, "fine").await, []);
    running.stop().await;
}

/// Changes run a failing object ahead of its retry, and do not count as attempts: after the last of them it is still to
/// be tried again.
#[tokio::test(start_paused = true)]
async fn an_object_that_will_be_tried_again_is_not_said_to_be_given_up() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let mut config = ControllerConfig::default();
    config.queue.max_attempts = Some(2);
    config.queue.backoff.first = Duration::from_secs(1000);
    let running = stage.run(obeying(&notes, config));
    stage.create("a").await;
    notes.until_count("a", 1).await;
    stage.set("a", 2).await;
    notes.until_count("a", 2).await;
    for (label, n) in [("x", 3), ("y", 4)] {
        stage
            .patch("a", json!({"metadata": {"labels": {"l": label}}}))
            .await;
        notes.until_count("a", n).await;
    }
    assert_eq!(running.queue.n_waiting(), 1);
    // All that is left to say is written before it ends.
    running.stop().await;
    assert_eq!(events_of(&stage, "a").await, []);
}

#[tokio::test(start_paused = true)]
async fn who_wants_no_events_of_failures_gets_none() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let config = ControllerConfig {
        failure_events: false,
        ..ControllerConfig::default()
    };
    let running = stage.run(obeying(&notes, config));
    stage.create("hopeless").await;
    stage.set("hopeless", 3).await;
    eventually(async || match running.queue.dead_letters().len() {
        1 => Ok(()),
        n => Err(format!("{n} dead letters")),
    })
    .await;
    // All that is left to say is written before it ends.
    running.stop().await;
    assert_eq!(events_of(&stage, "hopeless").await, []);
}
