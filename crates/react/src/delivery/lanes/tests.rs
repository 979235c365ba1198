//! The machine by itself, against pending rows in a map.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use skopos_api::OrderBy;
use skopos_journal::Seq;
use tokio::time::Instant;

use super::{
    Effect, Fate, Input, Lanes, RouteId, Row,
    window::{MAX_TROUBLED, WINDOW},
};
use crate::delivery::{plan::Settings, store::Cause};

const ROUTE: RouteId = RouteId(1);

fn settings() -> Settings {
    Settings {
        max_attempts: None,
        backoff_initial: Duration::from_millis(500),
        backoff_max: Duration::from_secs(180),
        order_by: OrderBy::Object,
        concurrency: 8,
        max_batch: 10,
        timeout: Duration::from_secs(30),
        max_per_second: None,
        max_bytes: 1 << 20,
    }
}

/// A machine, and what would be on disk.
struct Bench {
    lanes: Lanes,
    pending: BTreeMap<u64, u64>,
    flights: Vec<(u64, Vec<Row>)>,
    delivered: Vec<(u64, u64)>,
    dead: BTreeSet<u64>,
    most_rows: usize,
    now: Instant,
}

impl Bench {
    fn new(settings: Settings, lanes: impl Iterator<Item = u64>) -> Self {
        let mut bench = Self {
            lanes: Lanes::new(settings, 7),
            pending: (0..).zip(lanes).collect(),
            flights: Vec::new(),
            delivered: Vec::new(),
            dead: BTreeSet::new(),
            most_rows: 0,
            now: Instant::now(),
        };
        bench.step(Input::Routes([ROUTE].into()));
        bench
    }

    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.lanes.step(input, self.now) {
                match effect {
                    Effect::Load { route, from, limit } => {
                        let rows: Vec<Row> = self.pending.range(from..).take(limit).map(row).collect();
                        let ended = rows.len() < limit;
                        inputs.push(Input::Loaded { route, rows, ended });
                    }
                    Effect::Send { batch, rows, .. } => self.flights.push((batch, rows)),
                    Effect::Done(row) => {
                        self.pending.remove(&row.ord);
                        self.delivered.push((row.lane, row.ord));
                    }
                    Effect::Dead { row, .. } => {
                        self.pending.remove(&row.ord);
                        self.dead.insert(row.ord);
                    }
                }
            }
            let n_rows = self.lanes.lanes.values().map(|lane| lane.rows.len()).sum();
            self.most_rows = self.most_rows.max(n_rows);
        }
    }

    /// Lands everything that flies; a batch stops at the first row for which `fate` is no delivery.
    fn land(&mut self, mut fate: impl FnMut(&Row) -> Fate) {
        for (batch, rows) in std::mem::take(&mut self.flights) {
            let mut has_stopped = false;
            let fates = rows.iter().map(|row| {
                if has_stopped {
                    return Fate::Untouched;
                }
                let fate = fate(row);
                has_stopped = fate != Fate::Delivered;
                fate
            });
            let fates = fates.collect();
            self.step(Input::Sent { batch, fates });
        }
    }

    /// Lets time pass until the machine wants to go on.
    fn rest(&mut self) {
        if self.flights.is_empty() {
            self.now = self.lanes.deadline().expect("there is something to do");
            self.step(Input::Tick);
        }
    }

    #[track_caller]
    fn check_order(&self) {
        let mut last: HashMap<u64, u64> = HashMap::new();
        for (lane, ord) in &self.delivered {
            let before = last.insert(*lane, *ord);
            assert!(
                before.is_none_or(|before| before < *ord),
                "lane {lane}: {ord} after {before:?}"
            );
        }
    }
}

fn row((&ord, &lane): (&u64, &u64)) -> Row {
    Row {
        route: ROUTE,
        ord,
        seq: Seq(ord),
        cause: Cause::Change,
        action: 0,
        lane,
        key: None,
    }
}

fn failed() -> Fate {
    Fate::Failed {
        retry_after: None,
        error: "down".into(),
    }
}

#[test]
fn a_sink_that_is_down_keeps_a_window_in_memory_however_much_is_pending() {
    let mut bench = Bench::new(settings(), (0..1_000_000).map(|n| n % 5000));
    for _ in 0..100 {
        bench.land(|_| failed());
        bench.rest();
    }
    assert!(bench.most_rows <= WINDOW, "{} rows", bench.most_rows);
    assert_eq!(bench.pending.len(), 1_000_000);
}

