//! What can be seen of a reconcile from outside: spans, from the change to the writes.
//!
//! Alone in its process: whether a span is wanted is decided once, for all tests of a process.

#![expect(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "made for more than this")]
#[path = "behaviour/stage.rs"]
mod stage;

use std::fmt;
use std::sync::{Arc, Mutex};

use serde_json::json;
use skopos_controller::{Action, Context, Controller, Failure};
use skopos_object::Object;
use skopos_testkit::eventually;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber, info};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use self::stage::{Notes, Stage};

/// Writes down which spans follow from which, and in which spans events are.
struct Observer(Notes);

/// The name of a span and its fields.
#[derive(Default)]
struct Label(String);

impl Visit for Label {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if matches!(field.name(), "object" | "op" | "method" | "message") {
            self.0 += &format!(" {value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Observer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        let mut label = Label(attributes.metadata().name().to_owned());
        attributes.record(&mut label);
        let span = context.span(id).unwrap();
        if let Some(parent) = span.parent() {
            let parent = parent.extensions().get::<Label>().map(|label| label.0.clone());
            self.0
                .add(format!("{} in {}", label.0, parent.unwrap_or_default()));
        }
        span.extensions_mut().insert(label);
    }

    fn on_follows_from(&self, span: &Id, follows: &Id, context: LayerContext<'_, S>) {
        let label = |id: &Id| {
            context
                .span(id)
                .unwrap()
                .extensions()
                .get::<Label>()
                .unwrap()
                .0
                .clone()
        };
        self.0
            .add(format!("{} follows from {}", label(span), label(follows)));
    }

    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        let mut label = Label::default();
        event.record(&mut label);
        if let Some(span) = context.event_span(event) {
            let span = span.extensions().get::<Label>().map(|label| label.0.clone());
            self.0
                .add(format!("said{} in {}", label.0, span.unwrap_or_default()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_trace_leads_from_the_change_through_the_reconcile_to_its_writes() {
    let notes = Notes::default();
    let subscriber = tracing_subscriber::registry().with(Observer(notes.clone()));
    // Everything runs on this thread.
    let _installed = tracing::subscriber::set_default(subscriber);
    let stage = Stage::new().await;
    let done = Arc::new(Mutex::new(0));
    let count = done.clone();
    let controller = Controller::for_("apps.x.io").reconcile(move |app: Object, context: Context| {
        let count = count.clone();
        async move {
            info!("hello");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": app.name()}});
            context.apply_owned(&map).await?;
            *count.lock().unwrap() += 1;
            Ok::<_, Failure>(Action::Done)
        }
    });
    let running = stage.run(controller);
    eventually(async || {
        if running.queue.n_running() == 0 {
            Ok(())
        } else {
            Err("busy")
        }
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    stage.create("a").await;
    eventually(async || {
        if *done.lock().unwrap() == 1 {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    for line in [
        "reconcile default/a follows from change Created default/a",
        "said hello in reconcile default/a",
        "request PATCH in reconcile default/a",
    ] {
        assert_eq!(notes.count(line), 1, "{line}: {:#?}", notes.all());
    }
    running.stop().await;
}
