//! How rules and sinks are doing: kept beside the file, cheap to read.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use skopos_journal::Seq;
use tokio::time::Instant;

use super::store::{RouteRecord, RuleRecord};

/// What is shown. The lock is held for a few lines at a time, and no other is taken under it.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: BTreeMap<String, RuleRecord>,
    routes: BTreeMap<(u32, String), RouteRecord>,
    sinks: BTreeMap<String, SinkState>,
    /// What the disk said when there was no room, while that is waited for.
    no_space: Option<String>,
    /// The last replays that ended, up to [`MAX_FINISHED`].
    finished: VecDeque<(String, ReplayState)>,
}

/// Ended replays that are still shown.
const MAX_FINISHED: usize = 100;

/// What a sender says of its sink.
#[derive(Clone, Debug, Default)]
pub(crate) struct SinkState {
    pub(crate) in_flight: usize,
    pub(crate) in_memory: usize,
    pub(crate) down_since: Option<Instant>,
    pub(crate) n_failed: u64,
    pub(crate) last_error: String,
    /// What went wrong last, by rule.
    pub(crate) errors: BTreeMap<String, String>,
}

/// How everything is doing, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Rules by name.
    pub rules: BTreeMap<String, RuleState>,
    /// Sinks by name.
    pub sinks: BTreeMap<String, SinkReport>,
    /// Why nothing is looked at or sent now, if there is no room on the disk to keep the state. It goes on by itself.
    pub no_space: Option<String>,
    /// Replays by their own name: those under way, those with dead letters, and the last hundred of the others that ended
    /// since the start.
    pub replays: BTreeMap<String, ReplayState>,
}

/// How a rule is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleState {
    /// The generation that is in force.
    pub generation: i64,
    /// Up to which change it has looked.
    pub position: Seq,
    /// How many changes it has not looked at.
    pub lag_changes: u64,
    /// How old the first of them may be; zero if there is none.
    pub lag: Duration,
    /// How many changes matched.
    pub matched: u64,
    /// How many changes it could not evaluate.
    pub failed: u64,
    /// How many changes, or objects that were there before it, it never saw: damaged, or removed before it got to them.
    pub missed: u64,
    /// Whether it still goes through the objects that were there before it.
    pub is_telling_existing: bool,
    /// Why it stands still although its specification does not say so.
    pub suspended: Option<String>,
    /// What went wrong last.
    pub last_error: String,
    /// Its deliveries by sink.
    pub routes: BTreeMap<String, RouteState>,
}

/// How the deliveries of a rule to a sink are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteState {
    /// How many were acknowledged.
    pub delivered: u64,
    /// How many wait.
    pub pending: u64,
    /// How many were given up and are kept.
    pub dead: u64,
    /// What went wrong last.
    pub last_error: String,
}

/// How a sink is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SinkReport {
    /// How many deliveries were acknowledged.
    pub delivered: u64,
    /// How many wait.
    pub pending: u64,
    /// How many were given up and are kept.
    pub dead: u64,
    /// How many attempts failed since the start.
    pub failed_attempts: u64,
    /// How many requests are on their way.
    pub in_flight: usize,
    /// How many of those that wait are in memory: a window that does not grow with them.
    pub in_memory: usize,
    /// For how long nothing has arrived although it was tried; nothing while it works.
    pub down_for: Option<Duration>,
    /// What went wrong last.
    pub last_error: String,
}

/// How a replay is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayState {
    /// Of which rule.
    pub rule: String,
    /// The first change of the range.
    pub from: Seq,
    /// The last change of the range.
    pub to: Seq,
    /// Up to which change it has looked.
    pub position: Seq,
    /// How many changes matched.
    pub matched: u64,
    /// How many deliveries were acknowledged.
    pub delivered: u64,
    /// How many wait.
    pub pending: u64,
    /// How many were given up and are kept.
    pub dead: u64,
    /// Whether everything arrived or was given up, or it was cancelled.
    pub is_finished: bool,
}

impl Board {
    /// Shows what is kept, and forgets what was shown of rules and routes before.
    pub(crate) fn begin(&self, rules: Vec<(String, RuleRecord)>, routes: Vec<(u32, String, RouteRecord)>) {
        let mut state = self.lock();
        state.rules = rules.into_iter().collect();
        let routes = routes.into_iter();
        state.routes = routes
            .map(|(rule, sink, record)| ((rule, sink), record))
            .collect();
        state.no_space = None;
    }

    /// Shows that nothing goes on for want of room.
    pub(crate) fn wait_for_room(&self, what: String) {
        self.lock().no_space = Some(what);
    }

    pub(crate) fn rule(&self, name: &str, record: &RuleRecord) {
        self.lock().rules.insert(name.to_owned(), record.clone());
    }

    pub(crate) fn remove_rule(&self, name: &str) {
        self.lock().rules.remove(name);
    }

    pub(crate) fn route(&self, rule: u32, sink: &str, record: &RouteRecord) {
        self.lock().routes.insert((rule, sink.to_owned()), record.clone());
    }

    /// Keeps showing a replay that ends now.
    pub(crate) fn finish(&self, name: &str) {
        let mut state = self.lock();
        let Some(record) = state.rules.get(name) else {
            return;
        };
        let mut last = state.replay_state(record);
        last.is_finished = true;
        if state.finished.len() == MAX_FINISHED {
            state.finished.pop_front();
        }
        state.finished.push_back((name.to_owned(), last));
    }

