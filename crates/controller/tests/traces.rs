//! What can be seen of a reconcile from outside: spans, from the change to the writes, and the log.
//!
//! Alone in its process: whether a span is wanted is decided once, for all tests of a process.

#![expect(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "made for more than this")]
#[path = "behaviour/stage.rs"]
mod stage;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use skopos_controller::{Action, Context, Controller, ControllerConfig, Failure};
use skopos_object::{Object, ObjectKey};
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

/// One test at a time: see above.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_line_of_a_reconcile_in_a_json_log_names_its_object() {
    let _alone = ALONE.lock().await;
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let _installed = tracing::subscriber::set_default(subscriber);
    let mut stage = Stage::new().await;
    stage.config.grace = Duration::from_secs(1);
    let config = ControllerConfig {
        timeout: Duration::from_secs(5),
        ..ControllerConfig::default()
    };
    let controller = Controller::for_("apps.x.io")
        .with(config)
        .when_gone(|key: ObjectKey, _| async move { end_as(&key.name).await })
        .reconcile(|app: Object, _: Context| async move {
            match app.name().strip_prefix("gone-") {
                Some(_) => Ok(Action::Done),
                None => end_as(app.name()).await,
            }
        });
    let running = stage.run(controller);
    for end in ["done", "fails", "panics", "hangs", "terminal"] {
        stage.create(end).await;
        stage.create(&format!("gone-{end}")).await;
        stage.delete(&format!("gone-{end}")).await;
    }
    eventually(async || {
        let failed = running.metric("controller_runtime_reconcile_errors_total");
        let timeouts = running.metric("controller_runtime_reconcile_timeouts_total");
        if failed >= 10.0 && timeouts >= 2.0 {
            Ok(())
        } else {
            Err(format!("{failed} failed, {timeouts} took too long"))
        }
    })
    .await;
    running.stop().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (message, ends) in [
        ("ours", &["done", "fails", "hangs", "panics", "terminal"][..]),
        ("reconciled", &["done"]),
        ("cannot reconcile; trying again", &["fails"]),
        ("the reconciler panicked", &["panics"]),
        (
            "cannot reconcile; not tried again before the object changes",
            &["terminal"],
        ),
        ("the reconcile took too long and was cancelled", &["hangs"]),
        (
            "the reconcile was cancelled: this replica no longer leads, or stops",
            &["hangs"],
        ),
    ] {
        let of_message = lines.iter().filter(|line| line["fields"]["message"] == message);
        let objects: BTreeSet<String> = of_message
            .map(|line| reconciled(line).unwrap_or_else(|| panic!("no object in {line:#}")))
            .collect();
        for end in ends {
            for object in [format!("default/{end}"), format!("default/gone-{end}")] {
                assert!(objects.contains(&object), "{message} of {object}: {objects:?}");
            }
        }
    }
}

/// Who keeps only warnings still has to know which object each is about.
#[tokio::test(start_paused = true)]
async fn a_warning_names_its_object_in_a_log_of_nothing_but_warnings() {
    let _alone = ALONE.lock().await;
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .finish();
    let _installed = tracing::subscriber::set_default(subscriber);
    let stage = Stage::new().await;
    let controller = Controller::for_("apps.x.io")
        .reconcile(|app: Object, _: Context| async move { end_as(app.name()).await });
    let running = stage.run(controller);
    stage.create("fails").await;
    eventually(
        async || match running.metric("controller_runtime_reconcile_errors_total") {
            0.0 => Err("none has failed"),
            _ => Ok(()),
        },
    )
    .await;
    running.stop().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut failed = lines.filter(|line| line["fields"]["message"] == "cannot reconcile; trying again");
    let line = failed.next().unwrap();
    assert_eq!(reconciled(&line).as_deref(), Some("default/fails"), "{line}");
}

/// Ends as the name says.
async fn end_as(name: &str) -> Result<Action, Failure> {
    info!("ours");
    match name.strip_prefix("gone-").unwrap_or(name) {
        "fails" => Err(Failure::new("not today")),
        "terminal" => Err(Failure::terminal("never")),
        "panics" => panic!("oh no"),
        "hangs" => std::future::pending().await,
        _ => Ok(Action::Done),
    }
}

/// The object of the reconcile in which a line was logged, as a reader of the log finds it.
fn reconciled(line: &Value) -> Option<String> {
    let spans = line["spans"].as_array()?;
    let reconcile = spans.iter().find(|span| span["name"] == "reconcile")?;
    assert_eq!(reconcile["controller"], "apps.x.io", "{line}");
    let is_known = reconcile["uid"].is_string() || reconcile["gone"] == true;
    assert!(is_known && reconcile["attempt"].is_number(), "{line}");
    reconcile["object"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_trace_leads_from_the_change_through_the_reconcile_to_its_writes() {
    let _alone = ALONE.lock().await;
    let notes = Notes::default();
    let subscriber = tracing_subscriber::registry().with(Observer(notes.clone()));
    // Everything runs on this thread.
    let _installed = tracing::subscriber::set_default(subscriber);
    let stage = Stage::new().await;
    let done = Arc::new(Mutex::new(0));
    let count = done.clone();
    let count_gone = done.clone();
    let controller = Controller::for_("apps.x.io")
        .when_gone(move |_, _| {
            *count_gone.lock().unwrap() += 1;
            async { Ok::<_, Failure>(Action::Done) }
        })
        .reconcile(move |app: Object, context: Context| {
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
    tokio::time::sleep(Duration::from_secs(1)).await;
    let until_done = async |n: i32| {
        eventually(async || {
            if *done.lock().unwrap() == n {
                Ok(())
            } else {
                Err("not yet")
            }
        })
        .await;
    };
    stage.create("a").await;
    until_done(1).await;
    stage.delete("a").await;
    until_done(2).await;
    for line in [
        "reconcile default/a follows from change Deleted default/a",
        "reconcile default/a follows from change Created default/a",
        "said hello in reconcile default/a",
        "request PATCH in reconcile default/a",
    ] {
        assert_eq!(notes.count(line), 1, "{line}: {:#?}", notes.all());
    }
    assert_eq!(
        running.metric("skopos_controller_reconcile_lag_seconds_count"),
        2.0
    );
    running.stop().await;
}
