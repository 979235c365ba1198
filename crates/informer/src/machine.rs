//! The reflector without IO: what to ask a source next, and what to report of its answers.
//!
//! [`Machine::step`] takes what happened and the time, and returns what to do. States:
//! docs/flow.md#informers.

mod backoff;
mod fault;
mod following;
mod identifying;
mod listing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use skopos_object::{
    HistoryId, ListItem, ListRequest, ListWatchError, ResourceVersion, WatchEvent, WatchRequest,
};

pub(crate) use self::fault::{is_comparable, is_older};
use self::{backoff::Backoff, following::Watch, listing::Listing};
use crate::{FirstList, ListReason, ReflectorConfig, ReflectorError, Report};

/// What happened. Times are counted from any fixed point.
#[derive(Debug)]
pub(crate) enum Input {
    /// The [`deadline`](Machine::deadline) may have passed.
    Woken,
    /// The source said which history it has, if it knows.
    Identified(Option<HistoryId>),
    /// The request was answered with a stream.
    Opened,
    /// The list has something.
    Item(ListItem),
    /// The watch has something.
    Event(WatchEvent),
    /// The stream is over.
    Ended,
    /// The request was refused, or the stream broke.
    Failed(ListWatchError),
}

/// What to do next. All but `Keep` drop the request or stream that is open.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Go on with what is open.
    Keep,
    /// Wait for the deadline.
    Rest,
    /// Ask which history the source has.
    Identify,
    /// Ask for a list.
    List(ListRequest),
    /// Ask for a watch.
    Watch(WatchRequest),
}

#[derive(Debug)]
pub(crate) struct Machine {
    config: ReflectorConfig,
    rng: fastrand::Rng,
    backoff: Backoff,
    state: State,
    /// Everything up to here was reported; empty before the first list.
    position: ResourceVersion,
    /// Which history the position belongs to, as far as it is known.
    history: Option<HistoryId>,
    /// How often in a row the source did not say which history it has.
    n_unidentified: u32,
    /// Until when the source is not asked for initial events, because it could not.
    no_initial_events_until: Option<Duration>,
    /// The source was away or silent: before the next watch, see whether its history is still ours.
    suspect: bool,
    /// False once the source refused the list by which its history is checked.
    can_probe: bool,
    troubled: bool,
    /// Since when watches fail inside the source.
    broken_since: Option<Duration>,
    n_too_large: u32,
    last_list: Option<Duration>,
}

#[derive(Debug)]
enum State {
    Resting {
        until: Duration,
        next: Next,
    },
    /// Asking which history the source has, before something else.
    Identifying {
        heard: Duration,
        next: Next,
    },
    /// Reading lists, page by page.
    Listing(Listing),
    /// Reading what is there from the beginning of a watch.
    Streaming {
        plan: Plan,
        watch: Watch,
    },
    /// Asking for the newest version of the source.
    Probing {
        heard: Duration,
    },
    Watching(Watch),
}

#[derive(Clone, Copy, Debug)]
enum Next {
    List(Plan),
    Follow,
}

/// How a list is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    reason: ListReason,
    version: ListVersion,
    /// How often the source said that the version is too large.
    n_too_large: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListVersion {
    Latest,
    Any,
    /// Not older than our position: cheap for the server, and never back in time.
    Position,
}

/// A watch that expires this soon after a list shows that listing again at once would be a storm.
const FRUITLESS: Duration = Duration::from_secs(10);

/// How often a version that is too large is tried again.
const TOO_LARGE_RETRIES: u32 = 2;

impl Machine {
    /// Starts with a list, or from a version up to which everything is known.
    pub(crate) fn new(config: ReflectorConfig, from: ResourceVersion) -> Self {
        let rng = fastrand::Rng::with_seed(config.seed.unwrap_or_else(|| fastrand::u64(..)));
        let next = if from.is_empty() || from.is_zero() {
            Next::List(Plan::first(&config))
        } else {
            Next::Follow
        };
        let until = Duration::ZERO;
        Self {
            backoff: Backoff::new(&config),
            rng,
            state: State::Resting { until, next },
            position: if from.is_zero() {
                ResourceVersion::default()
            } else {
                from
            },
            history: None,
            n_unidentified: 0,
            no_initial_events_until: None,
            suspect: matches!(next, Next::Follow),
            can_probe: true,
            troubled: false,
            broken_since: None,
            n_too_large: 0,
            last_list: None,
            config,
        }
    }

    /// Everything up to here was reported; empty before the first list is complete.
    pub(crate) fn position(&self) -> &ResourceVersion {
        &self.position
    }

    /// When to call again with [`Input::Woken`] if nothing else happens.
    pub(crate) fn deadline(&self) -> Duration {
        match &self.state {
            State::Resting { until, .. } => *until,
            State::Listing(listing) => listing.heard + self.config.patience,
            State::Identifying { heard, .. } | State::Probing { heard } => *heard + self.config.patience,
            State::Streaming { watch, .. } | State::Watching(watch) => watch.deadline(&self.config),
        }
    }

