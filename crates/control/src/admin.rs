//! Answers what commands and the console ask. Over HTTP it is the same.

use skopos_journal::Journal;

/// Answers questions about changes, rules and deliveries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    journal: Journal,
}

impl Admin {
    /// Answers from a journal.
    pub fn new(journal: Journal) -> Self {
        Self { journal }
    }

    /// The journal that is asked.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }
}