    pub(crate) fn remove_route(&self, rule: u32, sink: &str) {
        self.lock().routes.remove(&(rule, sink.to_owned()));
    }

    pub(crate) fn sink(&self, name: &str, change: impl FnOnce(&mut SinkState)) {
        change(self.lock().sinks.entry(name.to_owned()).or_default());
    }

    pub(crate) fn remove_sink(&self, name: &str) {
        self.lock().sinks.remove(name);
    }

    /// The oldest change that something pending of a rule is about.
    pub(crate) fn oldest_pending(&self, rule: u32) -> Option<u64> {
        let state = self.lock();
        let routes = state.routes.iter().filter(|((of, _), _)| *of == rule);
        routes
            .map(|(_, route)| route.low.seq())
            .min()
            .filter(|seq| *seq != u64::MAX)
    }

    /// The oldest change that a dead letter of a rule is about.
    pub(crate) fn oldest_letter(&self, rule: u32) -> Option<u64> {
        let state = self.lock();
        let routes = state.routes.iter().filter(|((of, _), _)| *of == rule);
        routes
            .map(|(_, route)| route.letters_low.seq())
            .min()
            .filter(|seq| *seq != u64::MAX)
    }

    /// How many deliveries of a rule are pending and how many are dead letters.
    pub(crate) fn open(&self, rule: u32) -> (u64, u64) {
        let state = self.lock();
        let routes = state.routes.iter().filter(|((of, _), _)| *of == rule);
        routes.fold((0, 0), |(pending, dead), (_, route)| {
            (pending + route.pending, dead + route.letters)
        })
    }

    /// The records of all rules and routes.
    pub(crate) fn records(&self) -> (BTreeMap<String, RuleRecord>, BTreeMap<(u32, String), RouteRecord>) {
        let state = self.lock();
        (state.rules.clone(), state.routes.clone())
    }

    pub(crate) fn status(&self, head: Seq, now: Timestamp) -> Status {
        let state = self.lock();
        let mut status = Status {
            no_space: state.no_space.clone(),
            ..Status::default()
        };
        status.replays.extend(state.finished.iter().cloned());
        for (name, record) in &state.rules {
            if record.replay.is_some() {
                status.replays.insert(name.clone(), state.replay_state(record));
            } else {
                status
                    .rules
                    .insert(name.clone(), state.rule_state(name, record, head, now));
            }
        }
        for (name, sink) in &state.sinks {
            status.sinks.insert(name.clone(), state.sink_report(name, sink));
        }
        status
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn rule_state(&self, name: &str, record: &RuleRecord, head: Seq, now: Timestamp) -> RuleState {
        let lag_changes = head.0.saturating_sub(record.position);
        let looked_at = Timestamp::from_millisecond(record.looked_at).unwrap_or(now);
        let lag = match lag_changes {
            0 => Duration::ZERO,
            _ => Duration::try_from(now.duration_since(looked_at)).unwrap_or_default(),
        };
        let routes = self.routes.iter().filter(|((rule, _), _)| *rule == record.id);
        let routes = routes.map(|((_, sink), route)| {
            let errors = self.sinks.get(sink).map(|sink| &sink.errors);
            let last_error = errors.and_then(|errors| errors.get(name)).cloned();
            let state = RouteState {
                delivered: route.delivered,
                pending: route.pending,
                dead: route.letters,
                last_error: last_error.unwrap_or_default(),
            };
            (sink.clone(), state)
        });
        RuleState {
            generation: record.generation,
            position: Seq(record.position),
            lag_changes,
            lag,
            matched: record.matched,
            failed: record.failed,
            missed: record.missed,
            is_telling_existing: record.existing.going_through().is_some(),
            suspended: record.suspended.clone(),
            last_error: record.last_error.clone(),
            routes: routes.collect(),
        }
    }

    fn replay_state(&self, record: &RuleRecord) -> ReplayState {
        let mut state = ReplayState {
            position: Seq(record.position),
            matched: record.matched,
            ..ReplayState::default()
        };
        if let Some(replayed) = &record.replay {
            state.rule.clone_from(&replayed.rule);
            (state.from, state.to) = (Seq(replayed.from), Seq(replayed.to));
            state.is_finished = replayed.is_done;
        }
        for ((rule, _), route) in &self.routes {
            if *rule == record.id {
                state.delivered += route.delivered;
                state.pending += route.pending;
                state.dead += route.letters;
            }
        }
        // What was given up may have been redriven since.
        state.is_finished &= state.pending == 0;
        state
    }

    fn sink_report(&self, name: &str, sink: &SinkState) -> SinkReport {
        let mut report = SinkReport {
            failed_attempts: sink.n_failed,
            in_flight: sink.in_flight,
            in_memory: sink.in_memory,
            down_for: sink.down_since.map(|since| since.elapsed()),
            last_error: sink.last_error.clone(),
            ..SinkReport::default()
        };
        for ((_, of), route) in &self.routes {
            if of == name {
                report.delivered += route.delivered;
                report.pending += route.pending;
                report.dead += route.letters;
            }
        }
        report
    }
}
