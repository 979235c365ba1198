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

    fn may_concern(&self, entry: &Entry) -> bool {
        Evaluator::may_concern(&*self.rule, entry)
    }

    fn remembers(&self) -> bool {
        Evaluator::remembers(&*self.rule)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skopos_journal::{Observed, Seq};
    use skopos_object::{GroupVersionKind, ObjectKey, Op};
    use skopos_react::rule::Origin;

    use super::*;

    /// Whether a rule for two namespaces counts an object of this one that cannot be read.
    fn concerns(namespace: &str) -> bool {
        let watch = json!({"group": "example.com", "kind": "Widget", "namespaces": ["shop", "billing"]});
        let spec = serde_json::from_value(json!({"watch": watch, "do": [{"sink": "out"}]})).unwrap();
        let rule = CompiledRule::compile(Origin::file("default", "all"), &spec, None).unwrap();
        let entry = Entry {
            seq: Seq(1),
            at: Timestamp::UNIX_EPOCH,
            op: Op::Created,
            source: "kubernetes".into(),
            kind: GroupVersionKind::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            key: ObjectKey::namespaced(namespace, "a"),
            uid: String::new(),
            version: Default::default(),
            observed: Observed::First,
            by: Vec::new(),
            before: None,
            after: None,
        };
        InForce::new(Arc::new(rule), None, None).may_concern(&entry)
    }

    #[test]
    fn a_damaged_object_of_a_namespace_that_a_rule_does_not_see_is_not_missed() {
        assert!(concerns("shop"));
        assert!(!concerns("home"));
    }
}
