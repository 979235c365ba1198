//! Controllers under random life: clocks that differ, conflicts, lost answers, cut streams, crashes in the middle of a reconcile, lost
//! leadership, objects deleted and made anew. However it goes, they converge, and nothing is made twice.
//!
//! `SEEDS=<n>` for more seeds, `SEED=<n>` for one.

#![expect(clippy::unwrap_used, reason = "tests")]

mod poison;
mod renting;
mod trace;
mod witness;
mod world;

use std::panic::catch_unwind;

use skopos_testkit::seeds;
use tokio::runtime::{Builder, Runtime};

use crate::world::{Clocks, World};

const SEEDS: u64 = 40;
/// How many seeds are run twice.
const REPLAYED: u64 = 3;

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

#[test]
fn a_seed_replays_what_happened_request_by_request() {
    for seed in seeds(REPLAYED) {
        let [first, second] = [(); 2].map(|()| runtime().block_on(live(seed)));
        let mut both = first.iter().zip(&second).enumerate();
        let differ = both.find(|(_, (first, second))| first != second);
        assert_eq!(differ, None, "SEED={seed}");
        assert_eq!(first.len(), second.len(), "SEED={seed}");
    }
}

#[test]
fn nobody_writes_beside_the_leader_with_clocks_as_different_as_the_times_allow() {
    assert_eq!(wrongs_without_renewals([-160, 180]), [""; 0]);
}

/// Shows that the simulation sees what it looks for.
#[test]
fn two_write_at_once_with_clocks_more_different_than_that() {
    let wrongs = wrongs_without_renewals([-500, 0]);
    assert!(!wrongs.is_empty());
}

/// What is seen when the leader's clock and the next one's gain so much, and the leader cannot renew its lease.
fn wrongs_without_renewals(gains: [i32; 2]) -> Vec<String> {
    runtime().block_on(async {
        let mut world = World::new(0, Clocks::Gaining(gains)).await;
        world.live_without_renewals().await
    })
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

async fn live(seed: u64) -> Vec<String> {
    let mut world = World::new(seed, Clocks::Wrong).await;
    for _ in 0..3 {
        world.live(25).await;
        world.settle().await;
    }
    world.stop().await
}
