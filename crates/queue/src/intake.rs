//! What was told to the queue since a worker last looked.
//!
//! Producers and workers that are through with a key would wait for each other and for those that look for
//! a key, if all changed the state at once. So they leave word here, and whoever looks next applies all of
//! it, in order. While a worker sleeps, or once the queue is closed, nobody may come to look: then the
//! teller looks itself.

use crate::config::AddOptions;
use crate::moment::Moment;
use crate::state::{Added, State};
use crate::work::Outcome;

/// From so many on, those who tell apply them if nobody else is at the queue.
const MANY_NEWS: usize = 256;

/// How many more are kept before they try again.
const N_MORE: usize = 64;

/// More are not kept, so that memory depends on the number of keys only: who tells waits for the others.
const MAX_NEWS: usize = 1024;

/// News in the order they were told.
#[derive(Debug)]
pub(crate) struct Intake<K> {
    news: Vec<News<K>>,
    /// Keys of adds that changed nothing but an entry that was there.
    ///
    /// Who adds next drops them: to drop a shared key is to count it, and a count that one core increases and another
    /// decreases moves between them every time.
    spent: Vec<K>,
    /// Whether nobody may come to look.
    urgent: bool,
}

#[derive(Debug)]
pub(crate) struct News<K> {
    pub(crate) what: What<K>,
    /// When it was told, where that matters.
    pub(crate) at: Option<Moment>,
}

#[derive(Debug)]
pub(crate) enum What<K> {
    Added { key: K, hash: u64, options: AddOptions },
    Finished { id: u32, outcome: Outcome },
}

/// What became of news.
#[derive(Debug)]
pub(crate) enum Kept<K> {
    Few,
    /// It was kept, and should be applied with the rest soon.
    Many,
    /// It has to be applied at once.
    Refused(News<K>),
}

impl<K> Default for Intake<K> {
    fn default() -> Self {
        Self {
            news: Vec::new(),
            spent: Vec::new(),
            urgent: false,
        }
    }
}

impl<K> Intake<K> {
    /// Keeps news for whoever looks next, if it may wait.
    pub(crate) fn keep(&mut self, news: News<K>) -> Kept<K> {
        let n = self.news.len();
        if self.urgent || n >= MAX_NEWS {
            return Kept::Refused(news);
        }
        self.news.push(news);
        match n >= MANY_NEWS && n.is_multiple_of(N_MORE) {
            true => Kept::Many,
            false => Kept::Few,
        }
    }

    /// A key for a teller to drop once it has unlocked this: as many as were told, so that they do not pile up.
    pub(crate) fn spent(&mut self) -> Option<K> {
        self.spent.pop()
    }

    /// Exchanges what was told for an empty list, and says whether the next news are urgent.
    pub(crate) fn swap(&mut self, empty: &mut Vec<News<K>>, spent: &mut Vec<K>, urgent: bool) {
        std::mem::swap(&mut self.news, empty);
        self.urgent = urgent;
        if urgent {
            // Perhaps nobody adds for a long time.
            spent.append(&mut self.spent);
        } else {
            self.spent.append(spent);
        }
    }
}

impl<K: Clone + Eq> News<K> {
    /// Changes the state.
    pub(crate) fn apply(self, state: &mut State<K>, now: Moment) -> Added<K> {
        match self.what {
            What::Added { key, hash, options } => state.add(key, hash, options, now),
            What::Finished { id, outcome } => {
                state.finish(id, outcome, now);
                Added::New
            }
        }
    }
}
