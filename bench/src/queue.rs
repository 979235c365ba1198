//! The work queue beside client-go's and controller-runtime's: one producer, workers that do nothing.

mod ours;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// How many adds, as fast as they go.
    #[arg(long, default_value_t = 2_000_000)]
    adds: usize,
    /// How many keys wait when the workers begin, where that is measured.
    #[arg(long, default_value_t = 500_000)]
    waiting: usize,
    /// How many adds in each of two thousand milliseconds, where they are paced.
    #[arg(long, default_value_t = 200)]
    per_ms: usize,
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

/// One load on a queue.
#[derive(Clone, Copy)]
struct Load {
    n_adds: usize,
    n_workers: usize,
    n_keys: usize,
    pattern: Pattern,
}

/// When adds come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// As fast as they go, beside the workers.
    Flood,
    /// All before the workers begin.
    Drain,
    /// So many in every millisecond; how long keys wait is measured.
    Paced { per_ms: usize },
}

/// One measurement.
#[derive(Clone, Copy)]
struct Figures {
    /// From the beginning of the load until the last key is done.
    seconds: f64,
    processed: f64,
    cpu: f64,
    /// How long the median key waited, and one in a hundred at least; in microseconds.
    waits: Option<[f64; 2]>,
}

impl Figures {
    fn new(seconds: f64, processed: f64, cpu: f64, mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let quantile = |percent: usize| waits.get(waits.len() * percent / 100);
        let micros = |percent| quantile(percent).map(|nanos| *nanos as f64 / 1e3);
        Self {
            seconds,
            processed,
            cpu,
            waits: micros(50).zip(micros(99)).map(|(median, worst)| [median, worst]),
        }
    }

    fn keys_per_s(&self) -> f64 {
        self.processed / self.seconds
    }
}

const SUBJECTS: [(&str, Subject); 5] = [
    ("Skopos, priorities and namespaces", Subject::Ours),
    ("Skopos, metrics kept too", Subject::OursObserved),
    ("client-go, string keys", Subject::Go("string")),
    ("client-go, NamespacedName keys", Subject::Go("namespaced")),
    ("controller-runtime, priorities", Subject::Go("priority")),
];

/// The subject that ratios refer to.
const BASE: usize = 2;

#[derive(Clone, Copy)]
enum Subject {
    Ours,
    OursObserved,
    Go(&'static str),
}

/// Measures both and prints tables.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "one producer, {} workers that do nothing, {cores} cores, median of {} rounds; client-go's is the one with string keys",
        args.workers, args.rounds
    );
    println!("\n{} adds as fast as they go:\n", args.adds);
    flood(args)?;
    println!("\n{} keys wait when the workers begin:\n", args.waiting);
    drain(args)?;
    println!(
        "\n{} adds in each of 2,000 milliseconds, of 50,000 keys:\n",
        args.per_ms
    );
    paced(args)
}

fn flood(args: &Args) -> anyhow::Result<()> {
    println!(
        "| queue | distinct keys | s until all is done | CPU s | adds dealt with /s | ÷ client-go's | keys processed /s | ÷ client-go's |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for n_keys in [1_000, 50_000] {
        let load = args.load(args.adds, n_keys, Pattern::Flood);
        for Row { title, figures, base } in measure(args, &load)? {
            println!(
                "| {title} | {n_keys} | {:.3} | {:.2} | {:.2} M | {} | {:.2} M | {} |",
                figures.seconds,
                figures.cpu,
                args.adds as f64 / figures.seconds / 1e6,
                ratio(1.0 / figures.seconds, base.map(|base| 1.0 / base.seconds)),
                figures.keys_per_s() / 1e6,
                ratio(figures.keys_per_s(), base.map(|base| base.keys_per_s())),
            );
        }
    }
    Ok(())
}

fn drain(args: &Args) -> anyhow::Result<()> {
    println!("| queue | keys /s | CPU s | keys /s ÷ client-go's |");
    println!("|---|---|---|---|");
    let load = args.load(args.waiting, args.waiting, Pattern::Drain);
    for Row { title, figures, base } in measure(args, &load)? {
        println!(
            "| {title} | {:.2} M | {:.2} | {} |",
            figures.keys_per_s() / 1e6,
            figures.cpu,
            ratio(figures.keys_per_s(), base.map(|base| base.keys_per_s())),
        );
    }
    Ok(())
}

fn paced(args: &Args) -> anyhow::Result<()> {
    println!("| queue | keys processed /s | waited, median µs | 99th percentile µs | CPU s |");
    println!("|---|---|---|---|---|");
    let pattern = Pattern::Paced { per_ms: args.per_ms };
    let load = args.load(args.per_ms * 2_000, 50_000, pattern);
    for Row { title, figures, .. } in measure(args, &load)? {
        let [median, worst] = figures.waits.unwrap_or_default();
        println!(
            "| {title} | {:.0} | {median:.0} | {worst:.0} | {:.2} |",
            figures.keys_per_s(),
            figures.cpu,
        );
    }
    Ok(())
}

fn ratio(value: f64, base: Option<f64>) -> String {
    base.map_or("–".to_owned(), |base| format!("{:.2} ×", value / base))
}

struct Row {
    title: &'static str,
    figures: Figures,
    base: Option<Figures>,
}

impl Args {
    fn load(&self, n_adds: usize, n_keys: usize, pattern: Pattern) -> Load {
        Load {
            n_adds,
            n_workers: self.workers,
            n_keys,
            pattern,
        }
    }
}

fn measure(args: &Args, load: &Load) -> anyhow::Result<Vec<Row>> {
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); SUBJECTS.len()];
    for _ in 0..args.rounds {
        // In turns, so that a busy moment of the machine meets all of them.
        for ((_, subject), figures) in SUBJECTS.iter().zip(&mut rounds) {
            match (subject, &args.go) {
                (Subject::Ours, _) => figures.push(ours::race(load, false)?),
                (Subject::OursObserved, _) => figures.push(ours::race(load, true)?),
                (Subject::Go(keys), Some(program)) => figures.push(theirs(program, load, keys)?),
                (Subject::Go(_), None) => {}
            }
        }
    }
    let medians: Vec<_> = rounds.into_iter().map(median).collect();
    let base = medians[BASE];
    let rows = SUBJECTS
        .iter()
        .zip(medians)
        .filter_map(|((title, _), figures)| figures.map(|figures| Row { title, figures, base }));
    Ok(rows.collect())
}

fn median(mut rounds: Vec<Figures>) -> Option<Figures> {
    rounds.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    rounds.get(rounds.len() / 2).copied()
}

fn theirs(program: &Path, load: &Load, keys: &str) -> anyhow::Result<Figures> {
    let (pattern, per_ms) = match load.pattern {
        Pattern::Flood => ("flood", 0),
        Pattern::Drain => ("drain", 0),
        Pattern::Paced { per_ms } => ("paced", per_ms),
    };
    let output = Command::new(program)
        .args(["-adds", &load.n_adds.to_string()])
        .args(["-workers", &load.n_workers.to_string()])
        .args(["-distinct", &load.n_keys.to_string(), "-keys", keys])
        .args(["-pattern", pattern, "-per-ms", &per_ms.to_string()])
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
    let waits = number("median_us")
        .and_then(|median| Ok([median, number("worst_us")?]))
        .ok();
    Ok(Figures {
        seconds: number("seconds")?,
        processed: number("processed")?,
        cpu: number("cpu")?,
        waits,
    })
}
