//! Takes the parts of traces out of everything that is traced.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use skopos_journal::TRACE_TARGET;
use tracing::{
    Event, Level, Metadata, Subscriber,
    level_filters::LevelFilter,
    span::{Attributes, Id},
    subscriber::Interest,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, Filter},
    registry::LookupSpan,
};

use crate::{
    exporter::Shared,
    span::{Fields, Span},
};

/// Takes spans of [`TRACE_TARGET`] as they close. Whatever happens, nobody waits here.
pub(crate) struct Taking(pub(crate) Arc<Shared>);

impl<S> Layer<S> for Taking
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let begun = Span::begin(attributes.metadata().name(), fields, Timestamp::now());
        if let Some(begun) = begun
            && self.0.sampling.keeps(begun.trace)
            && let Some(span) = context.span(id)
        {
            span.extensions_mut().insert(begun);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else {
            return;
        };
        if let Some(begun) = span.extensions_mut().get_mut::<Span>() {
            let mut fields = Fields::default();
            event.record(&mut fields);
            begun.add(fields, Timestamp::now());
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let begun = context
            .span(&id)
            .and_then(|span| span.extensions_mut().remove::<Span>());
        if let Some(ended) = begun.and_then(|begun| begun.end(Timestamp::now())) {
            self.0.queue.push(ended);
        }
    }
}

impl fmt::Debug for Taking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taking").finish_non_exhaustive()
    }
}

/// What belongs to the traces of changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfTraces;

fn is_of_traces(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TRACE_TARGET && *metadata.level() <= Level::DEBUG
}

impl<S> Filter<S> for OfTraces {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_of_traces(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Not `always`, so that `enabled` is asked each time: what filters of several layers answer is kept by thread, and
        // an answer to `tracing::enabled!` stays there, which would else be taken for that of the next span.
        match is_of_traces(metadata) {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

#[cfg(test)]
mod tests {
    use skopos_journal::Sampling;
    use tracing_subscriber::{fmt as log, layer::SubscriberExt as _};

    use super::*;
    use crate::span::{Part, Value};

    const TRACE: &str = "552f733fedd31ca20f010639b6cc560e";

    /// What is taken while something happens, beside a log that shows none of it.
    fn taken(sampling: Sampling, happen: impl FnOnce()) -> Vec<Span> {
        taken_beside(LevelFilter::WARN, sampling, happen)
    }

    fn taken_beside(logged: LevelFilter, sampling: Sampling, happen: impl FnOnce()) -> Vec<Span> {
        let shared = Arc::new(Shared::new(sampling));
        let layer = Taking(shared.clone()).with_filter(OfTraces);
        let log = log::layer().with_writer(std::io::sink).with_filter(logged);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log).with(layer), happen);
        shared.queue.take(usize::MAX)
    }

    fn delivery(error: Option<&str>) {
        let span = tracing::info_span!(
            target: TRACE_TARGET, "deliver", trace_id = %TRACE, span_id = %"00000000000000b7",
            parent_span_id = %"00000000000000a1", sink = "ops/hook", attempt = 2_u32,
        );
        match error {
            Some(error) => {
                tracing::debug!(target: TRACE_TARGET, parent: &span, deliver_ms = 1.5, error, "not delivered");
            }
            None => tracing::debug!(target: TRACE_TARGET, parent: &span, deliver_ms = 1.5, "delivered"),
        }
    }

    #[test]
    fn a_span_is_taken_when_it_closes_with_all_that_is_known_of_it() {
        let [span] = <[_; 1]>::try_from(taken(Sampling::default(), || delivery(Some("busy")))).unwrap();
        assert_eq!(span.trace.to_string(), TRACE);
        assert_eq!(span.id.to_string(), "00000000000000b7");
        assert_eq!(span.parent.unwrap().to_string(), "00000000000000a1");
        assert_eq!((span.part, span.error.as_deref()), (Part::Deliver, Some("busy")));
        let keys: Vec<_> = span.attributes.iter().map(|one| one.key).collect();
        assert_eq!(keys, ["sink", "attempt"]);
        assert_eq!(span.attributes[1].value, Value::Integer(2));
        assert_eq!(span.events[0].name, "not delivered");
        assert_eq!(span.events[0].attributes[0].value, Value::Number(1.5));
        assert!(span.started <= span.events[0].at && span.events[0].at <= span.ended);
    }

    #[test]
    fn a_capture_begins_when_the_change_was_observed() {
        let spans = taken(Sampling::default(), || {
            let span = tracing::debug_span!(
                target: TRACE_TARGET, "capture", trace_id = %TRACE, span_id = %"00000000000000a0",
                observed_at = %"2026-01-02T03:04:05.678Z",
            );
            tracing::debug!(target: TRACE_TARGET, parent: &span, "durable");
        });
        assert_eq!(spans[0].started.to_string(), "2026-01-02T03:04:05.678Z");
        assert_eq!(spans[0].parent, None);
    }

    #[test]
    fn other_spans_and_events_are_left_alone() {
        let spans = taken(Sampling::default(), || {
            let other = tracing::error_span!("deliver", trace_id = %TRACE, span_id = %"00000000000000b7");
            let _inside = other.enter();
            tracing::error!("delivered");
            tracing::debug!(target: TRACE_TARGET, parent: &other, "delivered");
            // Without ids it is no part of a trace.
            let nameless = tracing::info_span!(target: TRACE_TARGET, "deliver", trace_id = "?");
            tracing::debug!(target: TRACE_TARGET, parent: &nameless, "delivered");
            // It was not sent, and will be.
            drop(tracing::info_span!(
                target: TRACE_TARGET, "deliver", trace_id = %TRACE, span_id = %"00000000000000b7"
            ));
        });
        assert_eq!(spans, []);
    }

    /// With filters per layer, what `enabled!` found stayed and became the answer for the next span that both wanted.
    #[test]
    fn a_question_before_does_not_hide_a_span() {
        for logged in [LevelFilter::WARN, LevelFilter::DEBUG] {
            let spans = taken_beside(logged, Sampling::default(), || {
                for _ in 0..2 {
                    let _ = tracing::enabled!(target: "elsewhere", Level::DEBUG);
                    delivery(None);
                    let _ = tracing::enabled!(target: TRACE_TARGET, Level::DEBUG);
                    tracing::warn!("something else");
                    delivery(None);
                }
            });
            assert_eq!(spans.len(), 4, "{logged}");
        }
    }

    #[test]
    fn only_traces_that_are_sampled_are_taken() {
        assert_eq!(taken(Sampling::share(0.05).unwrap(), || delivery(None)), []);
        assert_eq!(taken(Sampling::share(0.07).unwrap(), || delivery(None)).len(), 1);
    }
}
