//! The main proof of the watch engine: seeded random life, every fault, and at every quiet point the cache is
//! what the server has, and every subscriber saw a history that ends there.
//!
//! `SEEDS=100000 cargo test -p skopos-testkit --test simulation model` runs as many as one likes, `SEED=<n>` one.

#![expect(clippy::unwrap_used, reason = "tests")]

mod life;
mod onlookers;
mod truth;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use skopos_testkit::seeds;

use self::{life::Life, world::World};

/// Runs a life per seed, and names the seed of one that fails.
fn run(kind: &str, default: u64, n_steps: usize, world: impl AsyncFn(u64) -> World) {
    for seed in seeds(default) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let lived = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                let world = world(seed).await;
                Life::begin(seed, world).await.live(n_steps).await
            })
        }));
        let problem = match lived {
            Ok(Ok(())) => continue,
            Ok(Err(problem)) => problem,
            Err(_) => "panicked".to_owned(),
        };
        panic!("{problem}\nreplay: SEED={seed} cargo test -p skopos-testkit --test simulation {kind}");
    }
}

#[test]
fn model() {
    run("model", 2_000, 40, async |seed| World::model(seed));
}

#[test]
fn over_http() {
    run("over_http", 200, 40, async |seed| World::http(seed).await);
}
