//! Random histories with keys on trays, against the model and against a queue without.

use std::collections::VecDeque;

use super::model::{Model, Named, seeds};
use super::{Bench, config};
use crate::config::Priority;
use crate::state::Handed;
use crate::work::Outcome;

fn random_key(random: &mut fastrand::Rng) -> (u32, Priority) {
    let key = random.u32(0..4) * 1000 + random.u32(0..6);
    (key, Priority::ALL[random.usize(0..3)])
}

/// Some trays, whose keys are begun in order and may be given back at any time.
struct Trays {
    bench: Bench,
    model: Model,
    trays: [VecDeque<Handed<u32>>; 3],
}

impl Trays {
    fn lay_out(&mut self, tray: usize, n: usize) {
        let n_before = self.trays[tray].len();
        self.bench.state.lay_out(n, &mut self.trays[tray]);
        for handed in self.trays[tray].iter().skip(n_before) {
            self.model.laid_out(handed.key);
        }
    }

    fn begin(&mut self, tray: usize) {
        if let Some(handed) = self.trays[tray].pop_front() {
            let now = self.bench.moment();
            self.bench.state.begin(handed.id, now);
            self.model.begun(handed.key, handed.id);
        }
    }

    fn give_back(&mut self, tray: usize) {
        while let Some(handed) = self.trays[tray].pop_back() {
            self.bench.state.unlay(&handed);
            self.model.given_back(handed.key, handed.priority);
        }
    }

    fn finish(&mut self, random: &mut fastrand::Rng) {
        let running: Vec<_> = self.model.running.clone().into_iter().collect();
        if let Some((key, id)) = random.choice(running) {
            self.bench.finish(id, Outcome::Done);
            self.model.done(key);
        }
    }
}

#[test]
fn keys_on_trays_agree_with_the_model() {
    for seed in seeds(1_000) {
        let _named = Named(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut trays = Trays {
            bench: Bench::new(config()),
            model: Model::default(),
            trays: Default::default(),
        };
        for _ in 0..300 {
            let tray = random.usize(0..3);
            match random.u32(0..9) {
                0..=3 => {
                    let (key, priority) = random_key(&mut random);
                    trays.bench.add_as(key, priority, None);
                    trays.model.add(key, priority);
                }
                4 => match trays.bench.take() {
                    Some((key, id)) => trays.model.taken(key, id),
                    None => assert_eq!(trays.model.n_ready(), 0),
                },
                5 => trays.lay_out(tray, random.usize(0..4)),
                6 => trays.begin(tray),
                7 => trays.give_back(tray),
                _ => trays.finish(&mut random),
            }
            assert_eq!(trays.bench.state.n_ready(), trays.model.n_ready());
            assert_eq!(trays.bench.state.n_running(), trays.model.running.len());
        }
    }
}

/// Order, turns of tenants and patience are as if they had never been taken.
#[test]
fn keys_that_are_given_back_leave_no_trace() {
    for seed in seeds(1_000) {
        let _named = Named(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut plain, mut laid) = (Bench::new(config()), Bench::new(config()));
        for _ in 0..200 {
            match random.u32(0..4) {
                0 | 1 => {
                    let (key, priority) = random_key(&mut random);
                    plain.add_as(key, priority, None);
                    laid.add_as(key, priority, None);
                }
                2 => assert_eq!(plain.done(), laid.done()),
                _ => {
                    let mut tray = VecDeque::new();
                    laid.state.lay_out(random.usize(0..20), &mut tray);
                    while let Some(handed) = tray.pop_back() {
                        laid.state.unlay(&handed);
                    }
                }
            }
        }
    }
}
