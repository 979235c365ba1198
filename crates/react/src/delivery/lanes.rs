//! Decides what is sent to one sink, and when: in order per object, around what fails, within bounds.
//!
//! [`Lanes::step`] takes what happened and the time, and says what to do; it does nothing itself. A *lane* is one
//! object, a *route* is one rule that delivers to this sink. Of each route only a window of pending rows is in memory;
//! of an object that fails only its next row is, so that those behind it can be reached.

mod health;
mod rate;
#[cfg(test)]
mod tests;
mod window;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use skopos_journal::Seq;
use tokio::time::Instant;

use self::{health::Health, rate::Rate, window::Window};
use super::{plan::Settings, store::Cause};

/// One rule and one sink it delivers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RouteId(pub(crate) u32);

/// One pending delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) route: RouteId,
    /// Its place among the deliveries of its route.
    pub(crate) ord: u64,
    /// The change it is about.
    pub(crate) seq: Seq,
    pub(crate) cause: Cause,
    /// Which action of the rule.
    pub(crate) action: u16,
    /// The object, as a hash: two objects with the same one share their order, which does no harm.
    pub(crate) lane: u64,
    /// The object's name, where the change alone may not be found any more (objects that were there before the rule).
    pub(crate) key: Option<Arc<str>>,
}

/// Something happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// These routes deliver, and no others.
    Routes(BTreeSet<RouteId>),
    /// There are new rows at the end of a route.
    More(RouteId),
    /// Rows that were asked for by [`Effect::Load`]. `ended`: there are no more after them.
    Loaded {
        route: RouteId,
        rows: Vec<Row>,
        ended: bool,
    },
    /// What became of each row of a batch.
    Sent { batch: u64, fates: Vec<Fate> },
    /// Time passed.
    Tick,
}

/// What became of one row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    /// Never to be tried again.
    Refused(String),
    /// May work later.
    Failed {
        retry_after: Option<Duration>,
        error: String,
    },
    /// Not tried, because one before it failed.
    Untouched,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Read up to `limit` pending rows of a route, from `from` on, and say so with [`Input::Loaded`].
    Load { route: RouteId, from: u64, limit: usize },
    /// Send these rows in their order and say so with [`Input::Sent`]. `n_failed`: so often the first of them failed before;
    /// all others never did.
    Send {
        batch: u64,
        rows: Vec<Row>,
        n_failed: u32,
    },
    /// A row is delivered: forget it.
    Done(Row),
    /// A row is given up: move it to the dead letters.
    Dead { row: Row, attempts: u32, error: String },
}

/// The state of the deliveries to one sink.
#[derive(Debug)]
pub(crate) struct Lanes {
    settings: Settings,
    windows: BTreeMap<RouteId, Window>,
    lanes: HashMap<u64, Lane>,
    /// Lanes that may be sent now, the one that waited longest first.
    ready: VecDeque<u64>,
    /// Lanes that rest after a failure.
    waiting: BTreeSet<(Instant, u64)>,
    flights: HashMap<u64, Vec<Row>>,
    next_batch: u64,
    /// Lanes whose first row has failed.
    n_troubled: usize,
    health: Health,
    rate: Rate,
    rng: fastrand::Rng,
}

/// The loaded rows of one object, in order.
#[derive(Debug)]
struct Lane {
    rows: VecDeque<Row>,
    state: State,
    /// Failed attempts of the first row.
    attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In `ready`.
    Ready,
    /// So many of its first rows are being sent.
    Flying(usize),
    /// In `waiting`.
    Waiting(Instant),
}

/// Rows of one object that are loaded at most.
const LANE_ROWS: usize = 256;

impl Lanes {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        Self {
            rate: Rate::new(settings.max_per_second),
            settings,
            windows: BTreeMap::new(),
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            flights: HashMap::new(),
            next_batch: 0,
            n_troubled: 0,
            health: Health::default(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Goes on with other settings.
    pub(crate) fn configure(&mut self, settings: Settings) {
        if settings.max_per_second != self.settings.max_per_second {
            self.rate = Rate::new(settings.max_per_second);
        }
        let reload = settings.order_by != self.settings.order_by;
        self.settings = settings;
        if reload {
            self.reload();
        }
    }

    /// Takes what happened and says what to do.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Routes(routes) => self.set_routes(&routes),
            Input::More(route) => self.more(route),
            Input::Loaded { route, rows, ended } => self.loaded(route, rows, ended),
            Input::Sent { batch, fates } => self.sent(batch, fates, now, &mut effects),
            Input::Tick => {}
        }
        self.wake(now);
        self.dispatch(now, &mut effects);
        self.load(&mut effects);
        effects
    }

