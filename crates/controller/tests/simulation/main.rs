//! Controllers under random life: clocks that differ, caches that lag behind, conflicts, lost answers, cut streams,
//! crashes in the middle of a reconcile, lost leadership, objects deleted and made anew. However it goes, they converge,
//! and nothing is made twice.
//!
//! `SEEDS=<n>` for more seeds, `SEED=<n>` for one.

#![expect(clippy::unwrap_used, reason = "tests")]

mod poison;
mod renting;
mod trace;
mod witness;
mod world;

use std::panic::catch_unwind;
use std::time::Duration;

use skopos_testkit::seeds;
use tokio::runtime::{Builder, Runtime};

use crate::world::{Clocks, World};

const SEEDS: u64 = 30;
/// How many seeds are run twice.
const REPLAYED: u64 = 3;
/// How long reconciles wait for the caches to show what they wrote: longer than any cache is late here.
const PATIENCE: Duration = Duration::from_secs(3600);

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

#[test]
fn nothing_is_made_twice_with_caches_as_late_as_that() {
    assert_eq!(wrongs_with_late_maps(PATIENCE), [""; 0]);
}

/// Shows that the simulation sees what it looks for.
#[test]
fn things_are_made_twice_if_nobody_waits_for_own_writes() {
    let wrongs = wrongs_with_late_maps(Duration::ZERO);
    assert!(!wrongs.is_empty());
}

/// What is seen when what was made shows in the caches after five seconds, and reconciles wait so long for it.
fn wrongs_with_late_maps(patience: Duration) -> Vec<String> {
    runtime().block_on(async {
        let mut world = World::new(0, Clocks::Wrong, patience).await;
        world.live_with_late_maps(Duration::from_secs(5)).await
    })
}

/// What is seen when the leader's clock and the next one's gain so much, and the leader cannot renew its lease.
fn wrongs_without_renewals(gains: [i32; 2]) -> Vec<String> {
    runtime().block_on(async {
        let mut world = World::new(0, Clocks::Gaining(gains), PATIENCE).await;
        world.live_without_renewals().await
    })
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

async fn live(seed: u64) -> Vec<String> {
    let mut world = World::new(seed, Clocks::Wrong, PATIENCE).await;
    for _ in 0..3 {
        world.live(25).await;
        world.settle().await;
    }
    world.stop().await
}
