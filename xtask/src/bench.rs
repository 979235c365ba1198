//! `cargo xtask bench`: measures the embedded server, and the real one beside it in the same run.
//! `cargo xtask bench watch` and `queue` do the same for libraries and their peers, `journal` for the journal: [`peers`].

mod peers;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::kube::{Controllers, Instance};
use crate::run::{cargo, run, seconds, target_dir};
use crate::tools::on_path;

/// What to measure.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    library: Option<peers::Library>,
    /// How many objects.
    #[arg(short = 'n', long, default_value_t = 50_000)]
    objects: usize,
    /// How many clients create them at once.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// How many watchers see one write.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Measure without kube-apiserver.
    #[arg(long)]
    alone: bool,
    /// Another build of the skopos command, measured in the same run: what has a change brought?
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// How often each is measured, in turns; the median counts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

/// A figure: its key, what it is, its unit, the goal, and whether more is better.
struct Figure {
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    goal: &'static str,
    more_is_better: bool,
}

const fn figure(key: &'static str, title: &'static str, unit: &'static str, goal: &'static str) -> Figure {
    Figure {
        key,
        title,
        unit,
        goal,
        more_is_better: false,
    }
}

const FIGURES: [Figure; 9] = [
    figure("ready_ms", "start until /readyz", "ms", "≤ 50 ms"),
    figure("idle_mb", "memory when ready", "MB", "≤ 25 MB"),
    figure("definition_to_object_ms", "CRD to first object", "ms", "≤ 10 ms"),
    Figure {
        more_is_better: true,
        ..figure("creates_per_s", "durable creates", "/s", "≥ 10 ×")
    },
    figure("loaded_mb", "memory with objects", "MB", "≤ 250 MB at 50,000"),
    figure("list_s", "list of all", "s", "≤ 1/10"),
    figure("after_list_mb", "memory after lists", "MB", "–"),
    figure("fan_out_median_ms", "last watcher, median", "ms", "≤ 1/3"),
    figure("fan_out_worst_ms", "last watcher, worst", "ms", "–"),
];

pub(crate) fn run_bench(args: &Args) -> anyhow::Result<()> {
    if let Some(library) = &args.library {
        return peers::run_bench(library);
    }
    let built = build()?;
    let mut subjects = vec![Subject::program("Skopos", built.join("skopos"))];
    if let Some(program) = &args.beside {
        subjects.push(Subject::program("beside", program.clone()));
    }
    if !args.alone && on_path("go").is_some() {
        subjects.push(Subject {
            title: "kube-apiserver + etcd",
            program: None,
            rounds: Vec::new(),
        });
    }
    for round in 1..=args.rounds {
        for subject in &mut subjects {
            eprintln!("{}, round {round} of {}", subject.title, args.rounds);
            let figures = match &subject.program {
                Some(program) => embedded(&built, program, args)?,
                None => real(&built, args)?,
            };
            eprintln!("{figures}");
            subject.rounds.push(figures);
        }
    }
    print_table(args, &subjects);
    Ok(())
}

/// A server that is measured, and what came of each round.
struct Subject {
    title: &'static str,
    /// The skopos command, or kube-apiserver if there is none.
    program: Option<PathBuf>,
    rounds: Vec<Value>,
}

impl Subject {
    fn program(title: &'static str, program: PathBuf) -> Self {
        Self {
            title,
            program: Some(program),
            rounds: Vec::new(),
        }
    }

    fn median(&self, key: &str) -> Option<f64> {
        let mut all: Vec<f64> = self
            .rounds
            .iter()
            .filter_map(|round| round[key].as_f64())
            .collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }
}

/// Builds the command and the load client as users do, and returns where they are. Always both: one alone would have all
/// that they share compiled once more, with fewer features.
fn build() -> anyhow::Result<PathBuf> {
    let packages = ["--package", "skopos-cli", "--package", "skopos-bench"];
    run(cargo().args(["build", "--release", "--quiet"]).args(packages))?;
    Ok(target_dir()?.join("release"))
}

