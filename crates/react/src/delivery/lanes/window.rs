//! Which pending rows are in memory.
//!
//! Rows are read forward from a cursor. Rows of a lane that fails, or that has enough rows loaded, are passed over;
//! `behind` remembers from where on, and when the lane can take rows again they are read from there, for all such
//! lanes in one pass.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use skopos_api::OrderBy;

use super::{Effect, LANE_ROWS, Lane, Lanes, RouteId, Row, State};

/// The loaded part of a route.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Rows in memory.
    pub(super) n_loaded: usize,
    /// Of those, first rows of lanes that fail. They do not fill the window up.
    pub(super) n_troubled: usize,
    /// Up to here everything was looked at.
    cursor: u64,
    is_exhausted: bool,
    loading: Option<Loading>,
    /// Lanes with rows that were passed over, and the first of those.
    behind: HashMap<u64, u64>,
    look_behind: bool,
    /// Rows that were being sent when the route came back.
    flying: HashSet<u64>,
}

#[derive(Debug)]
enum Loading {
    Forward,
    /// For these lanes.
    Behind(BTreeSet<u64>),
}

/// Rows of a route in memory at most, without the first rows of lanes that fail.
pub(super) const WINDOW: usize = 1024;
/// Lanes that fail at most before nothing more is loaded.
pub(super) const MAX_TROUBLED: usize = 1024;
/// Lanes with rows passed over at most, per route, before nothing more is passed over.
const MAX_BEHIND: usize = 4096;
/// Rows read at once.
const PAGE: usize = 512;

impl Window {
    fn room(&self) -> usize {
        (WINDOW + self.n_troubled).saturating_sub(self.n_loaded)
    }

    /// Lanes have got everything before `reached` that had been passed over.
    fn passed(&mut self, lanes: &BTreeSet<u64>, reached: u64) {
        for lane in lanes {
            if reached >= self.cursor {
                self.behind.remove(lane);
            } else if let Some(from) = self.behind.get_mut(lane) {
                *from = reached.max(*from);
            }
        }
        self.look_behind |= !lanes.is_empty() && reached < self.cursor;
    }

    fn pass_over(&mut self, lane: u64, ord: u64) {
        let from = self.behind.entry(lane).or_insert(ord);
        *from = ord.min(*from);
    }
}

impl Lanes {
    /// Only these routes deliver from now on. What is being sent for others is let be.
    pub(super) fn set_routes(&mut self, routes: &BTreeSet<RouteId>) {
        self.windows.retain(|route, _| routes.contains(route));
        let ids: Vec<u64> = self.lanes.keys().copied().collect();
        for id in ids {
            self.keep_only(id, routes);
        }
        for route in routes {
            if !self.windows.contains_key(route) {
                let window = self.window_of(*route);
                self.windows.insert(*route, window);
            }
        }
        self.recount();
    }

    /// Reads everything again that is not being sent.
    pub(super) fn reload(&mut self) {
        let routes = self.windows.keys().copied().collect();
        self.set_routes(&BTreeSet::new());
        self.set_routes(&routes);
    }

    fn keep_only(&mut self, id: u64, routes: &BTreeSet<RouteId>) {
        let lane = self
            .lanes
            .get_mut(&id)
            .expect("lane present: its id is from the map");
        let n_flying = match lane.state {
            State::Flying(n) => n,
            State::Ready | State::Waiting(_) => 0,
        };
        let mut place = 0;
        lane.rows.retain(|row| {
            place += 1;
            place <= n_flying || routes.contains(&row.route)
        });
        // A lane that fails has only its first row in memory: if that goes, its attempts and its pause go with it.
        if lane.rows.is_empty() {
            self.lanes.remove(&id);
            self.ready.retain(|ready| *ready != id);
            self.waiting.retain(|(_, waiting)| *waiting != id);
            // Rows of other routes may have been passed over for its sake.
            self.look_behind(id);
        }
    }

    /// The window of a route that is new, or was away while rows of it were being sent.
    fn window_of(&self, route: RouteId) -> Window {
        let rows = self.lanes.values().flat_map(|lane| &lane.rows);
        let flying = rows.filter(|row| row.route == route).map(|row| row.ord);
        Window {
            flying: flying.collect(),
            ..Window::default()
        }
    }

    fn recount(&mut self) {
        for window in self.windows.values_mut() {
            (window.n_loaded, window.n_troubled) = (0, 0);
        }
        self.n_troubled = 0;
        for lane in self.lanes.values() {
            self.n_troubled += usize::from(lane.attempts > 0);
            for (place, row) in lane.rows.iter().enumerate() {
                if let Some(window) = self.windows.get_mut(&row.route) {
                    window.n_loaded += 1;
                    window.n_troubled += usize::from(place == 0 && lane.attempts > 0);
                }
            }
        }
    }

    pub(super) fn more(&mut self, route: RouteId) {
        if let Some(window) = self.windows.get_mut(&route) {
            window.is_exhausted = false;
        }
    }

