//! Deleting objects that ought not to be there.

use serde_json::json;
use skopos_client::WriteParams;
use skopos_controller::{Action, Context, Controller, Failure};
use skopos_object::{GroupVersionKind, Object};
use skopos_testkit::{Fault, Rule};

use crate::stage::{Notes, Stage};

/// Deletes the map of each app's name, if it is the one that a label names.
fn deleting(notes: &Notes) -> Controller {
    let notes = notes.clone();
    Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let notes = notes.clone();
        async move {
            let (kind, key) = (GroupVersionKind::new("", "v1", "ConfigMap"), app.key());
            let deleted = context.delete(&kind, &key, app.label("uid").as_deref()).await;
            let deleted = deleted.map_err(Failure::from);
            notes.add(match &deleted {
                Ok(()) => format!("{} is gone", app.name()),
                Err(failure) => failure.to_string(),
            });
            deleted.map(|()| Action::Done)
        }
    })
}

async fn make_map(stage: &Stage) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let made = stage.maps().create(&map, &WriteParams::default()).await.unwrap();
    made.value["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Makes an app that has the map of a UID deleted, or any.
async fn want_gone(stage: &Stage, uid: Option<&str>) {
    let labels = uid.map_or(json!({}), |uid| json!({"uid": uid}));
    let metadata = json!({"name": "a", "labels": labels});
    let app = json!({"apiVersion": "x.io/v1", "kind": "App", "metadata": metadata});
    stage.apps().create(&app, &WriteParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_is_deleted_by_its_name_or_its_uid() {
    for by_uid in [false, true] {
        let stage = Stage::new().await;
        let notes = Notes::default();
        let running = stage.run(deleting(&notes));
        let uid = make_map(&stage).await;
        want_gone(&stage, by_uid.then_some(uid.as_str())).await;
        notes.until(&["a is gone"]).await;
        assert_eq!(stage.maps().find("a").await.unwrap(), None);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_already_is_as_good_as_deleted() {
    for uid in [None, Some("u-1")] {
        let stage = Stage::new().await;
        let notes = Notes::default();
        let running = stage.run(deleting(&notes));
        want_gone(&stage, uid).await;
        notes.until(&["a is gone"]).await;
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_name_is_left_alone_and_no_error() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let running = stage.run(deleting(&notes));
    let uid = make_map(&stage).await;
    want_gone(&stage, Some("of-an-earlier-one")).await;
    notes.until(&["a is gone"]).await;
    let map = stage.maps().get("a").await.unwrap();
    assert_eq!(map["metadata"]["uid"], uid);
    running.stop().await;
}

/// A conflict of another sort, as of a server that says so for reasons of its own.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_although_it_means_this_object_is_tried_again() {
    let stage = Stage::new().await;
    let notes = Notes::default();
    let conflict = Rule::write().resource("configmaps");
    let conflict = stage.server.faults().add(conflict.then(Fault::conflict()));
    let running = stage.run(deleting(&notes));
    let uid = make_map(&stage).await;
    want_gone(&stage, Some(&uid)).await;
    notes.until_some().await;
    assert_eq!(notes.count("a is gone"), 0);
    conflict.remove();
    notes.until_count("a is gone", 1).await;
    assert_eq!(stage.maps().find("a").await.unwrap(), None);
    running.stop().await;
}
