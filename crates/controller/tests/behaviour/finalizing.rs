//! Cleaning up before an object goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skopos_controller::{Action, Context, Controller, Failure, Predicate};
use skopos_object::{Object, Op};
use skopos_testkit::{Fault, Rule, eventually};
use tokio::sync::Notify;

use crate::stage::{Notes, Stage};

const NAME: &str = "x.io/clean-up";

fn controller(notes: &Notes, may_go: &Arc<AtomicBool>) -> Controller {
    let (seen, cleaned, may_go) = (notes.clone(), notes.clone(), may_go.clone());
    Controller::for_("apps.x.io")
        .finalizer(NAME, move |app: Object, _: Context| {
            let done = may_go.load(Ordering::SeqCst);
            cleaned.add(format!("clean up {}", app.name()));
            async move {
                if done {
                    Ok(Action::Done)
                } else {
                    Err(Failure::new("still in use"))
                }
            }
        })
        .reconcile(move |app: Object, _: Context| {
            let has = app.finalizers().any(|name| name == NAME);
            seen.add(format!("{} {}", app.name(), if has { "safe" } else { "unsafe" }));
            async { Ok(Action::Done) }
        })
}

async fn until_gone(stage: &Stage, name: &str) {
    eventually(async || match stage.apps().find(name).await.unwrap() {
        None => Ok(()),
        Some(app) => Err(app["metadata"]["finalizers"].to_string()),
    })
    .await;
}

