//! One attempt to deliver a batch.

use std::{fmt::Write as _, sync::Arc};

use jiff::Timestamp;
use skopos_journal::{Entry, ReadError, TRACE_TARGET};
use skopos_sink::{Event, Failure, Sent};
use tokio::time::timeout;
use tracing::{Instrument as _, Span};

use crate::delivery::{
    entries::find,
    lanes::{Fate, Row},
    plan::Settings,
    shared::{Directed, Route, Shared},
};

/// What an attempt needs to know.
pub(super) struct Attempt {
    pub(super) shared: Arc<Shared>,
    pub(super) sink: String,
    pub(super) directed: Directed,
    pub(super) settings: Arc<Settings>,
    /// So often the first row failed before; all others never did.
    pub(super) n_failed: u32,
}

/// A batch has no more events once their data has so many bytes: the others go with the next one.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// What became of an attempt.
pub(super) struct Told {
    /// Of each row.
    pub(super) fates: Vec<Fate>,
    /// The rule and what went wrong, if something did.
    pub(super) trouble: Option<(String, String)>,
}

/// A batch, row by row: what is already decided, and what is sent.
#[derive(Default)]
struct Prepared {
    /// Of each row: decided, or sent.
    fates: Vec<Option<Fate>>,
    events: Vec<Event>,
    /// Of the data of these events.
    n_bytes: usize,
    rules: Vec<String>,
    observed: Vec<Timestamp>,
    spans: Vec<Span>,
    /// When the first of them was made.
    began: Option<Timestamp>,
}

impl Attempt {
    pub(super) async fn run(self, rows: Vec<Row>) -> Told {
        let mut prepared = self.prepare(&rows).await;
        let first_rule = || rows.first().and_then(|row| self.directed.routes.get(&row.route));
        let mut trouble = prepared.fates.iter().flatten().find_map(|fate| match fate {
            Fate::Refused(error) | Fate::Failed { error, .. } => {
                let rule = first_rule().map(|route| route.name.clone());
                Some((rule.unwrap_or_default(), error.clone()))
            }
            Fate::Delivered | Fate::Untouched => None,
        });
        let mut sent = Vec::new();
        if !prepared.events.is_empty() {
            let outcome = self.send(&prepared).await;
            sent = fates(outcome, prepared.events.len());
            self.note(&prepared, &sent);
            let failed = sent.iter().enumerate().find_map(|(place, fate)| match fate {
                Fate::Refused(error) | Fate::Failed { error, .. } => {
                    Some((prepared.rules[place].clone(), error.clone()))
                }
                Fate::Delivered | Fate::Untouched => None,
            });
            trouble = failed.or(trouble);
        }
        let mut sent = sent.into_iter();
        let mut has_stopped = false;
        let mut fates = Vec::new();
        for decided in std::mem::take(&mut prepared.fates) {
            fates.push(match decided {
                // Rows before it were not sent: it has to wait for them.
                Some(_) if has_stopped => Fate::Untouched,
                Some(fate) => fate,
                None => {
                    let fate = sent.next().unwrap_or(Fate::Untouched);
                    has_stopped |= fate != Fate::Delivered;
                    fate
                }
            });
        }
        Told { fates, trouble }
    }

    async fn prepare(&self, rows: &[Row]) -> Prepared {
        let mut prepared = Prepared::default();
        for row in rows {
            let fate = match self.directed.routes.get(&row.route) {
                Some(route) => self.prepare_row(row, route, &mut prepared).await.err(),
                None => Some(Fate::Untouched),
            };
            let stops = matches!(fate, Some(Fate::Failed { .. } | Fate::Untouched));
            prepared.fates.push(fate);
            if stops || prepared.n_bytes >= MAX_BATCH_BYTES {
                break;
            }
        }
        prepared.fates.resize(rows.len(), Some(Fate::Untouched));
        prepared
    }

