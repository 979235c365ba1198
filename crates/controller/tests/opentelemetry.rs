//! What an OpenTelemetry backend sees of a reconcile: the change, linked with the reconcile, and its requests.
//!
//! Alone in its process: whether a span is wanted is decided once, for all tests of a process.

#![expect(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "made for more than this")]
#[path = "behaviour/stage.rs"]
mod stage;

use std::collections::HashSet;

use opentelemetry::trace::{SpanId, TraceId, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use skopos_controller::{Action, Context, Controller, Failure};
use skopos_object::Object;
use skopos_testkit::eventually;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use self::stage::Stage;

/// The finished spans of this name that are about an object.
fn find<'a>(spans: &'a [SpanData], name: &str, object: &str) -> Vec<&'a SpanData> {
    let is_about = |span: &&SpanData| {
        let mut pairs = span.attributes.iter();
        pairs.any(|pair| pair.key.as_str() == "object" && pair.value.as_str() == object)
    };
    spans
        .iter()
        .filter(|span| span.name == name)
        .filter(is_about)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_change_each_attempt_and_its_writes_are_exported_and_linked() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    // As the guide says.
    let exported = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("skopos_informer", LevelFilter::OFF);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("skopos"))
        .with_filter(exported);
    // Everything runs on this thread.
    let _installed = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let stage = Stage::new().await;
    let controller = Controller::for_("apps.x.io").reconcile(|app: Object, context: Context| async move {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": app.name()}});
        context.apply_owned(&map).await?;
        match context.attempt() {
            1 | 2 => Err(Failure::new("not today")),
            _ => Ok(Action::Done),
        }
    });
    let running = stage.run(controller);
    stage.create("a").await;
    eventually(async || {
        let spans = exporter.get_finished_spans().unwrap();
        match find(&spans, "reconcile", "default/a").len() {
            3.. => Ok(()),
            n => Err(n),
        }
    })
    .await;
    let n_lags = running.metric("skopos_controller_reconcile_lag_seconds_count");
    running.stop().await;
    let spans = exporter.get_finished_spans().unwrap();
    let of_caches = spans.iter().filter(|span| span.name == "follow");
    assert_eq!(of_caches.count(), 0, "they are as long as the process");
    let changes = find(&spans, "change", "default/a");
    assert_eq!(changes.len(), 1, "{spans:#?}");
    assert_eq!(changes[0].parent_span_id, SpanId::INVALID);
    let leads_to_change = |link: &opentelemetry::trace::Link| link.span_context == changes[0].span_context;
    let reconciles = find(&spans, "reconcile", "default/a");
    let traces = reconciles.iter().map(|span| span.span_context.trace_id());
    let traces: HashSet<TraceId> = traces.collect();
    assert_eq!(traces.len(), 3, "each attempt is a trace of its own");
    for reconcile in reconciles {
        assert_eq!(reconcile.parent_span_id, SpanId::INVALID, "{reconcile:#?}");
        assert!(
            reconcile.links.iter().any(leads_to_change),
            "{:?}",
            reconcile.links
        );
        let mut attributes = reconcile.attributes.iter();
        assert!(attributes.any(|pair| pair.key.as_str() == "waited_ms"));
        let is_write = |span: &&SpanData| {
            span.name == "request"
                && span.parent_span_id == reconcile.span_context.span_id()
                && span.span_context.trace_id() == reconcile.span_context.trace_id()
        };
        assert!(spans.iter().filter(is_write).count() >= 1, "{spans:#?}");
    }
    assert_eq!(n_lags, 1.0, "only the first attempt sees it for the first time");
}
