//! What is done when objects are gone, and for which.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use skopos_controller::{Action, Builder, Context, Controller, Failure, LeaderConfig, ManagerConfig};
use skopos_informer::{Selection, Wanted};
use skopos_object::{LabelSelector, Object, ObjectKey};
use skopos_testkit::{Fault, Rule, eventually};

use crate::leading::until_leading;
use crate::stage::{Notes, Stage};

/// Notes which apps are reconciled, and which are said to be gone.
fn noting(controller: Builder, notes: &Notes) -> Controller {
    let gone = notes.clone();
    let controller = controller.when_gone(move |key: ObjectKey, _| {
        gone.add(format!("{key} is gone"));
        async { Ok(Action::Done) }
    });
    reconciling(controller, notes)
}

fn reconciling(controller: Builder, notes: &Notes) -> Controller {
    let seen = notes.clone();
    controller.reconcile(move |app: Object, _: Context| {
        seen.add(app.name());
        async { Ok::<_, Failure>(Action::Done) }
    })
}

/// The apps of one shard.
fn sharded() -> Wanted {
    Wanted {
        selection: Selection {
            labels: LabelSelector::parse("shard=one").unwrap(),
            ..Selection::default()
        },
        ..Wanted::from("apps.x.io")
    }
}

async fn put_app(stage: &Stage, name: &str, shard: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"shard": shard}});
    let app = json!({"apiVersion": "x.io/v1", "kind": "App", "metadata": metadata});
    stage.server.put(&app).await;
    stage.apps().get(name).await.unwrap()
}

async fn put_map_of(stage: &Stage, app: &Value) {
    let app = Object::from_value(app).unwrap();
    let metadata = json!({"name": app.name(), "namespace": "default",
        "ownerReferences": [skopos_controller::controller_reference(&app)]});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    stage.server.put(&map).await;
}

fn is_said(notes: &Notes) -> bool {
    notes.all().iter().any(|line| line.ends_with("is gone"))
}

/// What is made of an app of another shard names that app, which is in none of this controller's caches.
#[tokio::test(start_paused = true)]
async fn what_is_named_and_not_there_is_not_said_to_be_gone() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let mine = put_app(&stage, "mine", "one").await;
    let other = put_app(&stage, "other", "two").await;
    let controller = Controller::for_(sharded()).owns("configmaps");
    let running = stage.run(noting(controller, &notes));
    notes.until(&["mine"]).await;
    put_map_of(&stage, &other).await;
    put_map_of(&stage, &mine).await;
    notes.until_count("mine", 2).await;
    assert!(!is_said(&notes), "{:?}", notes.all());
    running.stop().await;
}

/// The watch of maps is faster than that of the apps that they belong to.
#[tokio::test(start_paused = true)]
async fn what_is_named_and_not_there_yet_is_not_said_to_be_gone() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    put_app(&stage, "first", "one").await;
    stage.server.faults().lag("apps", Duration::from_secs(5));
    let controller = Controller::for_("apps.x.io").owns("configmaps");
    let running = stage.run(noting(controller, &notes));
    notes.until_count("first", 1).await;
    let late = put_app(&stage, "late", "one").await;
    put_map_of(&stage, &late).await;
    notes.until_count("late", 1).await;
    assert!(!is_said(&notes), "{:?}", notes.all());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_leaves_the_selection_is_gone_until_it_returns() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    put_app(&stage, "a", "one").await;
    let running = stage.run(noting(Controller::for_(sharded()), &notes));
    notes.until(&["a"]).await;
    stage
        .patch("a", json!({"metadata": {"labels": {"shard": "two"}}}))
        .await;
    notes.until(&["a", "default/a is gone"]).await;
    stage
        .patch("a", json!({"metadata": {"labels": {"shard": "one"}}}))
        .await;
    notes.until(&["a", "default/a is gone", "a"]).await;
    running.stop().await;
}

/// It fails, wants another look, panics, and then is done.
#[tokio::test(start_paused = true)]
async fn what_is_done_when_an_object_is_gone_is_tried_again_until_it_is_done() {
    let stage = Stage::new().await;
    let (notes, n_calls) = (Notes::default(), Arc::new(AtomicUsize::new(0)));
    let gone = notes.clone();
    let controller = Controller::for_("apps.x.io").when_gone(move |_, _| {
        let n = n_calls.fetch_add(1, Ordering::SeqCst);
        gone.add(format!("gone {n}"));
        async move {
            match n {
                0 => Err(Failure::new("not yet")),
                1 => Ok(Action::RequeueAfter(Duration::from_secs(1))),
                2 => panic!("not yet either"),
                _ => Ok(Action::Done),
            }
        }
    });
    let running = stage.run(reconciling(controller, &notes));
    stage.create("a").await;
    notes.until(&["a"]).await;
    stage.delete("a").await;
    notes.until(&["a", "gone 0", "gone 1", "gone 2", "gone 3"]).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(notes.count("gone 4"), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_when_an_object_was_gone_is_tried_once_it_is_put_back() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let gone = notes.clone();
    let controller = Controller::for_("apps.x.io").when_gone(move |_, _| {
        gone.add("gone");
        async { Err(Failure::terminal("cannot be done")) }
    });
    let running = stage.run(reconciling(controller, &notes));
    stage.create("a").await;
    notes.until(&["a"]).await;
    stage.delete("a").await;
    for n in 1..3 {
        notes.until_count("gone", n).await;
        eventually(async || match running.queue.dead_letters().is_empty() {
            true => Err("no dead letter yet"),
            false => Ok(()),
        })
        .await;
        assert!(running.queue.put_back(&ObjectKey::from("default/a")));
    }
    notes.until_count("gone", 3).await;
    running.stop().await;
}

fn leading(name: &str) -> ManagerConfig {
    ManagerConfig {
        leader: Some(LeaderConfig::new("default", "apps", name)),
        ..ManagerConfig::new("x.io/apps")
    }
}

/// The first call is cancelled with the end of the term, and the second comes with the next term.
#[tokio::test(start_paused = true)]
async fn what_is_done_when_an_object_is_gone_is_done_in_a_later_term_if_one_ends_before() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let gone = notes.clone();
    let controller = Controller::for_("apps.x.io").when_gone(move |_, _| {
        gone.add("gone");
        let is_first = gone.count("gone") == 1;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok(Action::Done)
        }
    });
    let running = stage.run_with(leading("only"), reconciling(controller, &notes));
    stage.create("a").await;
    notes.until(&["a"]).await;
    stage.delete("a").await;
    notes.until(&["a", "gone"]).await;
    let lost = Rule::write().resource("leases").then(Fault::unavailable(1));
    let lost = stage.server.faults().add(lost);
    until_leading(&running, false).await;
    lost.remove();
    notes.until(&["a", "gone", "gone"]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_leads_later_is_told_of_what_went_while_it_stood_by() {
    let stage = Stage::new().await;
    let [first, second] = [Notes::default(), Notes::default()];
    let noting = |notes: &Notes| noting(Controller::for_("apps.x.io"), notes);
    stage.create("a").await;
    let leads = stage.run_with(leading("first"), noting(&first));
    first.until(&["a"]).await;
    let stands_by = stage.run_with(leading("second"), noting(&second));
    eventually(async || match stands_by.queue.len() {
        1 => Ok(()),
        _ => Err("no cache yet"),
    })
    .await;
    stage.delete("a").await;
    first.until(&["a", "default/a is gone"]).await;
    leads.stop().await;
    second.until(&["default/a is gone"]).await;
    stands_by.stop().await;
}