#[test]
fn objects_that_fail_do_not_fill_the_window_up() {
    // Of 300 objects 200 fail; they have most of the rows, and come first.
    let lanes = (0..60_000).map(|n| if n % 10 == 9 { 200 + n / 10 % 100 } else { n % 200 });
    let mut bench = Bench::new(settings(), lanes);
    for _ in 0..4000 {
        bench.land(|row| if row.lane < 200 { failed() } else { Fate::Delivered });
        bench.rest();
    }
    let n_healthy = bench.delivered.iter().filter(|(lane, _)| *lane >= 200).count();
    assert_eq!(n_healthy, 6000, "all others arrived");
    assert!(
        bench.most_rows <= WINDOW + MAX_TROUBLED,
        "{} rows",
        bench.most_rows
    );
    while !bench.pending.is_empty() {
        bench.land(|_| Fate::Delivered);
        if !bench.pending.is_empty() {
            bench.rest();
        }
    }
    assert_eq!(bench.delivered.len(), 60_000);
    bench.check_order();
}

#[test]
fn one_object_with_very_many_rows_leaves_room_for_others() {
    let lanes = (0..100_000).map(|n| if n % 100 == 0 { n } else { 1 });
    let mut bench = Bench::new(settings(), lanes);
    for _ in 0..200 {
        bench.land(|_| Fate::Delivered);
    }
    let others = bench.delivered.iter().filter(|(lane, _)| *lane != 1).count();
    assert_eq!(others, 1000, "they need not wait for the one before them");
    while !bench.pending.is_empty() {
        bench.land(|_| Fate::Delivered);
    }
    bench.check_order();
}

#[test]
fn whatever_fails_everything_arrives_once_in_order_or_is_dead() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let n_lanes = rng.u64(1..400);
        let settings = Settings {
            max_attempts: [None, Some(1), Some(4)][rng.usize(..3)],
            concurrency: rng.usize(1..9),
            max_batch: [1, 10, 100][rng.usize(..3)],
            ..settings()
        };
        let lanes: Vec<u64> = (0..rng.usize(1..4000)).map(|_| rng.u64(..n_lanes)).collect();
        let n_rows = lanes.len();
        let mut bench = Bench::new(settings, lanes.into_iter());
        let mut n_turns = 0;
        while !bench.pending.is_empty() {
            n_turns += 1;
            assert!(n_turns < 100_000, "seed {seed} makes no progress");
            if rng.u32(..50) == 0 {
                bench.step(Input::Routes([].into()));
                bench.step(Input::Routes([ROUTE].into()));
            }
            let badness = [0, 10, 95][rng.usize(..3)];
            bench.land(|_| match rng.u32(..100) {
                n if n < badness => failed(),
                99 => Fate::Refused("no".into()),
                _ => Fate::Delivered,
            });
            if !bench.pending.is_empty() {
                bench.rest();
            }
        }
        assert_eq!(bench.delivered.len() + bench.dead.len(), n_rows, "seed {seed}");
        bench.check_order();
    }
}

/// Both rules have their first delivery about the same object; what the second has waits behind the first, which rests.
#[test]
fn a_rule_that_goes_while_its_row_rests_leaves_neither_pause_nor_attempts_to_the_next() {
    let other = RouteId(2);
    let mut lanes = Lanes::new(settings(), 7);
    let now = Instant::now();
    let first_of = |route| Input::Loaded {
        route,
        rows: vec![Row {
            route,
            ..row((&0, &5))
        }],
        ended: true,
    };
    lanes.step(Input::Routes([ROUTE, other].into()), now);
    lanes.step(first_of(ROUTE), now);
    lanes.step(first_of(other), now);
    let fates = vec![failed()];
    lanes.step(Input::Sent { batch: 0, fates }, now);
    assert_eq!(lanes.waiting.len(), 1);
    let mut effects = lanes.step(Input::Routes([other].into()), now);
    if let [Effect::Load { route, from: 0, .. }] = effects[..] {
        effects = lanes.step(first_of(route), now);
    }
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::Send { rows, n_failed, .. } => Some((rows[0].route, *n_failed)),
        _ => None,
    });
    assert_eq!(sent, Some((other, 0)), "{effects:?}");
}

#[test]
fn a_lane_that_failed_goes_alone() {
    let mut bench = Bench::new(settings(), [1, 2, 3].into_iter());
    assert_eq!(bench.flights[0].1.len(), 3);
    bench.land(|_| failed());
    let rest: Vec<u64> = bench
        .flights
        .iter()
        .flat_map(|(_, rows)| rows)
        .map(|row| row.lane)
        .collect();
    assert_eq!(rest, [2, 3]);
    bench.land(|_| Fate::Delivered);
    bench.rest();
    assert_eq!(bench.flights.len(), 1);
    assert_eq!(bench.flights[0].1.len(), 1);
}