    /// Takes what happened at `now`, adds what there is to report, and says what to do.
    pub(crate) fn step(&mut self, input: Input, now: Duration, out: &mut Vec<Report>) -> Action {
        match input {
            Input::Woken if now < self.deadline() => Action::Keep,
            Input::Woken => self.woken(now, out),
            Input::Identified(history) => self.identified(history, now, out),
            Input::Opened => self.opened(now, out),
            Input::Item(item) => self.item(item, now, out),
            Input::Event(event) => self.event(event, now, out),
            Input::Ended => self.ended(now, out),
            Input::Failed(error) => self.failed(error, now, out),
        }
    }

    /// Lists anew at the next chance, because the collection was opened in another way.
    pub(crate) fn relist(&mut self, reason: ListReason) {
        self.state = State::Resting {
            until: Duration::ZERO,
            next: Next::List(Plan::latest(reason)),
        };
    }

    fn woken(&mut self, now: Duration, out: &mut Vec<Report>) -> Action {
        match &self.state {
            State::Resting { next, .. } => self.go(*next, now),
            State::Identifying { .. } | State::Listing(_) | State::Probing { .. } => {
                self.gave_up(ReflectorError::Unanswered(self.config.patience), now, out)
            }
            State::Streaming { watch, .. } | State::Watching(watch) if !watch.is_open => {
                self.gave_up(ReflectorError::Unanswered(self.config.patience), now, out)
            }
            State::Streaming { .. } => self.gave_up(ReflectorError::Silent(self.config.silence), now, out),
            State::Watching(watch) => {
                if watch.is_silent(&self.config, now) {
                    self.suspect = true;
                    self.troubled = true;
                    let error = ReflectorError::Silent(self.config.silence);
                    let retry_in = Duration::ZERO;
                    out.push(Report::Trouble { error, retry_in });
                }
                self.follow(now)
            }
        }
    }

    fn opened(&mut self, now: Duration, out: &mut Vec<Report>) -> Action {
        match &mut self.state {
            State::Resting { .. } => return Action::Rest,
            State::Identifying { heard, .. } | State::Probing { heard } => *heard = now,
            State::Listing(listing) => {
                listing.heard = now;
                if listing.page == 1 {
                    let reason = listing.plan.reason;
                    out.push(Report::Replace { reason });
                }
            }
            State::Streaming { plan, watch } => {
                watch.open(now);
                out.push(Report::Replace { reason: plan.reason });
            }
            State::Watching(watch) => {
                watch.open(now);
                out.push(Report::Watching);
                if std::mem::take(&mut self.troubled) {
                    out.push(Report::Resumed);
                }
            }
        }
        Action::Keep
    }

    fn ended(&mut self, now: Duration, out: &mut Vec<Report>) -> Action {
        match &self.state {
            State::Resting { .. } => Action::Rest,
            State::Watching(watch) if watch.was_useless(now) => {
                self.rest(ReflectorError::ShortWatch, Next::Follow, now, out)
            }
            State::Watching(_) => self.follow(now),
            State::Identifying { .. }
            | State::Listing(_)
            | State::Streaming { .. }
            | State::Probing { .. } => self.gave_up(ReflectorError::Cut, now, out),
        }
    }

    fn failed(&mut self, error: ListWatchError, now: Duration, out: &mut Vec<Report>) -> Action {
        match &self.state {
            State::Resting { .. } => Action::Rest,
            State::Identifying { next, .. } => self.identify_failed(error, *next, now, out),
            State::Listing(_) => self.list_failed(error, now, out),
            State::Streaming { .. } => self.streaming_failed(error, now, out),
            State::Probing { .. } => self.probe_failed(error, now, out),
            State::Watching(_) => self.watch_failed(error, now, out),
        }
    }

    /// What is open came to nothing, without the source saying why.
    fn gave_up(&mut self, error: ReflectorError, now: Duration, out: &mut Vec<Report>) -> Action {
        let next = match &self.state {
            State::Listing(listing) => Next::List(listing.plan),
            State::Streaming { plan, .. } => Next::List(*plan),
            State::Resting { next, .. } => *next,
            State::Identifying { next, .. } => {
                self.n_unidentified += 1;
                *next
            }
            State::Probing { .. } | State::Watching(_) => {
                self.suspect = true;
                Next::Follow
            }
        };
        self.rest(error, next, now, out)
    }

    /// Reports trouble and waits before the next attempt.
    fn rest(&mut self, error: ReflectorError, next: Next, now: Duration, out: &mut Vec<Report>) -> Action {
        let asked = fault::retry_after(&error);
        let retry_in = self.backoff.next(asked, now, &mut self.rng);
        out.push(Report::Trouble { error, retry_in });
        self.troubled = true;
        let until = now + retry_in;
        self.state = State::Resting { until, next };
        Action::Rest
    }

    fn go(&mut self, next: Next, now: Duration) -> Action {
        match next {
            Next::List(plan) => self.list(plan, now),
            Next::Follow => self.follow(now),
        }
    }
}

impl Plan {
    fn first(config: &ReflectorConfig) -> Self {
        let version = match config.first_list {
            FirstList::Latest => ListVersion::Latest,
            FirstList::Any => ListVersion::Any,
        };
        Self {
            version,
            ..Self::latest(ListReason::First)
        }
    }

    fn latest(reason: ListReason) -> Self {
        Self {
            reason,
            version: ListVersion::Latest,
            n_too_large: 0,
        }
    }

    fn from_position(reason: ListReason) -> Self {
        Self {
            version: ListVersion::Position,
            ..Self::latest(reason)
        }
    }
}
