//! Random histories against a model that is too slow to use and too simple to be wrong.
//!
//! Prints its seed; `SEED=n` replays it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bench, config, tenant};
use crate::config::{Config, Priority};
use crate::work::Outcome;

/// Keys without failures and delays: what must be ready, in which order.
#[derive(Default)]
struct Model {
    /// Ready keys of each priority and tenant.
    lines: BTreeMap<(Priority, &'static str), Vec<u32>>,
    running: BTreeMap<u32, u32>,
    again: BTreeMap<u32, Priority>,
}

impl Model {
    fn add(&mut self, key: u32, priority: Priority) {
        if self.running.contains_key(&key) {
            let again = self.again.entry(key).or_insert(priority);
            *again = priority.max(*again);
            return;
        }
        let old = Priority::ALL
            .into_iter()
            .find(|old| self.line(*old, key).contains(&key));
        match old {
            Some(old) if old >= priority => return,
            Some(old) => self.line(old, key).retain(|other| *other != key),
            None => {}
        }
        self.line(priority, key).push(key);
    }

    fn line(&mut self, priority: Priority, key: u32) -> &mut Vec<u32> {
        self.lines.entry((priority, tenant(&key))).or_default()
    }

    /// Checks that `key` may be next: it is the first of a line.
    fn taken(&mut self, key: u32, id: u32) {
        assert!(!self.running.contains_key(&key), "{key} twice at once");
        let line = self.lines.values_mut().find(|line| line.first() == Some(&key));
        line.unwrap_or_else(|| panic!("{key} is not first in a line"))
            .remove(0);
        self.running.insert(key, id);
    }

    fn done(&mut self, key: u32) {
        self.running.remove(&key);
        if let Some(priority) = self.again.remove(&key) {
            self.add(key, priority);
        }
    }

    fn n_ready(&self) -> usize {
        self.lines.values().map(Vec::len).sum()
    }
}

fn seeds(n: u64) -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..n).collect(),
    }
}

/// Names the seed when a test fails.
struct Named(u64);

impl Drop for Named {
    #[expect(clippy::print_stderr, reason = "tells how to replay a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SEED={}", self.0);
        }
    }
}

#[test]
fn random_adds_and_takes_agree_with_the_model() {
    for seed in seeds(1_000) {
        let _named = Named(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut bench, mut model) = (Bench::new(config()), Model::default());
        for _ in 0..200 {
            match random.u32(0..5) {
                0..=2 => {
                    let key = random.u32(0..4) * 1000 + random.u32(0..6);
                    let priority = Priority::ALL[random.usize(0..3)];
                    bench.add_as(key, priority, None);
                    model.add(key, priority);
                }
                3 => match bench.take() {
                    Some((key, id)) => model.taken(key, id),
                    None => assert_eq!(model.n_ready(), 0),
                },
                _ => {
                    let running: Vec<_> = model.running.clone().into_iter().collect();
                    if let Some((key, id)) = random.choice(running) {
                        bench.finish(id, Outcome::Done);
                        model.done(key);
                    }
                }
            }
            assert_eq!(bench.state.n_ready(), model.n_ready());
            assert_eq!(bench.state.n_running(), model.running.len());
        }
    }
}

/// With every outcome and delay mixed in: a key added after its last run began is always run again or dead.
#[test]
fn no_added_key_is_lost_whatever_the_outcomes() {
    for seed in seeds(1_000) {
        let _named = Named(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bench = Bench::new(Config {
            max_attempts: Some(3),
            max_dead_letters: 4,
            seed: Some(seed),
            ..config()
        });
        let (mut owed, mut running) = (BTreeSet::new(), BTreeMap::new());
        for _ in 0..300 {
            match random.u32(0..6) {
                0 | 1 => {
                    let key = random.u32(0..12);
                    let after = random.bool().then(|| random.u64(0..2_000));
                    bench.add_as(key, Priority::ALL[random.usize(0..3)], after);
                    owed.insert(key);
                }
                2 | 3 => {
                    if let Some((key, id)) = bench.take() {
                        assert!(running.insert(key, id).is_none(), "{key} twice at once");
                        owed.remove(&key);
                    }
                }
                4 => {
                    let all: Vec<_> = running.clone().into_iter().collect();
                    if let Some((key, id)) = random.choice(all) {
                        running.remove(&key);
                        bench.finish(id, outcome(&mut random));
                    }
                }
                _ => bench.pass(random.u64(0..1_500)),
            }
        }
        for id in running.into_values() {
            bench.finish(id, Outcome::Done);
        }
        while bench.state.n_ready() + bench.state.n_waiting() > 0 {
            while let Some((key, id)) = bench.take() {
                owed.remove(&key);
                bench.finish(id, Outcome::Done);
            }
            bench.pass(10_000);
        }
        assert_eq!(owed, BTreeSet::new(), "lost");
        let now = bench.moment();
        assert_eq!(
            bench.state.entries.len(),
            bench.state.dead_letters(now).len(),
            "leaked"
        );
    }
}

fn outcome(random: &mut fastrand::Rng) -> Outcome {
    match random.u32(0..5) {
        0 | 1 => Outcome::Done,
        2 => Outcome::RequeueAfter(std::time::Duration::from_millis(random.u64(0..100))),
        3 => Outcome::Failed("broken".to_owned()),
        _ => Outcome::Terminal("never".to_owned()),
    }
}
