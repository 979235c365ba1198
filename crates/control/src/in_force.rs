//! A rule in force, which knows as whom it acts.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
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
    confined: Option<Confined>,
}

/// A rule that writes objects of one namespace only.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) namespace: String,
    /// Which of its actions write objects.
    pub(crate) writes: Vec<bool>,
}

impl InForce {
    pub(crate) fn new(
        rule: Arc<CompiledRule>,
        account: Option<ServiceAccount>,
        confined: Option<Confined>,
    ) -> Self {
        Self {
            rule,
            account,
            confined,
        }
    }
}

impl Confined {
    /// Refuses an object of another namespace.
    fn check(&self, action: usize, event: &Event) -> Result<(), String> {
        if !self.writes.get(action).copied().unwrap_or_default() {
            return Ok(());
        }
        let object: Value = serde_json::from_slice(&event.data).unwrap_or_default();
        match object["metadata"]["namespace"].as_str() {
            Some(named) if named != self.namespace => Err(format!(
                "the object is of the namespace {named:?}, and a rule in {:?} writes only there: name a \
                 serviceAccountName that may do more",
                self.namespace
            )),
            _ => Ok(()),
        }
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
        if let Some(confined) = &self.confined {
            confined.check(action, &event)?;
        }
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
