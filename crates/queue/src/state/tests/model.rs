//! Random histories against a model that is too slow to use and too simple to be wrong.
//!
//! Prints its seed; `SEED=n` replays it.

use std::collections::BTreeMap;

use super::{Bench, config, tenant};
use crate::config::Priority;
use crate::work::Outcome;

/// Keys without failures and delays: what must be ready, in which order.
#[derive(Default)]
pub(super) struct Model {
    /// Ready keys of each priority and tenant.
    lines: BTreeMap<(Priority, &'static str), Vec<u32>>,
    pub(super) running: BTreeMap<u32, u32>,
    again: BTreeMap<u32, Priority>,
    /// Keys on trays, and the highest priority they were added with there.
    laid_out: BTreeMap<u32, Option<Priority>>,
}

impl Model {
    pub(super) fn add(&mut self, key: u32, priority: Priority) {
        if let Some(raised) = self.laid_out.get_mut(&key) {
            *raised = Some(priority).max(*raised);
            return;
        }
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
    fn next(&mut self, key: u32) {
        assert!(!self.running.contains_key(&key), "{key} twice at once");
        let line = self.lines.values_mut().find(|line| line.first() == Some(&key));
        line.unwrap_or_else(|| panic!("{key} is not first in a line"))
            .remove(0);
    }

    pub(super) fn taken(&mut self, key: u32, id: u32) {
        self.next(key);
        self.running.insert(key, id);
    }

    pub(super) fn laid_out(&mut self, key: u32) {
        self.next(key);
        self.laid_out.insert(key, None);
    }

    pub(super) fn begun(&mut self, key: u32, id: u32) {
        assert!(self.laid_out.remove(&key).is_some());
        self.running.insert(key, id);
    }

    pub(super) fn given_back(&mut self, key: u32, before: Priority) {
        let raised = self.laid_out.remove(&key).expect("it was laid out");
        match raised.filter(|raised| *raised > before) {
            Some(raised) => self.line(raised, key).push(key),
            None => self.line(before, key).insert(0, key),
        }
    }

    pub(super) fn done(&mut self, key: u32) {
        self.running.remove(&key);
        if let Some(priority) = self.again.remove(&key) {
            self.add(key, priority);
        }
    }

    pub(super) fn n_ready(&self) -> usize {
        self.lines.values().map(Vec::len).sum()
    }
}

pub(super) fn seeds(n: u64) -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..n).collect(),
    }
}

/// Names the seed when a test fails.
pub(super) struct Named(pub(super) u64);

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