    /// Finds the change and makes what is sent.
    async fn prepare_row(&self, row: &Row, route: &Route, prepared: &mut Prepared) -> Result<(), Fate> {
        let evaluator = &route.planned.evaluator;
        let entry = match find(&*self.shared.log, row, &evaluator.wanted()).await {
            Ok(Some(entry)) => entry,
            Ok(None) => return Err(Fate::Refused(format!("change {} is no longer kept", row.seq))),
            Err(error @ ReadError::Storage(_)) => {
                return Err(Fate::Failed {
                    retry_after: None,
                    error: chain(&error),
                });
            }
            Err(error) => return Err(Fate::Refused(chain(&error))),
        };
        let action = route.planned.action(&self.sink, usize::from(row.action));
        let action = action.ok_or_else(|| Fate::Refused("the rule no longer has an action for it".into()))?;
        let mut event = evaluator
            .render(action, &entry, row.cause.trigger())
            .map_err(|error| Fate::Refused(format!("cannot make the event: {error}")))?;
        let (size, most) = (event.data.len(), self.settings.max_bytes);
        if size > most {
            return Err(Fate::Refused(format!(
                "the event has {size} bytes, more than {most}"
            )));
        }
        let began = *prepared.began.get_or_insert_with(|| self.shared.now());
        let attempt = match prepared.events.is_empty() {
            true => self.n_failed + 1,
            false => 1,
        };
        let span = self.trace(row, &entry, &route.name, (attempt, began), &mut event);
        prepared.spans.push(span);
        prepared.rules.push(route.name.clone());
        prepared.n_bytes += event.data.len();
        prepared.events.push(event);
        prepared.observed.push(entry.at);
        Ok(())
    }

    /// Opens the span of an attempt, and tells the receiver how to go on from it.
    fn trace(
        &self,
        row: &Row,
        entry: &Entry,
        rule: &str,
        (attempt, began): (u32, Timestamp),
        event: &mut Event,
    ) -> Span {
        let change = entry.id();
        let trace = change.trace_id();
        let span = trace.delivery(&event.id, rule, &self.sink, attempt, began);
        event.traceparent = Some(trace.traceparent(span, self.shared.config.sampling));
        tracing::info_span!(
            target: TRACE_TARGET,
            "deliver",
            trace_id = %trace,
            span_id = %span,
            parent_span_id = %trace.matched(rule, row.cause.name()),
            change.id = %change,
            id = event.id,
            rule,
            sink = self.sink,
            object.kind = entry.kind.kind,
            object.namespace = entry.key.namespace,
            object.name = entry.key.name,
            seq = entry.seq.0,
            observed_at = %entry.at,
            attempt,
        )
    }

    async fn send(&self, prepared: &Prepared) -> Sent {
        let destination = &self.directed.sink.destination;
        // All spans stay open until the answer is there; what is logged meanwhile belongs to the first.
        let span = prepared.spans.first().cloned().unwrap_or_else(Span::none);
        let sending = destination.send(&prepared.events).instrument(span);
        match timeout(self.settings.timeout, sending).await {
            Ok(sent) => sent,
            Err(_) => {
                let after = self.settings.timeout;
                Sent::failed(0, Failure::unavailable(format!("no answer within {after:?}")))
            }
        }
    }

    fn note(&self, prepared: &Prepared, fates: &[Fate]) {
        let now = self.shared.now();
        let since = |at: Timestamp| now.duration_since(at).as_millis_f64();
        let deliver_ms = prepared.began.map_or(0.0, since);
        for (place, fate) in fates.iter().enumerate() {
            let span = &prepared.spans[place];
            match fate {
                Fate::Delivered => {
                    let lag = now.duration_since(prepared.observed[place]).as_secs_f64();
                    self.shared.latency.observe(lag.max(0.0));
                    let total_ms = since(prepared.observed[place]);
                    tracing::debug!(target: TRACE_TARGET, parent: span, deliver_ms, total_ms, "delivered");
                }
                Fate::Refused(error) | Fate::Failed { error, .. } => {
                    tracing::debug!(target: TRACE_TARGET, parent: span, deliver_ms, error, "not delivered");
                }
                Fate::Untouched => {}
            }
        }
    }
}

/// What a call's outcome means for each of its events.
fn fates(sent: Sent, n_events: usize) -> Vec<Fate> {
    let n_delivered = sent.n_delivered.min(n_events);
    let mut fates = vec![Fate::Delivered; n_delivered];
    if n_delivered < n_events {
        fates.push(match sent.failure {
            Some(Failure::Refused(source)) => Fate::Refused(chain(&*source)),
            Some(Failure::Unavailable { retry_after, source }) => Fate::Failed {
                retry_after,
                error: chain(&*source),
            },
            None if n_delivered > 0 => Fate::Untouched,
            None => Fate::Failed {
                retry_after: None,
                error: "the destination did not take it and does not say why".into(),
            },
        });
    }
    fates.resize(n_events, Fate::Untouched);
    fates
}

/// An error and what is behind it, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        write!(text, ": {error}").ok();
        source = error.source();
    }
    text
}
