//! What the engine asks of a compiled rule.

use std::fmt;

use jiff::Timestamp;
use skopos_journal::{Entry, Wanted};
use skopos_sink::Event;

use crate::rule::Subject;

/// Decides which changes matter and what is sent for them.
///
/// Everything it says depends on its arguments alone: after a crash the engine asks again and must hear the same.
pub trait Evaluator: Send + Sync + fmt::Debug {
    /// Looks at one change. `edge` is what was kept for this object by the last answer; `now` is when the change was
    /// written down, not when it is looked at.
    fn evaluate(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated;

    /// Looks at the state of an object that was there before the rule and is to be ignored: nothing matches, but what is
    /// true already is known to be.
    fn observe(&self, subject: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated {
        Evaluated {
            outcome: Outcome::Skip,
            ..self.evaluate(subject, edge, now)
        }
    }

    /// The time that an answer asked for has come, and the object has not changed since `last`. `now` is that time.
    fn wake(&self, last: &Subject<'_>, edge: Option<&[u8]>, now: Timestamp) -> Evaluated;

    /// Makes what is sent, just before it is sent.
    fn render(&self, action: usize, entry: &Entry, trigger: Trigger) -> Result<Event, String>;

    /// Which changes it can match at all. Everything else need not be read for it.
    fn wanted(&self) -> Wanted {
        Wanted::default()
    }

    /// Whether it may be about an object of which nothing is known but its kind and its name.
    fn may_concern(&self, entry: &Entry) -> bool {
        let _ = entry;
        true
    }

    /// Whether answers ever keep an edge state or ask to be woken; if not, nothing is looked up for each change.
    fn remembers(&self) -> bool {
        true
    }
}

/// What a rule says about a change. `edge` and `wake_at` replace what was kept for the object; `None` forgets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// Whether it matters.
    pub outcome: Outcome,
    /// What to keep for this object, until its next change or until it is woken.
    pub edge: Option<Vec<u8>>,
    /// When to be asked again, if the object does not change before.
    pub wake_at: Option<Timestamp>,
}

/// Whether a change matters to a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It does not.
    Skip,
    /// It does: each action is due.
    Match,
    /// The rule could not tell. Counted and shown; the change is passed over.
    Failed(String),
}

/// Why something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The object changed.
    Change,
    /// The object stayed as it was for the time that the rule asks for.
    Held,
    /// The object was there before the rule. The entry is made to look like its creation.
    Existing,
}

impl Evaluated {
    /// The change does not matter, and nothing is kept.
    pub fn skip() -> Self {
        Self {
            outcome: Outcome::Skip,
            edge: None,
            wake_at: None,
        }
    }

    /// The change matters, and nothing is kept.
    pub fn matched() -> Self {
        Self {
            outcome: Outcome::Match,
            ..Self::skip()
        }
    }
}
