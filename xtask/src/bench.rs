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
    /// Measure the embedded server alone.
    #[arg(long)]
    alone: bool,
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
    let built = build(&["skopos-cli", "skopos-bench"])?;
    let program = built.join("skopos").display().to_string();
    eprintln!(
        "embedded server: {} objects, {} clients, {} watchers",
        args.objects, args.clients, args.watchers
    );
    let home = built.display().to_string();
    let ours = load(&built, args, &["embedded", &program, "--dir", &home])?;
    let theirs = if args.alone || on_path("go").is_none() {
        Value::Null
    } else {
        real(&built, args)?
    };
    print_table(args, &ours, &theirs);
    Ok(())
}

/// Builds packages as users do, and returns where they are.
fn build(packages: &[&str]) -> anyhow::Result<PathBuf> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
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

fn real(built: &Path, args: &Args) -> anyhow::Result<Value> {
    eprintln!("kube-apiserver with etcd: the same");
    let instance = Instance::start("bench", Controllers::Embedded)?;
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

fn print_table(args: &Args, ours: &Value, theirs: &Value) {
    println!(
        "{} objects of {} and {} bytes, {}\n",
        args.objects,
        ours["object_bytes"],
        theirs["object_bytes"],
        machine()
    );
    println!("| | Skopos | kube-apiserver + etcd | ratio | goal |");
    println!("|---|---|---|---|---|");
    for figure in &FIGURES {
        let (ours, theirs) = (ours[figure.key].as_f64(), theirs[figure.key].as_f64());
        let shown = |value: Option<f64>| {
            value.map_or("–".to_owned(), |value| format!("{value:.4} {}", figure.unit))
        };
        let ratio = ours
            .zip(theirs)
            .filter(|(ours, theirs)| *ours > 0.0 && *theirs > 0.0);
        let ratio = ratio.map_or("–".to_owned(), |(ours, theirs)| {
            ratio_text(figure, ours, theirs)
        });
        println!(
            "| {} | {} | {} | {ratio} | {} |",
            figure.title,
            rounded(&shown(ours)),
            rounded(&shown(theirs)),
            figure.goal
        );
    }
}

fn ratio_text(figure: &Figure, ours: f64, theirs: f64) -> String {
    let better = if figure.more_is_better {
        ours / theirs
    } else {
        theirs / ours
    };
    if figure.more_is_better {
        format!("{better:.1} ×")
    } else {
        format!("1/{better:.1}")
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
