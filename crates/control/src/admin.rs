//! Answers what commands and the console ask. Over HTTP it is the same.
//!
//! Each thing that can be asked is a [`Question`]: a plain struct with its answer. [`Admin`] answers in process,
//! [`AdminServer`] over HTTP, and both give the same.

mod change;
mod change_name;
mod door;
mod question;
mod refusal;
mod resource;
mod serve;

mod changes;
mod holes;
mod object_at;

mod rules;

mod backtest;
mod explain;

mod letters;
mod replays;
mod status;

use std::sync::Arc;

use skopos_journal::{Capture, Journal};
use skopos_react::Reactor;

pub use self::{
    backtest::{Backtest, BacktestReport, PayloadView},
    change::{ChangeView, FieldDiff, Observation, Part, WriterView},
    change_name::ChangeName,
    changes::{ChangePage, Changes, Damaged, ShowChange},
    door::{ADMIN_FILE, Door, DoorError},
    explain::{Explain, Explained, ExplanationView, StepView},
    holes::{HoleView, HoleViews, Holes},
    letters::{
        DeadLetters, LetterPage, LetterView, ShowLetter, TakeLetters, Taken, Then, WhichLetters, WholeLetter,
    },
    object_at::{ObjectAt, ObjectState, Presence, Uncertain},
    question::Question,
    refusal::{Reason, Refusal},
    replays::{CancelReplay, Done, Place, ResumeRule, ResumedRule, StartReplay, StartedReplay},
    resource::{CollectionView, CollectionViews, Collections, Resolve, Resolved},
    rules::{GivenRule, RuleProvider},
    serve::{AdminServer, BindError},
    status::{
        CaptureView, JournalView, RecordView, ReplayView, RouteView, RuleView, SinkView, Status, StatusView,
    },
};

/// Answers questions about changes, rules and deliveries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    journal: Journal,
    capture: Option<Capture>,
    rules: Option<Arc<dyn RuleProvider>>,
    reactor: Option<Reactor>,
}

impl Admin {
    /// Answers from a journal.
    pub fn new(journal: Journal) -> Self {
        Self {
            journal,
            capture: None,
            rules: None,
            reactor: None,
        }
    }

    /// Tells also how capturing is doing.
    #[must_use]
    pub fn with_capture(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
        self
    }

    /// Knows the rules in force.
    #[must_use]
    pub fn with_rules(mut self, rules: Arc<dyn RuleProvider>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Tells also of deliveries, and does with them what is asked.
    #[must_use]
    pub fn with_reactor(mut self, reactor: Reactor) -> Self {
        self.reactor = Some(reactor);
        self
    }

    /// The journal that is asked.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Answers a question.
    ///
    /// # Errors
    /// What is wrong with the question, or what went wrong.
    pub async fn ask<Q: Question>(&self, question: &Q) -> Result<Q::Answer, Refusal> {
        question.answer(self).await
    }
}

#[cfg(test)]
mod tests;
