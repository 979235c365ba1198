//! Whether a change matches a rule.

use jiff::Timestamp;
use skopos_cel::EvalErrorKind;
use skopos_journal::Entry;
use skopos_object::Op;

use super::{
    compile::CompiledRule,
    condition::{Condition, Moment, States},
    edge::EdgeState,
    subject::Subject,
};

/// What a rule says about a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether it matches.
    pub matched: bool,
    /// What to keep for the object until its next change; nothing if there is nothing to remember, or the object is gone.
    pub edge: Option<EdgeState>,
    /// When to call [`CompiledRule::evaluate_timer`], unless the object changes before. May be in the past: then at once.
    pub wake_at: Option<Timestamp>,
    /// How many times a field was asked for that is not there, which counts as false.
    pub n_missing: u32,
    /// Why it could not be told. The change then does not match.
    pub error: Option<String>,
}

impl CompiledRule {
    /// Looks at a change. `edge` is what was kept for this object.
    ///
    /// Changes of an object must be given in order. What a timer is due for before the change happened is to be
    /// asked before it, with [`evaluate_timer`](Self::evaluate_timer).
    pub fn evaluate(&self, subject: &Subject<'_>, edge: Option<&EdgeState>) -> Evaluation {
        self.look(subject, edge, subject.entry().at, Moment::Change)
    }

    /// Looks at a state without matching: what is true already does not become true later.
    ///
    /// For objects that were there before the rule and are to be ignored.
    pub fn observe(&self, subject: &Subject<'_>, edge: Option<&EdgeState>) -> Evaluation {
        let entry = subject.entry();
        let seen = self.may_concern(entry);
        let Some(condition) = self.when.as_ref().filter(|when| seen && when.remembers()) else {
            return Evaluation::default();
        };
        let states = condition.states(subject, edge, entry.at, Moment::Change);
        let mut edge = states.edge;
        // A state that has been so for long enough is not told either.
        if let (Some(held), true) = (&mut edge.held, states.is_due) {
            held.fired = true;
        }
        Evaluation {
            edge: (entry.op != Op::Deleted).then_some(edge),
            wake_at: states.due.filter(|_| !states.is_due),
            n_missing: states.n_missing,
            ..Evaluation::default()
        }
    }

    /// Whether an object is of the kind and in the namespaces that the rule watches.
    pub fn may_concern(&self, entry: &Entry) -> bool {
        self.scope.is_kind(entry) && self.scope.namespaces.contain(&entry.key.namespace)
    }

    /// Looks at the last state of an object again, at the time that was asked for. Neither the events nor the fields of
    /// the rule count: nothing happened but time.
    pub fn evaluate_timer(&self, last: &Subject<'_>, edge: Option<&EdgeState>, now: Timestamp) -> Evaluation {
        self.look(last, edge, now, Moment::Timer)
    }

    fn look(
        &self,
        subject: &Subject<'_>,
        edge: Option<&EdgeState>,
        now: Timestamp,
        moment: Moment,
    ) -> Evaluation {
        let entry = subject.entry();
        if !self.may_concern(entry) {
            return Evaluation::default();
        }
        let condition = self.when.as_ref();
        let states = match condition {
            Some(condition) if condition.remembers() => condition.states(subject, edge, now, moment),
            _ => States::default(),
        };
        let counts = self.counts(subject, moment);
        let mut found = Evaluation {
            n_missing: states.n_missing,
            error: states.error.clone(),
            ..Evaluation::default()
        };
        if counts {
            self.decide(&mut found, subject, &states, now);
        }
        if condition.is_some_and(Condition::remembers) && entry.op != Op::Deleted {
            remember(&mut found, states, counts, moment);
        }
        found
    }

    /// Whether the change counts at all, before `when` is asked.
    fn counts(&self, subject: &Subject<'_>, moment: Moment) -> bool {
        let entry = subject.entry();
        let happened = || match moment {
            Moment::Timer => true,
            Moment::Change => self.scope.is_event(entry.op) && self.touches(subject),
        };
        self.scope.is_selected(entry) && happened() && self.scope.unmet_field(subject).is_none()
    }

    /// Whether a field that counts has changed; what comes or goes is a change as a whole.
    pub(crate) fn touches(&self, subject: &Subject<'_>) -> bool {
        let counts = || self.fields.counting(subject.changed()).next().is_some();
        subject.entry().op != Op::Updated || counts() || self.fields.may_hide(subject)
    }

    fn decide(&self, found: &mut Evaluation, subject: &Subject<'_>, states: &States, now: Timestamp) {
        let Some(condition) = &self.when else {
            found.matched = true;
            return;
        };
        match condition.eval(subject, states, now) {
            Ok(matched) => found.matched = matched && found.error.is_none(),
            Err(error) if error.kind() == EvalErrorKind::Missing => found.n_missing += 1,
            Err(error) => found.error = Some(error.to_string()),
        }
    }
}

/// What is kept, and when to ask again. `counts` says whether `when` was asked.
fn remember(found: &mut Evaluation, states: States, counts: bool, moment: Moment) {
    let mut edge = states.edge;
    if let (Some(held), true, true) = (&mut edge.held, states.is_due, found.matched) {
        held.fired = true;
    }
    found.wake_at = match (states.is_due, moment) {
        (false, _) => states.due,
        // The change itself was none for the rule, but the time has come all the same.
        (true, Moment::Change) if !counts => states.due,
        (true, _) => None,
    };
    found.edge = Some(edge);
}
