//! The main proof of the watch engine: seeded random life, every fault, and at every quiet point the cache is
//! what the server has, and every subscriber saw a history that ends there.
//!
//! `SEEDS=100000 cargo test -p skopos-testkit --test simulation model` runs as many as one likes, `SEED=<n>` one.
//! `SKOPOS_TARGET=<kubeconfig> cargo test … through_a_proxy` runs on a server of your own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod life;
mod onlookers;
mod target;
mod tempo;
mod truth;
mod world;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};

use skopos_testkit::{Seeds, seeds};
use tokio::runtime::{Builder, Runtime};

use self::{life::Life, target::tidy_up, tempo::Tempo, world::World};

/// Lives one life, and says how to replay it if it fails.
fn live(kind: &str, seed: u64, tempo: Tempo, world: impl AsyncFnOnce(u64) -> World) -> Result<(), String> {
    const STEPS: usize = 40;
    let lived = catch_unwind(AssertUnwindSafe(|| {
        runtime(tempo).block_on(async {
            let world = world(seed).await;
            Life::begin(seed, tempo, world).await.live(STEPS).await
        })
    }));
    let problem = match lived {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(problem)) => problem,
        Err(_) => "panicked".to_owned(),
    };
    Err(format!(
        "{problem}\nreplay: SEED={seed} cargo test -p skopos-testkit --test simulation {kind}"
    ))
}

fn runtime(tempo: Tempo) -> Runtime {
    let mut builder = Builder::new_current_thread();
    let runtime = match tempo {
        Tempo::Paused => builder.enable_time().start_paused(true),
        Tempo::Real => builder.enable_all(),
    };
    runtime.build().unwrap()
}

#[test]
fn model() {
    for seed in seeds(2_000) {
        let lived = live("model", seed, Tempo::Paused, async |seed| World::model(seed));
        lived.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

#[test]
fn over_http() {
    for seed in seeds(200) {
        let lived = live("over_http", seed, Tempo::Paused, async |seed| {
            World::http(seed).await
        });
        lived.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// Where time really passes, lives wait most of the time, so that many are lived at once.
#[test]
fn through_a_proxy() {
    const LIVES_AT_ONCE: u64 = 24;
    let is_named = std::env::var_os("SKOPOS_TARGET").is_some();
    let seeds = seeds(if is_named { 48 } else { 8 });
    let problems: Vec<String> = std::thread::scope(|scope| {
        let lives: Vec<_> = (0..LIVES_AT_ONCE)
            .map(|place| {
                scope.spawn({
                    let seeds = seeds.clone();
                    move || live_in(place, seeds, LIVES_AT_ONCE)
                })
            })
            .collect();
        lives
            .into_iter()
            .filter_map(|life| life.join().unwrap().err())
            .collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Lives every n-th life, in a group of its own.
fn live_in(place: u64, seeds: Seeds, n: u64) -> Result<(), String> {
    let group = format!("place-{place}.example.com");
    let mine: Vec<u64> = seeds.filter(|seed| seed % n == place).collect();
    let lived = mine.iter().try_for_each(|seed| {
        live("through_a_proxy", *seed, Tempo::Real, async |seed| {
            World::target(seed, &group).await
        })
    });
    if !mine.is_empty() {
        runtime(Tempo::Real).block_on(tidy_up(&group));
    }
    lived
}