    /// Asks for rows where there is room.
    pub(super) fn load(&mut self, effects: &mut Vec<Effect>) {
        let can_go_on = self.n_troubled < MAX_TROUBLED;
        for (&route, window) in &mut self.windows {
            if window.loading.is_some() || window.room() < WINDOW / 4 {
                continue;
            }
            if std::mem::take(&mut window.look_behind) {
                let wanting = wanting(&self.lanes, window);
                if let Some(&from) = wanting.iter().filter_map(|lane| window.behind.get(lane)).min() {
                    window.loading = Some(Loading::Behind(wanting));
                    let limit = PAGE;
                    effects.push(Effect::Load { route, from, limit });
                    continue;
                }
            }
            if can_go_on && !window.is_exhausted && window.behind.len() < MAX_BEHIND {
                window.loading = Some(Loading::Forward);
                let (from, limit) = (window.cursor, PAGE.min(window.room()));
                effects.push(Effect::Load { route, from, limit });
            }
        }
    }

    pub(super) fn loaded(&mut self, route: RouteId, mut rows: Vec<Row>, ended: bool) {
        if self.settings.order_by == OrderBy::None {
            for row in &mut rows {
                // Each is a lane of its own.
                row.lane = (u64::from(row.route.0) << 40) ^ row.ord;
            }
        }
        let loading = self
            .windows
            .get_mut(&route)
            .and_then(|window| window.loading.take());
        match loading {
            Some(Loading::Forward) => self.loaded_forward(route, rows, ended),
            Some(Loading::Behind(wanting)) => self.loaded_behind(route, wanting, rows, ended),
            // The route went away and came back meanwhile.
            None => {}
        }
    }

    fn loaded_forward(&mut self, route: RouteId, rows: Vec<Row>, ended: bool) {
        for row in rows {
            let can_take = self.can_take(row.lane);
            let window = self
                .windows
                .get_mut(&route)
                .expect("window present: it was loading");
            let is_behind = window.behind.contains_key(&row.lane);
            let is_flying = window.flying.remove(&row.ord);
            if !is_flying && can_take && !is_behind {
                if window.room() == 0 {
                    return;
                }
                window.cursor = row.ord + 1;
                self.accept(row);
                continue;
            }
            if !is_flying {
                if !is_behind && window.behind.len() >= MAX_BEHIND {
                    return;
                }
                window.pass_over(row.lane, row.ord);
            }
            window.cursor = row.ord + 1;
        }
        let window = self
            .windows
            .get_mut(&route)
            .expect("window present: it was loading");
        window.is_exhausted = ended;
    }

    fn loaded_behind(&mut self, route: RouteId, mut wanting: BTreeSet<u64>, rows: Vec<Row>, ended: bool) {
        let mut is_full = false;
        let mut reached = 0;
        for row in rows {
            let can_take = self.can_take(row.lane);
            let window = self
                .windows
                .get_mut(&route)
                .expect("window present: it was loading");
            reached = row.ord;
            if row.ord >= window.cursor {
                break;
            }
            let from = window.behind.get(&row.lane).copied();
            let is_wanted = wanting.contains(&row.lane) && from.is_some_and(|from| row.ord >= from);
            if is_wanted && window.room() == 0 {
                is_full = true;
                break;
            }
            reached = row.ord + 1;
            if is_wanted && can_take {
                self.accept(row);
            } else if is_wanted {
                window.behind.insert(row.lane, row.ord);
                wanting.remove(&row.lane);
            }
        }
        let window = self
            .windows
            .get_mut(&route)
            .expect("window present: it was loading");
        if ended && !is_full {
            reached = window.cursor;
        }
        window.passed(&wanting, reached);
    }

    fn can_take(&self, id: u64) -> bool {
        match self.lanes.get(&id) {
            Some(lane) => lane.attempts == 0 && lane.rows.len() < LANE_ROWS,
            None => true,
        }
    }

    fn accept(&mut self, row: Row) {
        let id = row.lane;
        if let Some(window) = self.windows.get_mut(&row.route) {
            window.n_loaded += 1;
        }
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.rows.push_back(row);
            return;
        }
        self.lanes.insert(
            id,
            Lane {
                rows: VecDeque::from([row]),
                state: State::Ready,
                attempts: 0,
            },
        );
        self.ready.push_back(id);
    }

    /// Of a lane that fails only the first row stays in memory.
    pub(super) fn unload(&mut self, id: u64) {
        let lane = self.lanes.get_mut(&id).expect("lane present: it just failed");
        let rows = lane.rows.split_off(1);
        for row in rows {
            if let Some(window) = self.windows.get_mut(&row.route) {
                window.n_loaded = window.n_loaded.saturating_sub(1);
                window.pass_over(id, row.ord);
            }
        }
    }

    /// Notes that a lane may take rows which were passed over.
    pub(super) fn look_behind(&mut self, id: u64) {
        let lane = self.lanes.get(&id);
        let has_room = lane.is_none_or(|lane| lane.attempts == 0 && lane.rows.len() <= LANE_ROWS / 2);
        if !has_room {
            return;
        }
        for window in self.windows.values_mut() {
            window.look_behind |= window.behind.contains_key(&id);
        }
    }
}

/// The lanes that can take rows which were passed over.
fn wanting(lanes: &HashMap<u64, Lane>, window: &Window) -> BTreeSet<u64> {
    let can_take = |id: &&u64| {
        let lane = lanes.get(*id);
        lane.is_none_or(|lane| lane.attempts == 0 && lane.rows.len() <= LANE_ROWS / 2)
    };
    window.behind.keys().filter(can_take).copied().collect()
}
