//! A collection that is being followed, and the list of it that is being read.

use std::sync::Arc;

use jiff::Timestamp;
use skopos_informer::{ListReason, Reflector};
use skopos_object::{HistoryId, ListWatch};
use tokio::time::Instant;

use super::compare::Comparison;
use crate::{Observed, Seq};

/// What is being followed.
pub(super) struct Session {
    pub(super) collection: u32,
    pub(super) source: Arc<dyn ListWatch>,
    pub(super) comparison: Arc<Comparison>,
    pub(super) reflector: Reflector,
    /// Of what was written down.
    pub(super) history: Option<HistoryId>,
    /// Everything before this is known; nothing if the collection was never listed.
    pub(super) known_until: Option<Timestamp>,
    /// Why the session begins with a list, if it does although something is known: the reason, and whether versions can
    /// be compared.
    pub(super) doubt: (&'static str, bool),
    /// The number of the list, of all that were begun in this process.
    pub(super) generation: u32,
    pub(super) list: Option<List>,
    /// Until when changes count as resumed and not as live.
    pub(super) resumed_until: Option<Instant>,
    pub(super) n_not_found: u32,
}

/// A list that is being read.
pub(super) struct List {
    pub(super) reason: &'static str,
    /// Whether its versions can be compared with those that are known.
    pub(super) comparable: bool,
    /// The first change that it showed.
    pub(super) first: Option<Seq>,
    /// Whether something in it cannot be read, and nobody can tell which object that is: it may be any.
    pub(super) has_nameless: bool,
}

impl Session {
    /// Begins the list with this number.
    pub(super) fn begin_list(&mut self, reason: ListReason, generation: u32) {
        self.generation = generation;
        let first = self.list.as_ref().and_then(|list| list.first);
        let (reason, comparable) = match reason {
            ListReason::First => self.doubt,
            reason => (reason.as_str(), reason != ListReason::OtherHistory),
        };
        self.list = Some(List {
            reason,
            comparable,
            first,
            has_nameless: false,
        });
    }

    /// How what comes now is observed.
    pub(super) fn observed(&self) -> Observed {
        match (&self.list, self.known_until) {
            (Some(_), Some(after)) => Observed::Relist { after },
            (Some(_), None) => Observed::First,
            (None, _) => match self.resumed_until {
                Some(until) if Instant::now() < until => Observed::Resumed,
                _ => Observed::Live,
            },
        }
    }
}
