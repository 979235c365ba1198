//! Answers what commands and the console ask. Over HTTP it is the same.
//!
//! Each thing that can be asked is a [`Question`]: a plain struct with its answer. [`Admin`] answers in process,
//! [`AdminServer`] over HTTP, and both give the same.

mod change;
mod door;
mod question;
mod refusal;
mod resource;
mod serve;

mod changes;
mod holes;
mod object_at;

use skopos_journal::{Capture, Journal};

pub use self::{
    change::{ChangeView, FieldDiff, Observation, Part},
    changes::{ChangePage, Changes, Damaged, ShowChange},
    door::{ADMIN_FILE, Door, DoorError},
    holes::{HoleView, HoleViews, Holes},
    object_at::{ObjectAt, ObjectState, Presence, Uncertain},
    question::Question,
    refusal::{Reason, Refusal},
    resource::{CollectionView, CollectionViews, Collections, Resolve, Resolved},
    serve::{AdminServer, BindError},
};

/// Answers questions about changes, rules and deliveries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    journal: Journal,
    capture: Option<Capture>,
}

impl Admin {
    /// Answers from a journal.
    pub fn new(journal: Journal) -> Self {
        Self {
            journal,
            capture: None,
        }
    }

    /// Tells also how capturing is doing.
    #[must_use]
    pub fn with_capture(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
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
