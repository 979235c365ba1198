//! The workers that wait for a key, and which of them watches the clock.

use std::collections::VecDeque;
use std::task::Waker;

use crate::moment::Moment;

/// One wait of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Workers that found nothing.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    last_ticket: u64,
    /// Who sleeps, the longest first.
    sleeping: VecDeque<(Ticket, Waker)>,
    /// How many were woken and have not looked yet.
    n_woken: usize,
    /// The sleeper whose timer is set, and to when.
    timekeeper: Option<(Ticket, Moment)>,
}

impl Sleepers {
    /// The worker sleeps until it is woken.
    pub(crate) fn sleep(&mut self, waker: Waker) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.sleeping.push_back((ticket, waker));
        ticket
    }

    /// The worker is awake, whoever woke it, or has gone away.
    pub(crate) fn rise(&mut self, ticket: Ticket) {
        match self.sleeping.iter().position(|(other, _)| *other == ticket) {
            Some(at) => {
                self.sleeping.remove(at);
            }
            None => self.n_woken -= 1,
        }
        if self.timekeeper.is_some_and(|(keeper, _)| keeper == ticket) {
            self.timekeeper = None;
        }
    }

    /// Whether a worker that sleeps until `due` has to set its timer; it becomes the one who has.
    pub(crate) fn keeps_time(&mut self, ticket: Ticket, due: Moment) -> bool {
        let needed = self.timekeeper.is_none_or(|(_, set)| due < set);
        if needed {
            self.timekeeper = Some((ticket, due));
        }
        needed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sleeping.is_empty()
    }

    /// Somebody to wake, if `n_ready` keys or a time to look again (`due`) call for one more worker.
    pub(crate) fn next(&mut self, n_ready: usize, due: Option<Moment>) -> Option<Waker> {
        let unwatched = || due.is_some_and(|due| self.timekeeper.is_none_or(|(_, set)| due < set));
        if n_ready > self.n_woken || (self.n_woken == 0 && unwatched()) {
            let (_, waker) = self.sleeping.pop_front()?;
            self.n_woken += 1;
            return Some(waker);
        }
        None
    }

    /// Everybody, when there is nothing to wait for any more.
    pub(crate) fn all(&mut self) -> Vec<Waker> {
        self.n_woken += self.sleeping.len();
        self.sleeping.drain(..).map(|(_, waker)| waker).collect()
    }
}
