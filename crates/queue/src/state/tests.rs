//! The state machine alone: single behaviours, and random histories against a model.

mod backoff;
mod behaviour;
mod debounce;
mod histories;
mod model;
mod trays;

use std::time::Duration;

use super::{State, Taken};
use crate::config::{AddOptions, Config, Priority};
use crate::moment::Moment;
use crate::work::Outcome;

/// A state with its clock; keys are `tenant * 1000 + n`.
struct Bench {
    state: State<u32>,
    now: Duration,
}

fn tenant(key: &u32) -> &'static str {
    ["a", "b", "c", "d"][(*key as usize / 1000) % 4]
}

fn config() -> Config<u32> {
    Config {
        tenant: |key| tenant(key),
        seed: Some(1),
        ..Config::default()
    }
}

impl Bench {
    fn new(config: Config<u32>) -> Self {
        Self {
            state: State::new(config),
            now: Duration::ZERO,
        }
    }

    fn moment(&self) -> Moment {
        Moment::at(self.now)
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    fn add(&mut self, key: u32) {
        self.add_as(key, Priority::High, None);
    }

    fn add_as(&mut self, key: u32, priority: Priority, after_millis: Option<u64>) {
        let after = after_millis.map(Duration::from_millis);
        let now = self.moment();
        self.state
            .add(key, hash(key), AddOptions { priority, after }, now);
    }

    /// The next key and its slot.
    fn take(&mut self) -> Option<(u32, u32)> {
        match self.state.take(self.moment()) {
            Taken::Key(handed) => Some((handed.key, handed.id)),
            Taken::Nothing(_) | Taken::Closed => None,
        }
    }

    fn finish(&mut self, id: u32, outcome: Outcome) {
        let now = self.moment();
        let (is_given_up, n_dead) = (self.state.is_given_up_after(id, &outcome), self.state.n_dead);
        self.state.finish(id, outcome, now);
        assert_eq!(self.state.n_dead - n_dead, usize::from(is_given_up));
    }

    /// Takes a key and finishes it; the key.
    fn run(&mut self, outcome: Outcome) -> Option<u32> {
        let (key, id) = self.take()?;
        self.finish(id, outcome);
        Some(key)
    }

    fn fail(&mut self) -> Option<u32> {
        self.run(Outcome::Failed("broken".to_owned()))
    }

    fn done(&mut self) -> Option<u32> {
        self.run(Outcome::Done)
    }
}

/// Few values, so that keys share them.
fn hash(key: u32) -> u64 {
    u64::from(key % 7)
}
