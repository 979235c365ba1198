//! How a controller stops.

use std::time::Duration;

use skopos_controller::{Action, Context, Controller, Failure};
use skopos_object::Object;
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
    let running = stage.run(slow(&notes, Duration::from_secs(20)));
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