async fn until_finalizers(stage: &Stage, expect: &Value) {
    eventually(
        async || match &stage.apps().get("a").await.unwrap()["metadata"]["finalizers"] {
            now if now == expect => Ok(()),
            now => Err(now.to_string()),
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_is_there_before_anything_is_done_and_goes_after_clean_up() {
    let stage = Stage::new().await;
    let (notes, may_go) = (Notes::default(), Arc::new(AtomicBool::new(false)));
    let running = stage.run(controller(&notes, &may_go));
    stage.create("a").await;
    notes.until_count("a safe", 1).await;
    stage.delete("a").await;
    notes.until_count("clean up a", 3).await;
    assert!(stage.apps().find("a").await.unwrap().is_some());
    may_go.store(true, Ordering::SeqCst);
    until_gone(&stage, "a").await;
    assert_eq!(notes.count("a unsafe"), 0);
    running.stop().await;
}

/// None of these counts that `deletionTimestamp` is set.
#[tokio::test(start_paused = true)]
async fn an_object_is_cleaned_up_whatever_changes_count() {
    let never = Predicate::new(|change| change.op == Op::Created);
    for predicate in [Predicate::labels(), Predicate::annotations(), never] {
        let stage = Stage::new().await;
        let notes = Notes::default();
        let cleaned = notes.clone();
        let controller = Controller::for_("apps.x.io")
            .when(predicate)
            .finalizer(NAME, move |app: Object, _: Context| {
                cleaned.add(format!("clean up {}", app.name()));
                async { Ok(Action::Done) }
            })
            .reconcile(|_: Object, _: Context| async { Ok(Action::Done) });
        let running = stage.run(controller);
        stage.create("a").await;
        until_finalizers(&stage, &json!([NAME])).await;
        stage.delete("a").await;
        until_gone(&stage, "a").await;
        assert_eq!(notes.all(), ["clean up a"]);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay_and_conflicts_are_overcome() {
    let stage = Stage::new().await;
    let (notes, may_go) = (Notes::default(), Arc::new(AtomicBool::new(true)));
    stage.create("a").await;
    stage
        .patch("a", json!({"metadata": {"finalizers": ["z.io/theirs"]}}))
        .await;
    stage
        .server
        .faults()
        .add(Rule::write().resource("apps").first(2).then(Fault::conflict()));
    let running = stage.run(controller(&notes, &may_go));
    notes.until_count("a safe", 1).await;
    let a = stage.apps().get("a").await.unwrap();
    assert_eq!(a["metadata"]["finalizers"], json!(["z.io/theirs", NAME]));
    stage.delete("a").await;
    until_finalizers(&stage, &json!(["z.io/theirs"])).await;
    stage.patch("a", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&stage, "a").await;
    running.stop().await;
}

/// The finalizer of the next object of the name is not the one that may go.
#[tokio::test(start_paused = true)]
async fn the_finalizer_of_the_next_object_of_a_name_stays() {
    let stage = Stage::new().await;
    let (cleaning, may_go) = (Notes::default(), Arc::new(Notify::new()));
    let (cleaned, go) = (cleaning.clone(), may_go.clone());
    let controller = Controller::for_("apps.x.io")
        .finalizer(NAME, move |app: Object, _: Context| {
            cleaned.add(app.uid());
            let go = go.clone();
            async move {
                go.notified().await;
                Ok(Action::Done)
            }
        })
        .reconcile(|_: Object, _: Context| async { Ok(Action::Done) });
    let running = stage.run(controller);
    let first = stage.create("a").await;
    until_finalizers(&stage, &json!([NAME])).await;
    stage.delete("a").await;
    cleaning
        .until(&[first["metadata"]["uid"].as_str().unwrap()])
        .await;
    stage.patch("a", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&stage, "a").await;
    let next = json!({"apiVersion": "x.io/v1", "kind": "App", "metadata":
        {"name": "a", "namespace": "default", "finalizers": [NAME]}});
    let next = stage.server.put(&next).await;
    may_go.notify_one();
    eventually(async || match running.queue.n_running() + running.queue.len() {
        0 => Ok(()),
        _ => Err("still at work"),
    })
    .await;
    let now = stage.apps().get("a").await.unwrap();
    // Not even taken away and added again.
    assert_eq!(now["metadata"], next["metadata"]);
    assert_eq!(running.metric("controller_runtime_reconcile_errors_total"), 0.0);
    running.stop().await;
}

/// The cache shows the first object when the next one of its name is there already.
#[tokio::test(start_paused = true)]
async fn a_finalizer_is_not_added_to_the_next_object_of_a_name() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let controller = Controller::for_("apps.x.io")
        .finalizer(NAME, |_: Object, _: Context| async { Ok(Action::Done) })
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.uid());
            async { Ok(Action::Done) }
        });
    stage.server.faults().lag("apps", Duration::from_secs(5));
    let running = stage.run(controller);
    stage.create("a").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.delete("a").await;
    let next = stage.create("a").await;
    // The first is in the cache, the next one is not yet.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let now = stage.apps().get("a").await.unwrap();
    assert_eq!(now["metadata"]["finalizers"], Value::Null);
    assert!(running.metric("controller_runtime_reconcile_errors_total") >= 1.0);
    notes.until(&[next["metadata"]["uid"].as_str().unwrap()]).await;
    running.stop().await;
}

/// The finalizer is added, and nobody hears that it is: the answer is lost, and the cache does not show it yet. That it
/// is there is no change that counts, so whoever left it at that would never come back.
#[tokio::test(start_paused = true)]
async fn an_object_whose_finalizer_was_added_without_an_answer_is_reconciled() {
    let stage = Stage::new().await;
    let (notes, may_go) = (Notes::default(), Arc::new(AtomicBool::new(true)));
    let faults = stage.server.faults();
    faults.lag("apps", Duration::from_secs(5));
    let lost = Rule::write().resource("apps").first(1).then(Fault::LostAnswer);
    let lost = faults.add(lost);
    let running = stage.run(controller(&notes, &may_go));
    stage.create("a").await;
    notes.until(&["a safe"]).await;
    assert_eq!(lost.injected(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_before_its_finalizer_is_removed_is_a_success() {
    let stage = Stage::new().await;
    let (notes, may_go) = (Notes::default(), Arc::new(Notify::new()));
    let (cleaned, go) = (notes.clone(), may_go.clone());
    let controller = Controller::for_("apps.x.io")
        .finalizer(NAME, move |app: Object, _: Context| {
            cleaned.add(format!("clean up {}", app.name()));
            let go = go.clone();
            async move {
                go.notified().await;
                Ok(Action::Done)
            }
        })
        .reconcile(|_: Object, _: Context| async { Ok(Action::Done) });
    let running = stage.run(controller);
    stage.create("a").await;
    until_finalizers(&stage, &json!([NAME])).await;
    stage.delete("a").await;
    notes.until(&["clean up a"]).await;
    stage.patch("a", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&stage, "a").await;
    may_go.notify_one();
    eventually(async || {
        let left = running.queue.n_running() + running.queue.n_waiting();
        if left == 0 { Ok(()) } else { Err("still at work") }
    })
    .await;
    assert_eq!(running.metric("controller_runtime_reconcile_errors_total"), 0.0);
    assert_eq!(notes.count("clean up a"), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_already_gets_no_finalizer() {
    let stage = Stage::new().await;
    let (notes, may_go) = (Notes::default(), Arc::new(AtomicBool::new(true)));
    stage.create("a").await;
    stage
        .patch("a", json!({"metadata": {"finalizers": ["z.io/theirs"]}}))
        .await;
    stage.delete("a").await;
    let running = stage.run(controller(&notes, &may_go));
    stage.create("b").await;
    notes.until(&["b safe"]).await;
    let a = stage.apps().get("a").await.unwrap();
    assert_eq!(a["metadata"]["finalizers"], json!(["z.io/theirs"]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_finalizer_nothing_is_done_for_what_is_being_deleted() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    stage.create("a").await;
    stage
        .patch("a", json!({"metadata": {"finalizers": ["z.io/theirs"]}}))
        .await;
    stage.delete("a").await;
    let running = stage.run(crate::stage::noting(&notes));
    stage.create("b").await;
    notes.until(&["b 1"]).await;
    running.stop().await;
}

/// What cleaning up needs of an app.
#[derive(Deserialize)]
struct App {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    n: i64,
}

#[tokio::test(start_paused = true)]
async fn an_object_is_cleaned_up_as_a_type_and_waits_for_a_change_if_it_does_not_fit() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let (seen, cleaned) = (notes.clone(), notes.clone());
    let controller = Controller::for_("apps.x.io")
        .finalizer_as(NAME, move |app: App, context: Context| {
            cleaned.add(format!("clean up {} {}", context.key(), app.spec.n));
            async { Ok(Action::Done) }
        })
        .reconcile(move |app: Object, _: Context| {
            seen.add(app.name());
            async { Ok(Action::Done) }
        });
    let running = stage.run(controller);
    stage.create("a").await;
    notes.until(&["a"]).await;
    stage.patch("a", json!({"spec": {"n": "many"}})).await;
    notes.until(&["a", "a"]).await;
    stage.delete("a").await;
    eventually(async || {
        let errors = running
            .queue
            .dead_letters()
            .into_iter()
            .map(|letter| letter.error);
        let errors: Vec<String> = errors.collect();
        match errors.iter().any(|error| error.contains("does not fit the type")) {
            true => Ok(()),
            false => Err(format!("given up: {errors:?}")),
        }
    })
    .await;
    assert!(stage.apps().find("a").await.unwrap().is_some());
    stage.set("a", 3).await;
    until_gone(&stage, "a").await;
    assert_eq!(notes.all(), ["a", "a", "clean up default/a 3"]);
    running.stop().await;
}
