//! The work queue beside client-go's: adds by one producer, workers that do nothing.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;
use skopos_object::ObjectKey;
use skopos_queue::{AddOptions, Config, Priority, Queue};

use crate::cpu::seconds_of;

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// How many adds.
    #[arg(long, default_value_t = 2_000_000)]
    adds: usize,
    /// How many workers.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// How often each is measured, in turns; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The Go program to compare with: `go build -C bench/go/queue -o …`.
    #[arg(long)]
    go: Option<PathBuf>,
}

/// One measurement.
#[derive(Clone, Copy)]
struct Figures {
    /// From the first add until the last key is done.
    seconds: f64,
    processed: f64,
    cpu: f64,
}

impl Figures {
    fn keys_per_s(&self) -> f64 {
        self.processed / self.seconds
    }
}

const SUBJECTS: [(&str, Subject); 4] = [
    ("Skopos, priorities and namespaces", Subject::Ours),
    ("Skopos, metrics kept too", Subject::OursObserved),
    ("client-go, string keys", Subject::Go("string")),
    ("client-go, NamespacedName keys", Subject::Go("namespaced")),
];

#[derive(Clone, Copy)]
enum Subject {
    Ours,
    OursObserved,
    Go(&'static str),
}

/// Measures both and prints a table.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{} adds by one producer, {} workers that do nothing, {cores} cores, median of {} rounds\n",
        args.adds, args.workers, args.rounds
    );
    println!(
        "| queue | distinct keys | adds /s | keys processed /s | CPU s | adds /s ÷ client-go's (string) | keys /s ÷ client-go's, goal ≥ 2 × |"
    );
    println!("|---|---|---|---|---|---|---|");
    for n_keys in [1_000, 50_000] {
        measure(args, n_keys)?;
    }
    Ok(())
}

fn measure(args: &Args, n_keys: usize) -> anyhow::Result<()> {
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); SUBJECTS.len()];
    for _ in 0..args.rounds {
        // In turns, so that a busy moment of the machine meets all of them.
        for ((_, subject), figures) in SUBJECTS.iter().zip(&mut rounds) {
            match subject {
                Subject::Ours => figures.push(ours(args, n_keys, false)?),
                Subject::OursObserved => figures.push(ours(args, n_keys, true)?),
                Subject::Go(keys) => figures.extend(theirs(args, n_keys, keys)?),
            }
        }
    }
    let medians: Vec<_> = rounds.into_iter().map(median).collect();
    let base = medians[2];
    for ((title, _), figures) in SUBJECTS.iter().zip(medians) {
        let Some(figures) = figures else {
            continue;
        };
        let ratio = |read: fn(&Figures) -> f64| {
            base.map_or("–".to_owned(), |base| {
                format!("{:.1} ×", read(&figures) / read(&base))
            })
        };
        println!(
            "| {title} | {n_keys} | {:.2} M | {:.2} M | {:.2} | {} | {} |",
            args.adds as f64 / figures.seconds / 1e6,
            figures.keys_per_s() / 1e6,
            figures.cpu,
            ratio(|figures| 1.0 / figures.seconds),
            ratio(Figures::keys_per_s),
        );
    }
    Ok(())
}

fn median(mut rounds: Vec<Figures>) -> Option<Figures> {
    rounds.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    rounds.get(rounds.len() / 2).copied()
}

fn ours(args: &Args, n_keys: usize, observed: bool) -> anyhow::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    let this = std::process::id();
    let cpu = seconds_of(this)?;
    let (seconds, processed) = runtime.block_on(race(args.adds, args.workers, n_keys, observed))?;
    Ok(Figures {
        seconds,
        processed: processed as f64,
        cpu: seconds_of(this)? - cpu,
    })
}

async fn race(n_adds: usize, n_workers: usize, n_keys: usize, observed: bool) -> anyhow::Result<(f64, u64)> {
    let queue = Queue::new(Config {
        tenant: |key: &Arc<ObjectKey>| &key.namespace,
        ..Config::default()
    });
    let metrics = skopos_queue::Metrics::new();
    if observed {
        queue.observe(&metrics);
    }
    let keys: Vec<_> = (0..n_keys)
        .map(|i| {
            Arc::new(ObjectKey::namespaced(
                format!("team-{}", i % 50),
                format!("app-{i}"),
            ))
        })
        .collect();
    let processed = Arc::new(AtomicU64::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..n_workers {
        let (queue, processed) = (queue.clone(), processed.clone());
        workers.spawn(async move {
            let mut mine = 0;
            while let Some(work) = queue.take().await {
                work.done();
                mine += 1;
            }
            processed.fetch_add(mine, Ordering::Relaxed);
        });
    }
    let begun = Instant::now();
    let producer = queue.clone();
    tokio::task::spawn_blocking(move || {
        for i in 0..n_adds {
            // One in eight is a change, the rest an initial list.
            let priority = if i % 8 == 0 { Priority::High } else { Priority::Low };
            let options = AddOptions {
                priority,
                ..AddOptions::default()
            };
            producer.add_with(keys[i % keys.len()].clone(), options);
        }
        producer.shut_down(skopos_queue::Leftovers::HandOut);
    })
    .await?;
    while let Some(ended) = workers.join_next().await {
        ended?;
    }
    Ok((begun.elapsed().as_secs_f64(), processed.load(Ordering::Relaxed)))
}

fn theirs(args: &Args, n_keys: usize, keys: &str) -> anyhow::Result<Option<Figures>> {
    let Some(program) = &args.go else {
        return Ok(None);
    };
    let output = Command::new(program)
        .args([
            "-adds",
            &args.adds.to_string(),
            "-workers",
            &args.workers.to_string(),
        ])
        .args(["-distinct", &n_keys.to_string(), "-keys", keys])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    anyhow::ensure!(
        output.status.success(),
        "{} ended with {}",
        program.display(),
        output.status
    );
    let figures: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| {
        figures[name]
            .as_f64()
            .with_context(|| format!("no {name} in {figures}"))
    };
    Ok(Some(Figures {
        seconds: number("seconds")?,
        processed: number("processed")?,
        cpu: number("cpu")?,
    }))
}