/// Runs the load client and reads the figures it prints.
fn load(built: &Path, args: &Args, which: &[&str]) -> anyhow::Result<Value> {
    let mut bench = std::process::Command::new(built.join("skopos-bench"));
    bench.args(which).args(["-n", &args.objects.to_string()]);
    bench.args([
        "--clients",
        &args.clients.to_string(),
        "--watchers",
        &args.watchers.to_string(),
    ]);
    let output = bench.stderr(std::process::Stdio::inherit()).output()?;
    anyhow::ensure!(
        output.status.success(),
        "the load client ended with {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("figures of the load client")
}

fn embedded(built: &Path, program: &Path, args: &Args) -> anyhow::Result<Value> {
    let (program, home) = (program.display().to_string(), built.display().to_string());
    load(built, args, &["embedded", &program, "--dir", &home])
}

fn real(built: &Path, args: &Args) -> anyhow::Result<Value> {
    let instance = Instance::start_own("bench", Controllers::Embedded)?;
    let kubeconfig = instance.kubeconfig().display().to_string();
    // The controller manager is not part of the comparison.
    let ids: Vec<_> = instance
        .process_ids()
        .into_iter()
        .take(2)
        .map(|id| id.to_string())
        .collect();
    let ready = instance.ready_after();
    let begun = Instant::now();
    let figures = load(
        built,
        args,
        &["given", &kubeconfig, "--processes", &ids.join(",")],
    );
    instance.stop()?;
    eprintln!("took {}", seconds(begun.elapsed()));
    let mut figures = figures?;
    figures["ready_ms"] = (ready.map_or(0.0, |ready| ready.as_secs_f64()) * 1e3).into();
    Ok(figures)
}

fn print_table(args: &Args, subjects: &[Subject]) {
    let (ours, others) = subjects.split_first().expect("Skopos is always measured");
    println!(
        "{} objects of {} bytes, {} clients, {} watchers, {} rounds, {}\n",
        args.objects,
        ours.rounds[0]["object_bytes"],
        args.clients,
        args.watchers,
        args.rounds,
        machine()
    );
    let titles: String = others
        .iter()
        .map(|other| format!(" {} | ratio |", other.title))
        .collect();
    println!("| | Skopos |{titles} goal |");
    println!("|---|---|{} ---|", "---|---|".repeat(others.len()));
    for figure in &FIGURES {
        let mine = ours.median(figure.key);
        let cells: String = others
            .iter()
            .map(|other| {
                let theirs = other.median(figure.key);
                format!(" {} | {} |", shown(figure, theirs), ratio(figure, mine, theirs))
            })
            .collect();
        println!(
            "| {} | {} |{cells} {} |",
            figure.title,
            shown(figure, mine),
            figure.goal
        );
    }
}

fn shown(figure: &Figure, value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| {
        rounded(&format!("{value:.4} {}", figure.unit))
    })
}

fn ratio(figure: &Figure, ours: Option<f64>, theirs: Option<f64>) -> String {
    match ours.zip(theirs) {
        Some((ours, theirs)) if ours > 0.0 && theirs > 0.0 => ratio_text(figure, ours, theirs),
        _ => "–".to_owned(),
    }
}

fn ratio_text(figure: &Figure, ours: f64, theirs: f64) -> String {
    if figure.more_is_better {
        format!("{:.2} ×", ours / theirs)
    } else if ours < theirs / 2.0 {
        format!("1/{:.1}", theirs / ours)
    } else {
        format!("{:.2} ×", ours / theirs)
    }
}

/// Leaves of `1234.5678 ms` what a reader needs.
fn rounded(text: &str) -> String {
    let Some((number, unit)) = text.split_once(' ') else {
        return text.to_owned();
    };
    let Ok(number) = number.parse::<f64>() else {
        return text.to_owned();
    };
    let digits = if number >= 100.0 {
        0
    } else if number >= 1.0 {
        1
    } else {
        3
    };
    format!("{number:.digits$} {unit}")
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores, {} {}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
