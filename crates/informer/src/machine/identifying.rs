//! Finding out which history a source has, where its versions cannot tell.

use std::time::Duration;

use skopos_object::{HistoryId, ListWatchError};

use super::{Action, Machine, Next, Plan, State};
use crate::{ListReason, ReflectorError, Report};

/// So often in a row a source may fail to say which history it has before we go on without.
const UNIDENTIFIED: u32 = 5;

impl Machine {
    /// Asks which history the source has, and then does what is next.
    pub(super) fn identify(&mut self, next: Next, now: Duration) -> Action {
        if self.n_unidentified >= UNIDENTIFIED {
            return self.go_on_unidentified(next, now);
        }
        self.state = State::Identifying { heard: now, next };
        Action::Identify
    }

    pub(super) fn identified(
        &mut self,
        found: Option<HistoryId>,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        let State::Identifying { next, .. } = self.state else {
            return Action::Keep;
        };
        self.n_unidentified = 0;
        match next {
            Next::List(plan) => {
                self.history = found;
                self.read(plan, now)
            }
            Next::Follow if is_other(self.history.as_ref(), found.as_ref()) => {
                self.history = found;
                self.other_history(now, out)
            }
            Next::Follow => {
                self.history = found.or(self.history.take());
                self.probe(now)
            }
        }
    }

    /// Everything known is of another history: only a list from now helps.
    fn other_history(&mut self, now: Duration, out: &mut Vec<Report>) -> Action {
        let plan = Plan::latest(ListReason::OtherHistory);
        if self.listed_just_now(now) {
            return self.rest(ReflectorError::OtherHistory, Next::List(plan), now, out);
        }
        self.read(plan, now)
    }

    pub(super) fn identify_failed(
        &mut self,
        error: ListWatchError,
        next: Next,
        now: Duration,
        out: &mut Vec<Report>,
    ) -> Action {
        self.n_unidentified += 1;
        if self.n_unidentified >= UNIDENTIFIED {
            return self.go_on_unidentified(next, now);
        }
        let error = match next {
            Next::List(_) => ReflectorError::List(error),
            Next::Follow => ReflectorError::Watch(error),
        };
        self.rest(error, next, now, out)
    }

    /// A source that cannot say what it is may still serve what we follow. If we follow already the doubt remains, and
    /// it is asked again before the next watch.
    fn go_on_unidentified(&mut self, next: Next, now: Duration) -> Action {
        match next {
            Next::List(plan) => {
                self.n_unidentified = 0;
                self.history = None;
                self.read(plan, now)
            }
            Next::Follow => {
                self.n_unidentified = 1;
                self.probe(now)
            }
        }
    }
}

fn is_other(known: Option<&HistoryId>, found: Option<&HistoryId>) -> bool {
    matches!((known, found), (Some(known), Some(found)) if known != found)
}
