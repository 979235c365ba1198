//! The load on our queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use skopos_object::ObjectKey;
use skopos_queue::{AddOptions, Config, Leftovers, Priority, Queue};

use super::{Figures, Load, Pattern};
use crate::cpu::seconds_of;

type Keys = Arc<Vec<Arc<ObjectKey>>>;

/// Measures one load.
pub(super) fn race(load: &Load, observed: bool) -> anyhow::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    runtime.block_on(run(*load, observed))
}

async fn run(load: Load, observed: bool) -> anyhow::Result<Figures> {
    let queue = Queue::new(Config {
        tenant: |key: &Arc<ObjectKey>| &key.namespace,
        ..Config::default()
    });
    let metrics = skopos_queue::Metrics::new();
    if observed {
        queue.observe(&metrics);
    }
    let keys: Keys = Arc::new((0..load.n_keys).map(key).collect());
    let added = Arc::new(Added::new(load.n_keys));
    if load.pattern == Pattern::Drain {
        produce(&queue, &keys, &load, &added);
    }
    let this = std::process::id();
    let cpu = seconds_of(this)?;
    let begun = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..load.n_workers {
        workers.spawn(work(queue.clone(), load.pattern, added.clone()));
    }
    let producer = queue.clone();
    // As client-go's keys are: the time to free them is not the queue's.
    let _kept = keys.clone();
    tokio::task::spawn_blocking(move || {
        if load.pattern != Pattern::Drain {
            produce(&producer, &keys, &load, &added);
        }
        producer.shut_down(Leftovers::HandOut);
    })
    .await?;
    let mut waits = Vec::new();
    let mut processed = 0;
    while let Some(ended) = workers.join_next().await {
        let (n, seen) = ended?;
        processed += n;
        waits.extend(seen);
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Figures::new(
        seconds,
        processed as f64,
        seconds_of(this)? - cpu,
        waits,
    ))
}

fn key(i: usize) -> Arc<ObjectKey> {
    Arc::new(ObjectKey::namespaced(
        format!("team-{}", i % 50),
        format!("app-{i}"),
    ))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a producer that is paced, on a thread of its own"
)]
fn produce(queue: &Queue<Arc<ObjectKey>>, keys: &Keys, load: &Load, added: &Added) {
    let begun = Instant::now();
    for i in 0..load.n_adds {
        // One in eight is a change, the rest an initial list.
        let priority = if i % 8 == 0 { Priority::High } else { Priority::Low };
        let at = i % keys.len();
        if let Pattern::Paced { per_ms } = load.pattern {
            if i % per_ms == 0 {
                let due = begun + Duration::from_millis((i / per_ms) as u64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            added.note(at);
        }
        let options = AddOptions {
            priority,
            ..AddOptions::default()
        };
        queue.add_with(keys[at].clone(), options);
    }
}

/// How many keys were processed, and how long each had waited, in nanoseconds, where that is measured.
async fn work(queue: Queue<Arc<ObjectKey>>, pattern: Pattern, added: Arc<Added>) -> (u64, Vec<u64>) {
    let mut n = 0;
    let mut waits = Vec::new();
    while let Some(work) = queue.take().await {
        if let Pattern::Paced { .. } = pattern {
            let at = work.key().name.strip_prefix("app-").map(str::parse);
            waits.extend(at.and_then(Result::ok).and_then(|at| added.wait(at)));
        }
        work.done();
        n += 1;
    }
    (n, waits)
}

/// When each key was first added since it was last processed.
struct Added {
    begun: Instant,
    /// One more than the nanoseconds since the beginning; zero if it does not wait.
    at: Vec<AtomicU64>,
}

impl Added {
    fn new(n_keys: usize) -> Self {
        Self {
            begun: Instant::now(),
            at: (0..n_keys).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64 + 1
    }

    fn note(&self, key: usize) {
        // Whether somebody else wrote first is of no interest: then that is the first.
        let _ = self.at[key].compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn wait(&self, key: usize) -> Option<u64> {
        let at = self.at[key].swap(0, Ordering::Relaxed);
        (at > 0).then(|| self.now() - at)
    }
}
