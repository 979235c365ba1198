//! Random histories of a queue that waits for quiet, against a model of when keys are due.

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::{Named, seeds};
use super::{Bench, config};
use crate::config::{Config, Debounce};
use crate::work::Outcome;

const DEBOUNCE: Debounce = Debounce {
    quiet: Duration::from_millis(50),
    max_wait: Duration::from_millis(200),
};

/// The first and the last add of a key since its last run began.
#[derive(Clone, Copy)]
struct Adds {
    first: Duration,
    last: Duration,
}

impl Adds {
    fn due(self) -> Duration {
        (self.last + DEBOUNCE.quiet).min(self.first + DEBOUNCE.max_wait)
    }
}

#[test]
fn keys_are_handed_out_when_quiet_and_not_before() {
    for seed in seeds(500) {
        let _named = Named(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bench = Bench::new(Config {
            debounce: Some(DEBOUNCE),
            ..config()
        });
        let (mut waiting, mut running) = (BTreeMap::<u32, Adds>::new(), BTreeMap::new());
        for _ in 0..300 {
            match random.u32(0..8) {
                0..=2 => {
                    let (key, now) = (random.u32(0..4), bench.now);
                    // What is due is ready, and an add of it changes nothing.
                    bench.state.tick(bench.moment());
                    bench.add(key);
                    let fresh = Adds {
                        first: now,
                        last: now,
                    };
                    let adds = waiting.entry(key).or_insert(fresh);
                    if adds.due() > now || running.contains_key(&key) {
                        adds.last = now;
                    }
                }
                3 | 4 => match bench.take() {
                    Some((key, id)) => {
                        let adds = waiting.remove(&key).expect("was added");
                        assert!(adds.due() <= bench.now, "too early");
                        running.insert(key, id);
                    }
                    None => {
                        let late = |(key, adds): (&u32, &Adds)| {
                            adds.due() <= bench.now && !running.contains_key(key)
                        };
                        assert!(!waiting.iter().any(late), "too late");
                    }
                },
                5 => {
                    let all: Vec<_> = running.keys().copied().collect();
                    if let Some(id) = random.choice(all).and_then(|key| running.remove(&key)) {
                        bench.finish(id, Outcome::Done);
                    }
                }
                _ => bench.pass(random.u64(0..40)),
            }
        }
    }
}
