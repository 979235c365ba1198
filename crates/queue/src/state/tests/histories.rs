//! Random histories with everything in them: delays, failures, forgetting, limits, and a shutdown at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::model::{Named, seeds};
use super::{Bench, config, hash};
use crate::config::{Config, Debounce, Leftovers, Priority, RateLimit};
use crate::work::Outcome;

const RATE_LIMIT: RateLimit = RateLimit {
    per_second: 20.0,
    burst: 5,
};

/// A queue in use, and what it owes.
struct History {
    bench: Bench,
    random: fastrand::Rng,
    limited: bool,
    n_taken: u32,
    /// Keys added since their last run began.
    owed: BTreeSet<u32>,
    /// Slots of the keys that run.
    running: BTreeMap<u32, u32>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let debounce = Debounce {
            quiet: Duration::from_millis(50),
            max_wait: Duration::from_millis(200),
        };
        let limited = random.bool();
        let bench = Bench::new(Config {
            max_attempts: Some(3),
            max_dead_letters: 4,
            debounce: random.bool().then_some(debounce),
            rate_limit: limited.then_some(RATE_LIMIT),
            seed: Some(seed),
            ..config()
        });
        Self {
            bench,
            random,
            limited,
            n_taken: 0,
            owed: BTreeSet::new(),
            running: BTreeMap::new(),
        }
    }

    fn live(&mut self, n_steps: u32) {
        for _ in 0..n_steps {
            let key = self.random.u32(0..12);
            match self.random.u32(0..14) {
                0..=3 => self.add(key),
                4..=7 => self.take(),
                8 | 9 => self.finish(),
                10 => {
                    let now = self.bench.moment();
                    self.bench.state.forget(hash(key), &key, now);
                }
                11 => self.put_back_or_discard(key),
                _ => self.bench.pass(self.random.u64(0..1_500)),
            }
            assert_eq!(self.bench.state.n_running(), self.running.len());
        }
    }

    fn add(&mut self, key: u32) {
        let after = self.random.bool().then(|| self.random.u64(0..2_000));
        let priority = Priority::ALL[self.random.usize(0..3)];
        self.bench.add_as(key, priority, after);
        self.owed.insert(key);
    }

    fn take(&mut self) {
        let Some((key, id)) = self.bench.take() else {
            return;
        };
        assert!(self.running.insert(key, id).is_none(), "{key} twice at once");
        self.owed.remove(&key);
        self.n_taken += 1;
        let earned = RATE_LIMIT.per_second * self.bench.now.as_secs_f64();
        let allowed = f64::from(RATE_LIMIT.burst) + earned + 1e-3;
        assert!(!self.limited || f64::from(self.n_taken) <= allowed, "too fast");
    }

    fn finish(&mut self) {
        let all: Vec<_> = self.running.iter().map(|(key, id)| (*key, *id)).collect();
        let Some((key, id)) = self.random.choice(all) else {
            return;
        };
        self.running.remove(&key);
        let outcome = match self.random.u32(0..6) {
            0 | 1 => Outcome::Done,
            5 => Outcome::PutOff(Duration::from_millis(self.random.u64(0..100))),
            2 => Outcome::RequeueAfter(Duration::from_millis(self.random.u64(0..100))),
            3 => Outcome::Failed("broken".to_owned()),
            _ => Outcome::Terminal("never".to_owned()),
        };
        self.bench.finish(id, outcome);
    }

    fn put_back_or_discard(&mut self, key: u32) {
        let now = self.bench.moment();
        if !self.random.bool() {
            self.bench.state.discard(hash(key), &key, now);
        } else if self.bench.state.put_back(hash(key), &key, now) {
            self.owed.insert(key);
        }
    }

    /// Nothing is left but what is dead.
    fn assert_empty(&mut self) {
        let now = self.bench.moment();
        let n_dead = self.bench.state.dead_letters(now).len();
        let n_kept = n_dead + self.bench.state.n_resting;
        assert_eq!(self.bench.state.entries.len(), n_kept, "leaked");
        assert_eq!(self.bench.state.ready.n_awake() > 0, n_dead > 0, "tenants leaked");
        assert!(self.bench.state.n_failing <= n_dead, "failures leaked");
    }
}

/// A key added after its last run began is always run again, or dead.
#[test]
fn no_added_key_is_lost_whatever_happens() {
    for seed in seeds(1_000) {
        let _named = Named(seed);
        let mut history = History::new(seed);
        history.live(300);
        for id in std::mem::take(&mut history.running).into_values() {
            history.bench.finish(id, Outcome::Done);
        }
        while history.bench.state.n_ready() + history.bench.state.n_waiting() > 0 {
            while let Some((key, id)) = history.bench.take() {
                history.owed.remove(&key);
                history.bench.finish(id, Outcome::Done);
            }
            history.bench.pass(10_000);
        }
        assert_eq!(history.owed, BTreeSet::new(), "lost");
        history.assert_empty();
    }
}

#[test]
fn a_closed_queue_hands_out_what_was_ready_and_nothing_else() {
    for seed in seeds(1_000) {
        let _named = Named(seed);
        let mut history = History::new(seed);
        history.live(200);
        let leftovers = [Leftovers::HandOut, Leftovers::LetGo][history.random.usize(0..2)];
        let (n_ready, n_waiting) = (history.bench.state.n_ready(), history.bench.state.n_waiting());
        let n_gone = history.bench.state.close(leftovers);
        let handed_out = leftovers == Leftovers::HandOut;
        assert_eq!(n_gone, n_waiting + if handed_out { 0 } else { n_ready });
        history.add(0);
        history.bench.pass(100_000);
        let mut n_taken = 0;
        while let Some((_, id)) = history.bench.take() {
            n_taken += 1;
            history
                .bench
                .finish(id, Outcome::Failed("not retried".to_owned()));
            // The rate limit holds to the end.
            history.bench.pass(1_000);
        }
        assert_eq!(n_taken, if handed_out { n_ready } else { 0 });
        // What was asked for during these runs is still owed, if it may be handed out at all.
        for id in std::mem::take(&mut history.running).into_values() {
            history.bench.finish(id, Outcome::Done);
        }
        while let Some((key, id)) = history.bench.take() {
            assert!(handed_out && history.owed.contains(&key));
            let again = [Outcome::RequeueAfter, Outcome::PutOff][history.random.usize(0..2)];
            history.bench.finish(id, again(Duration::ZERO));
            history.owed.remove(&key);
            history.bench.pass(1_000);
        }
        assert!(history.bench.state.is_drained());
        history.assert_empty();
    }
}
