//! A rule in force, which knows since when it is there.

use std::sync::Arc;

use jiff::Timestamp;
use skopos_client::ServiceAccount;
use skopos_journal::{Entry, Wanted};
use skopos_react::{
    Evaluated, Evaluator, Trigger,
    rule::{CompiledRule, Subject},
};
use skopos_sink::Event;

/// A rule in force.
#[derive(Debug)]
pub(crate) struct InForce {
    rule: Arc<CompiledRule>,
    /// Since when the rule is there. What was there before does not concern it, unless it says so.
    since: Option<Timestamp>,
    /// As whom it acts, if not as Skopos itself.
    account: Option<ServiceAccount>,
}

impl InForce {
    pub(crate) fn new(
        rule: Arc<CompiledRule>,
        since: Option<Timestamp>,
        account: Option<ServiceAccount>,
    ) -> Self {
        Self { rule, since, account }
    }

    /// Whether an object that the first list of its kind showed was made after the rule.
    fn is_news(&self, entry: &Entry) -> bool {
        let created = entry
            .after
            .as_ref()
            .and_then(|object| object.get(&["metadata", "creationTimestamp"]));
        let created: Option<Timestamp> = created.and_then(|at| at.as_str()?.parse().ok());
        // Both are to the second: what was made in the same one counts, since nothing may be missed.
        matches!((created, self.since), (Some(created), Some(since)) if created >= since)
    }
}

impl Evaluator for InForce {
    fn evaluate(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        Evaluator::evaluate(&*self.rule, subject, edge, now)
    }

    fn observe(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        match self.is_news(subject.entry()) {
            true => Evaluator::evaluate(&*self.rule, subject, edge, now),
            false => Evaluator::observe(&*self.rule, subject, edge, now),
        }
    }

    fn wake(&self, last: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        self.rule.wake(last, edge, now)
    }

    fn render(&self, action: usize, entry: &Entry, trigger: Trigger) -> Result<Event, String> {
        let event = self.rule.render(action, entry, trigger)?;
        Ok(Event {
            account: self.account.clone(),
            ..event
        })
    }

    fn wanted(&self) -> Wanted {
        Evaluator::wanted(&*self.rule)
    }

    fn remembers(&self) -> bool {
        Evaluator::remembers(&*self.rule)
    }
}