    /// When to step again at the latest, if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if let Some(probe_at) = self.health.probe_at() {
            let has_work = !self.ready.is_empty() || !self.waiting.is_empty();
            return (has_work && self.flights.is_empty()).then_some(probe_at);
        }
        let rested = self.waiting.first().map(|(until, _)| *until);
        let can_send = !self.ready.is_empty() && self.flights.len() < self.settings.concurrency;
        let allowed = can_send.then(|| self.rate.next()).flatten();
        rested.into_iter().chain(allowed).min()
    }

    /// How many rows are in memory.
    pub(crate) fn n_loaded(&self) -> usize {
        self.windows.values().map(|window| window.n_loaded).sum()
    }

    /// How many batches are being sent.
    pub(crate) fn n_flights(&self) -> usize {
        self.flights.len()
    }

    /// Since when nothing at all is delivered, if that is so.
    pub(crate) fn down_since(&self) -> Option<Instant> {
        self.health.down_since()
    }

    /// Lanes that have rested become ready.
    fn wake(&mut self, now: Instant) {
        while let Some(&(until, id)) = self.waiting.first()
            && until <= now
        {
            self.waiting.pop_first();
            self.make_ready(id);
        }
    }

    fn make_ready(&mut self, id: u64) {
        let lane = self
            .lanes
            .get_mut(&id)
            .expect("lane present: it was waiting or flying");
        lane.state = State::Ready;
        self.ready.push_back(id);
    }

    fn dispatch(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if let Some(probe_at) = self.health.probe_at() {
            if self.flights.is_empty() && probe_at <= now {
                self.probe(effects, now);
            }
            return;
        }
        while self.flights.len() < self.settings.concurrency {
            let room = self.settings.max_batch.min(self.rate.available(now));
            let rows = self.fill(room);
            if rows.is_empty() {
                return;
            }
            self.launch(rows, now, effects);
        }
    }

    /// Sends one row to find out whether the sink is back.
    fn probe(&mut self, effects: &mut Vec<Effect>, now: Instant) {
        if self.ready.is_empty()
            && let Some((_, id)) = self.waiting.pop_first()
        {
            self.make_ready(id);
        }
        // One that never failed tells more than one that may have itself to blame.
        let is_new = |id: &u64| self.lanes.get(id).is_some_and(|lane| lane.attempts == 0);
        if let Some(place) = self.ready.iter().position(is_new) {
            self.ready.swap(0, place);
        }
        // Whatever the rate: a probe is rare.
        let rows = self.fill(1);
        if !rows.is_empty() {
            self.health.probing(self.next_batch);
            self.launch(rows, now, effects);
        }
    }

    fn launch(&mut self, rows: Vec<Row>, now: Instant, effects: &mut Vec<Effect>) {
        let batch = self.next_batch;
        self.next_batch += 1;
        self.rate.take(rows.len(), now);
        self.flights.insert(batch, rows.clone());
        let first = rows.first().and_then(|row| self.lanes.get(&row.lane));
        let n_failed = first.map_or(0, |lane| lane.attempts);
        effects.push(Effect::Send {
            batch,
            rows,
            n_failed,
        });
    }

    /// Takes up to `room` rows of ready lanes. A lane that has failed goes alone: whatever is wrong with it must not
    /// fail others.
    fn fill(&mut self, room: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        while rows.len() < room
            && let Some(&id) = self.ready.front()
        {
            let lane = self.lanes.get_mut(&id).expect("lane present: it is in `ready`");
            let is_troubled = lane.attempts > 0;
            if is_troubled && !rows.is_empty() {
                return rows;
            }
            self.ready.pop_front();
            let most = if is_troubled { 1 } else { room - rows.len() };
            let n_taken = lane.rows.len().min(most);
            lane.state = State::Flying(n_taken);
            rows.extend(lane.rows.iter().take(n_taken).cloned());
            if is_troubled {
                return rows;
            }
        }
        rows
    }

    fn sent(&mut self, batch: u64, fates: Vec<Fate>, now: Instant, effects: &mut Vec<Effect>) {
        let Some(rows) = self.flights.remove(&batch) else {
            return;
        };
        self.note_health(batch, &rows, &fates, now);
        let lanes: Vec<u64> = rows.iter().map(|row| row.lane).collect();
        for (row, fate) in rows.into_iter().zip(fates) {
            match fate {
                Fate::Delivered => {
                    self.pop(&row);
                    effects.push(Effect::Done(row));
                }
                Fate::Refused(error) => {
                    let attempts = self.pop(&row) + 1;
                    effects.push(Effect::Dead { row, attempts, error });
                }
                Fate::Failed { retry_after, error } => self.failed(row, retry_after, error, now, effects),
                Fate::Untouched => {}
            }
        }
        for id in lanes {
            self.settle(id);
        }
    }

    /// Takes the first row off its lane, and says how often it had failed.
    fn pop(&mut self, row: &Row) -> u32 {
        let id = row.lane;
        let lane = self.lanes.get_mut(&id).expect("lane present: its row was flying");
        lane.rows.pop_front();
        let attempts = std::mem::take(&mut lane.attempts);
        if let State::Flying(n) = &mut lane.state {
            *n = n.saturating_sub(1);
        }
        if let Some(window) = self.windows.get_mut(&row.route) {
            window.n_loaded = window.n_loaded.saturating_sub(1);
            window.n_troubled -= usize::from(attempts > 0).min(window.n_troubled);
        }
        self.n_troubled -= usize::from(attempts > 0);
        attempts
    }

    fn failed(
        &mut self,
        row: Row,
        retry_after: Option<Duration>,
        error: String,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let id = row.lane;
        if !self.windows.contains_key(&row.route) {
            self.pop(&row);
            return;
        }
        let lane = self.lanes.get_mut(&id).expect("lane present: its row was flying");
        let attempts = lane.attempts + 1;
        if self.settings.max_attempts.is_some_and(|most| attempts >= most) {
            self.pop(&row);
            effects.push(Effect::Dead { row, attempts, error });
            return;
        }
        if lane.attempts == 0 {
            self.n_troubled += 1;
            if let Some(window) = self.windows.get_mut(&row.route) {
                window.n_troubled += 1;
            }
        }
        lane.attempts = attempts;
        let until = now + self.settings.pause(attempts, retry_after, &mut self.rng);
        lane.state = State::Waiting(until);
        self.waiting.insert((until, id));
        self.unload(id);
    }

    /// A lane whose rows were flying becomes ready again, or goes if it is empty.
    fn settle(&mut self, id: u64) {
        self.leave_routes(id);
        let Some(lane) = self.lanes.get(&id) else {
            return;
        };
        let is_flying = matches!(lane.state, State::Flying(_));
        if lane.rows.is_empty() {
            self.lanes.remove(&id);
        } else if is_flying {
            self.make_ready(id);
        }
        self.look_behind(id);
    }

    /// Forgets rows that were flying when their route went away. They are read again when it comes back.
    fn leave_routes(&mut self, id: u64) {
        while let Some(row) = self.lanes.get(&id).and_then(|lane| lane.rows.front()).cloned()
            && !self.windows.contains_key(&row.route)
        {
            self.pop(&row);
        }
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.rows.retain(|row| self.windows.contains_key(&row.route));
        }
    }

    fn note_health(&mut self, batch: u64, rows: &[Row], fates: &[Fate], now: Instant) {
        let arrived = |fate: &Fate| matches!(fate, Fate::Delivered | Fate::Refused(_));
        if fates.iter().any(arrived) {
            if self.health.works() {
                // Those that failed only because the sink was down need not rest any longer.
                let rested: Vec<u64> = self.waiting.iter().map(|(_, id)| *id).collect();
                self.waiting.clear();
                for id in rested {
                    self.make_ready(id);
                }
            }
            return;
        }
        let failed = rows.iter().zip(fates).find_map(|(row, fate)| match fate {
            Fate::Failed { retry_after, .. } => Some((row.lane, *retry_after)),
            _ => None,
        });
        if let Some((lane, retry_after)) = failed {
            // One that failed before says little about the sink.
            let is_new = self.lanes.get(&lane).is_some_and(|lane| lane.attempts == 0);
            if !is_new && self.health.probe_at().is_none() {
                return;
            }
            self.health
                .fails(batch, lane, retry_after, now, &self.settings, &mut self.rng);
        }
    }
}
