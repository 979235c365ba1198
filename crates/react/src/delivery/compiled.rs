//! A compiled rule as the engine sees it.

use std::sync::Arc;

use jiff::Timestamp;
use skopos_api::RuleSpec;
use skopos_journal::{Entry, Wanted};
use skopos_sink::Event;

use super::{Evaluated, Evaluator, Outcome, PlannedRule, Trigger};
use crate::rule::{Cause, CompiledRule, EdgeState, Evaluation, Subject};

impl Evaluator for CompiledRule {
    fn evaluate(&self, subject: &Subject<'_>, edge: Option<&[u8]>, _now: Timestamp) -> Evaluated {
        evaluated(self.evaluate(subject, read(edge).as_ref()))
    }

    fn observe(&self, subject: &Subject<'_>, edge: Option<&[u8]>, _now: Timestamp) -> Evaluated {
        evaluated(self.observe(subject, read(edge).as_ref()))
    }

    fn wake(&self, last: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        evaluated(self.evaluate_timer(last, read(edge).as_ref(), now))
    }

    fn render(&self, action: usize, entry: &Entry, trigger: Trigger) -> Result<Event, String> {
        let cause = match trigger {
            Trigger::Existing if self.reconciles => Cause::Reconciled,
            Trigger::Change | Trigger::Existing => Cause::Change,
            Trigger::Held => Cause::Held,
        };
        // How large an event may be is a matter of the sink, which the engine looks at.
        let event = self.event(&Subject::new(entry), cause, action, usize::MAX);
        event.map_err(|error| error.to_string())
    }

    fn wanted(&self) -> Wanted {
        self.wanted()
    }

    fn may_concern(&self, entry: &Entry) -> bool {
        self.may_concern(entry)
    }

    fn remembers(&self) -> bool {
        self.remembers()
    }
}

impl PlannedRule {
    /// A compiled rule as its specification has it. Its sinks are those of its own namespace.
    pub fn compiled(rule: Arc<CompiledRule>, spec: &RuleSpec, generation: i64) -> Self {
        let namespace = rule.name();
        let namespace = namespace.split_once('/').map_or("", |(namespace, _)| namespace);
        Self {
            generation,
            uid: String::new(),
            since: None,
            edges: rule.fingerprint(),
            actions: rule.sinks().map(|sink| format!("{namespace}/{sink}")).collect(),
            existing: spec.existing,
            limits: spec.limits.clone(),
            dry_run: spec.dry_run,
            suspend: spec.suspend,
            writes_objects: false,
            evaluator: rule,
        }
    }
}

fn read(edge: Option<&[u8]>) -> Option<EdgeState> {
    edge.and_then(EdgeState::from_bytes)
}

fn evaluated(said: Evaluation) -> Evaluated {
    Evaluated {
        outcome: match said.error {
            Some(error) => Outcome::Failed(error),
            None if said.matched => Outcome::Match,
            None => Outcome::Skip,
        },
        edge: said.edge.map(|edge| edge.to_bytes()),
        wake_at: said.wake_at,
    }
}
