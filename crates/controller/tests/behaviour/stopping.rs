//! How a controller stops.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use skopos_controller::{Action, Context, Controller, EventKind, Failure, LeaderConfig, ManagerConfig};
use skopos_object::Object;
use skopos_testkit::{Fault, Rule};
use tokio::time::Instant;

use crate::stage::{Notes, Stage};

/// Takes so long for each app.
fn slow(notes: &Notes, takes: Duration) -> Controller {
    let notes = notes.clone();
    Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
        let notes = notes.clone();
        async move {
            notes.add(format!("begin {}", app.name()));
            tokio::time::sleep(takes).await;
            notes.add(format!("end {}", app.name()));
            Ok::<_, Failure>(Action::Done)
        }
    })
}

#[tokio::test(start_paused = true)]
async fn lets_what_runs_finish_and_begins_nothing_new() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(slow(&notes, Duration::from_secs(15)));
    stage.create("a").await;
    notes.until(&["begin a"]).await;
    running.begin_to_stop();
    stage.create("b").await;
    running.stopped().await;
    assert_eq!(notes.all(), ["begin a", "end a"]);
}

#[tokio::test(start_paused = true)]
async fn cancels_what_does_not_finish_in_time() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(slow(&notes, Duration::from_secs(3600)));
    stage.create("a").await;
    notes.until(&["begin a"]).await;
    let begin = Instant::now();
    running.stop().await;
    assert_eq!(notes.all(), ["begin a"]);
    assert!(begin.elapsed() >= stage.config.grace && begin.elapsed() < 2 * stage.config.grace);
}

/// Everything takes as long as it may: the reconcile, its event, and the lease.
#[tokio::test(start_paused = true)]
async fn stops_before_a_pod_is_killed_although_the_server_is_slow() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |_: Object, context: Context| {
        let seen = seen.clone();
        async move {
            context.event(EventKind::Normal, "Begun", "Wait", "for ever");
            seen.add("begins");
            std::future::pending().await
        }
    });
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new("default", "apps", "one")),
        ..ManagerConfig::new("x.io/apps")
    };
    let slow = |resource: &str, takes: u64| {
        let slow = Rule::any().resource(resource);
        let slow = slow.then(Fault::Slow(Duration::from_secs(takes)));
        stage.server.faults().add(slow);
    };
    slow("events", 3600);
    let running = stage.run_with(config, controller);
    stage.create("a").await;
    notes.until(&["begins"]).await;
    slow("leases", 4);
    let begin = Instant::now();
    running.stop().await;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// On a clock that runs, for a thread that is really blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reconcile_that_blocks_its_thread_is_named_and_left_behind_with_the_lease() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let (leave, blocked) = mpsc::sync_channel::<()>(0);
    let blocked = Arc::new(Mutex::new(blocked));
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, _: Context| {
        let (seen, blocked) = (seen.clone(), blocked.clone());
        async move {
            seen.add(app.name());
            let _ = blocked.lock().unwrap().recv();
            Ok::<_, Failure>(Action::Done)
        }
    });
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new("default", "apps", "one")),
        grace: Duration::from_millis(20),
        cancel_grace: Duration::from_millis(200),
        ..ManagerConfig::new("x.io/apps")
    };
    let running = stage.run_with(config, controller);
    stage.create("a").await;
    notes.until(&["a"]).await;
    running.begin_to_stop();
    let error = running.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cancelled reconciles do not end, and a lease is left to run out: apps.x.io default/a"
    );
    let lease = stage.leases().get("apps").await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "one");
    drop(leave);
}
