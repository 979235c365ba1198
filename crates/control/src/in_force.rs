//! A rule in force, which knows as whom it acts.

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
    /// As whom it acts, if not as Skopos itself.
    account: Option<ServiceAccount>,
}

impl InForce {
    pub(crate) fn new(rule: Arc<CompiledRule>, account: Option<ServiceAccount>) -> Self {
        Self { rule, account }
    }
}

impl Evaluator for InForce {
    fn evaluate(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        Evaluator::evaluate(&*self.rule, subject, edge, now)
    }

    fn observe(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        Evaluator::observe(&*self.rule, subject, edge, now)
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
