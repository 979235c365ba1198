//! Many producers and workers on many threads: no key in two hands, and every add followed by a run.
//!
//! Prints its seed; `SEED=n` replays the choices, though not the threads' order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use skopos_queue::{AddOptions, Backoff, Config, Leftovers, Outcome, Priority, Queue};

/// Few keys, that are always in somebody's hands; and so many that workers find them laid out.
const N_KEYS: [u32; 2] = [50, 3_000];
const N_ADDS: u32 = 5_000;

/// What is known of one key.
#[derive(Default)]
struct Key {
    in_hand: AtomicBool,
    /// How often it was to be run, counted before the add.
    asked: AtomicU64,
    /// Up to which of these the last run that ended well had seen.
    seen: AtomicU64,
}

type Keys = Arc<Vec<Key>>;

fn queue(seed: u64) -> Queue<u32> {
    Queue::new(Config {
        tenant: |key| ["a", "b", "c"][*key as usize % 3],
        backoff: Backoff {
            first: Duration::from_micros(100),
            longest: Duration::from_millis(2),
            ..Backoff::default()
        },
        change_spacing: Duration::from_millis(1),
        seed: Some(seed),
        ..Config::default()
    })
}

async fn produce(queue: Queue<u32>, keys: Keys, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..N_ADDS {
        let key = random.usize(0..keys.len()) as u32;
        keys[key as usize].asked.fetch_add(1, Ordering::SeqCst);
        let priority = [Priority::Low, Priority::Normal, Priority::High][random.usize(0..3)];
        let after = (random.u32(0..10) == 0).then(|| Duration::from_micros(random.u64(0..2_000)));
        assert!(queue.add_with(key, AddOptions { priority, after }));
        match random.u32(0..200) {
            0 => tokio::task::yield_now().await,
            1 => queue.forget(&key),
            _ => {}
        }
    }
}

async fn work(queue: Queue<u32>, keys: Keys, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let take = queue.take();
        // Some waits are cancelled.
        let taken = if random.u32(0..4) == 0 {
            match tokio::time::timeout(Duration::from_micros(200), take).await {
                Ok(taken) => taken,
                Err(_) => continue,
            }
        } else {
            take.await
        };
        let Some(work) = taken else {
            return;
        };
        let key = &keys[*work.key() as usize];
        assert!(!key.in_hand.swap(true, Ordering::SeqCst), "in two hands");
        let asked = key.asked.load(Ordering::SeqCst);
        if random.u32(0..4) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(key.in_hand.swap(false, Ordering::SeqCst));
        match random.u32(0..20) {
            0 => work.failed("broken"),
            1 => drop(work),
            2 => work.requeue_after(Duration::from_micros(random.u64(0..500))),
            _ => {
                key.seen.fetch_max(asked, Ordering::SeqCst);
                work.finish(Outcome::Done);
            }
        }
    }
}

async fn race(seed: u64, n_keys: u32) {
    let (queue, mut tasks) = (queue(seed), tokio::task::JoinSet::new());
    let keys: Keys = Arc::new((0..n_keys).map(|_| Key::default()).collect());
    let mut producers = tokio::task::JoinSet::new();
    for n in 0..6 {
        tasks.spawn(work(queue.clone(), keys.clone(), seed * 100 + n));
        producers.spawn(produce(queue.clone(), keys.clone(), seed * 100 + 50 + n));
    }
    producers.join_all().await;
    // Failed and delayed keys come back by and by.
    while queue.len() + queue.n_waiting() + queue.n_running() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (n, key) in keys.iter().enumerate() {
        let (asked, seen) = (key.asked.load(Ordering::SeqCst), key.seen.load(Ordering::SeqCst));
        assert_eq!(asked, seen, "seed {seed}: the last add of {n} was lost");
    }
    queue.shut_down(Leftovers::HandOut);
    tasks.join_all().await;
    queue.drained().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_is_in_two_hands_and_none_is_lost() {
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..10, |seed| seed..seed + 1);
    for (seed, n_keys) in seeds.flat_map(|seed| N_KEYS.map(|n_keys| (seed, n_keys))) {
        let raced = tokio::time::timeout(Duration::from_secs(120), race(seed, n_keys)).await;
        assert!(raced.is_ok(), "seed {seed}: stuck");
    }
}
