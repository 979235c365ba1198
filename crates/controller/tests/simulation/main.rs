//! Controllers under random life: conflicts, lost answers, cut streams, crashes in the middle of a reconcile, lost
//! leadership, objects deleted and made anew. However it goes, they converge, and nothing is made twice.
//!
//! `SEEDS=<n>` for more seeds, `SEED=<n>` for one.

#![expect(clippy::unwrap_used, reason = "tests")]

mod poison;
mod world;

use std::panic::catch_unwind;

use skopos_testkit::seeds;
use tokio::runtime::{Builder, Runtime};

use crate::world::World;

const SEEDS: u64 = 40;

#[test]
fn replicas_converge_and_make_nothing_twice_through_faults_crashes_and_lost_leadership() {
    for seed in seeds(SEEDS) {
        let lived = catch_unwind(|| runtime().block_on(live(seed)));
        assert!(
            lived.is_ok(),
            "replay: SEED={seed} cargo test -p skopos-controller --test simulation"
        );
    }
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

async fn live(seed: u64) {
    let mut world = World::new(seed).await;
    for _ in 0..3 {
        world.live(25).await;
        world.settle().await;
    }
    world.stop().await;
}
