//! What can be seen of changes on their way into the journal: the root of the trace of each.

use jiff::Timestamp;
use tracing::{Level, Span};

use super::follow::Follower;
use crate::{ChangeId, TRACE_TARGET, commit::Draft, record::Meta, state::About};

/// Changes on their way, each with its span; none unless someone wants to see them.
pub(super) struct Traced {
    taken_at: Timestamp,
    spans: Vec<Span>,
}

impl Follower {
    /// Opens the spans of changes that are about to be written down, and were taken in at `taken_at`.
    pub(super) fn trace(&self, drafts: &[Draft], taken_at: Timestamp) -> Traced {
        let mut spans = Vec::new();
        if tracing::enabled!(target: TRACE_TARGET, Level::DEBUG) {
            let state = self.shared.journal.shared.read();
            for draft in drafts {
                if let Draft::Change(meta, _) = draft
                    && let Some(collection) = state.get(meta.collection)
                {
                    spans.push(span(meta, &collection.about, taken_at));
                }
            }
        }
        Traced { taken_at, spans }
    }
}

impl Traced {
    /// They are durable, and known to everyone who reads the journal.
    pub(super) fn durable(self, now: Timestamp) {
        let capture_ms = now.duration_since(self.taken_at).as_millis_f64();
        for span in self.spans {
            tracing::debug!(target: TRACE_TARGET, parent: &span, durable_at = %now, capture_ms, "durable");
        }
    }
}

fn span(meta: &Meta, about: &About, observed_at: Timestamp) -> Span {
    let id = ChangeId::new(meta.op, &about.plural, &meta.key, &meta.uid, &meta.version);
    let trace = id.trace_id();
    // Whatever span this happens in: a trace begins here.
    tracing::debug_span!(
        target: TRACE_TARGET,
        parent: None,
        "capture",
        trace_id = %trace,
        span_id = %trace.capture(),
        change.id = %id,
        object.kind = about.kind.kind,
        object.namespace = meta.key.namespace,
        object.name = meta.key.name,
        observed = ?meta.observed,
        observed_at = %observed_at,
    )
}
