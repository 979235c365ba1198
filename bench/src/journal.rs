//! The journal: what it takes in, how long a change needs to its sink, what it costs to be durable, memory, start.
//!
//! Each part is a process of its own, on a directory of its own that goes in the end.

mod latency;
pub(crate) mod part;
mod source;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Where the journals are made: on the disk that is to be measured.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// How large the journal is whose start is measured, in GB.
    #[arg(long, default_value_t = 1.0)]
    journal_gb: f64,
    /// How many objects are mirrored where memory and the start are measured.
    #[arg(long, default_value_t = 100_000)]
    mirrored: usize,
    /// How many objects change in turn where throughput and latency are measured.
    #[arg(long, default_value_t = 1_000)]
    changing: usize,
    /// How many changes a second where latency is measured.
    #[arg(long, default_value_t = 1_000)]
    per_second: usize,
    /// How long throughput and latency are measured, each.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// How often throughput and latency are measured, in turns; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Small and short, to see that it works: the figures say nothing.
    #[arg(long)]
    quick: bool,
    /// Which parts to measure.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "throughput,latency,memory,start"
    )]
    parts: Vec<Measure>,
    /// Print figures as JSON.
    #[arg(long)]
    json: bool,
}

/// One of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    /// Changes as fast as they are written down.
    Throughput,
    /// Changes by the clock, from the source to the sink.
    Latency,
    /// The mirror of many objects, and updates of all of them.
    Memory,
    /// The start with a large journal, after a crash and after a clean end, and the history of one object.
    Start,
}

/// Everything that was measured; empty where it was not.
#[derive(Default)]
struct Figures {
    args: Option<Args>,
    disk: String,
    throughput: Vec<(&'static str, Value)>,
    latency: Vec<(&'static str, Value)>,
    memory: Value,
    fill: Value,
    start: Vec<(&'static str, Value)>,
}

/// Measures and prints tables.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let args = sized(args);
    std::fs::create_dir_all(&args.dir)?;
    let home = tempfile::tempdir_in(&args.dir)?;
    let has = |part| args.parts.contains(&part);
    let mut figures = Figures {
        disk: file_system(home.path()),
        ..Figures::default()
    };
    if has(Measure::Throughput) {
        figures.throughput = throughput(&args, home.path())?;
    }
    if has(Measure::Latency) {
        figures.latency = latency(&args, home.path())?;
    }
    if has(Measure::Memory) {
        eprintln!("memory of {} objects", args.mirrored);
        let objects = args.mirrored.to_string();
        figures.memory = alone(home.path(), &["memory", "--objects", &objects])?;
    }
    if has(Measure::Start) {
        start(&args, home.path(), &mut figures)?;
    }
    let as_json = args.json;
    figures.args = Some(args);
    match as_json {
        true => println!("{}", table::json(&figures)),
        false => table::print(&figures),
    }
    Ok(())
}

fn sized(args: &Args) -> Args {
    if !args.quick {
        return args.clone();
    }
    Args {
        journal_gb: 0.01,
        mirrored: 1_000,
        changing: 100,
        per_second: 200,
        seconds: 1.0,
        rounds: 1,
        ..args.clone()
    }
}

fn throughput(args: &Args, home: &Path) -> anyhow::Result<Vec<(&'static str, Value)>> {
    eprintln!(
        "throughput, {} s each, {} rounds",
        args.seconds * 1.25,
        args.rounds
    );
    let (seconds, objects) = (args.seconds.to_string(), args.changing.to_string());
    let common = ["throughput", "--seconds", &seconds, "--objects", &objects];
    let subjects: [(_, &[&str]); 2] = [("durable", &["--durable"]), ("not durable", &[])];
    in_turns(args.rounds, home, &common, &subjects, "changes_per_s")
}

fn latency(args: &Args, home: &Path) -> anyhow::Result<Vec<(&'static str, Value)>> {
    eprintln!("latency, {} s each, {} rounds", args.seconds, args.rounds);
    let (seconds, objects) = (args.seconds.to_string(), args.changing.to_string());
    let rate = args.per_second.to_string();
    let common = [
        "latency",
        "--seconds",
        &seconds,
        "--objects",
        &objects,
        "--per-second",
        &rate,
    ];
    let subjects: [(_, &[&str]); 4] = [
        ("durable, sink in process", &["--durable"]),
        ("not durable, sink in process", &[]),
        ("durable, webhook", &["--durable", "--webhook"]),
        ("not durable, webhook", &["--webhook"]),
    ];
    in_turns(args.rounds, home, &common, &subjects, "p99_ms")
}

/// Writes a journal and does not close it, opens it, closes it, opens it again.
fn start(args: &Args, home: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    eprintln!(
        "start with a journal of {} GB, which takes a while to write",
        args.journal_gb
    );
    let dir = tempfile::tempdir_in(home)?;
    let (objects, bytes) = (
        args.mirrored.to_string(),
        ((args.journal_gb * 1e9) as u64).to_string(),
    );
    figures.fill = part(dir.path(), &["fill", "--objects", &objects, "--bytes", &bytes])?;
    for title in ["after a crash", "after a clean end"] {
        figures.start.push((title, part(dir.path(), &["open"])?));
    }
    Ok(())
}

/// Measures each subject once in each round, so that a busy moment of the machine meets all of them; takes medians.
fn in_turns(
    rounds: usize,
    home: &Path,
    common: &[&str],
    subjects: &[(&'static str, &[&str])],
    by: &str,
) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let mut measured = vec![Vec::new(); subjects.len()];
    for _ in 0..rounds.max(1) {
        for ((_, more), measured) in subjects.iter().zip(&mut measured) {
            measured.push(alone(home, &[common, more].concat())?);
        }
    }
    let figure = |value: &Value| value[by].as_f64().unwrap_or_default();
    let medians = measured.into_iter().map(|mut rounds| {
        rounds.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
        rounds.swap_remove(rounds.len() / 2)
    });
    Ok(subjects.iter().map(|(title, _)| *title).zip(medians).collect())
}

/// Measures a part on a directory of its own.
fn alone(home: &Path, args: &[&str]) -> anyhow::Result<Value> {
    let dir = tempfile::tempdir_in(home)?;
    part(dir.path(), args)
}

/// Measures a part in a process of its own, and reads its figures.
fn part(dir: &Path, args: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("journal-part").arg("--dir").arg(dir).args(args);
    let output = command.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(
        output.status.success(),
        "the part {} ended with {}",
        args[0],
        output.status
    );
    serde_json::from_slice(&output.stdout).with_context(|| format!("figures of the part {}", args[0]))
}

/// The file system that a directory is on, such as `ext4`: the mount with the longest path that leads to it.
fn file_system(dir: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let Ok(dir) = dir.canonicalize() else {
        return "unknown".to_owned();
    };
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let around = fields.filter(|(path, _)| dir.starts_with(path));
    let nearest = around.max_by_key(|(path, _)| path.len());
    nearest.map_or("unknown", |(_, kind)| kind).to_owned()
}
