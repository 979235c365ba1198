//! Libraries beside their peers: builds what takes part, then lets `skopos-bench` race it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::build;
use crate::kube::{Controllers, Instance};
use crate::run::{cargo, root, run, target_dir};
use crate::tools::on_path;

/// A library to measure. Arguments behind `--` go to `skopos-bench`, for example `-- --rounds 5`.
#[derive(clap::Subcommand)]
pub(crate) enum Library {
    /// The watch engine, client-go's dynamic informer and kube-rs' reflector: sync, memory, events, growth.
    Watch {
        /// Sync with the real kube-apiserver instead of the embedded one.
        #[arg(long, conflicts_with = "replay")]
        real: bool,
        /// Sync with a server that makes its objects while it sends them.
        #[arg(long)]
        replay: bool,
        /// Measure Skopos alone.
        #[arg(long)]
        alone: bool,
        #[arg(last = true)]
        more: Vec<String>,
    },
    /// Controllers: ours, controller-runtime's and kube-rs'.
    Controller {
        #[arg(last = true)]
        more: Vec<String>,
    },
    /// The journal and what reacts to it, durable and not: throughput, latency, memory, start.
    Journal {
        #[arg(last = true)]
        more: Vec<String>,
    },
    /// The work queue, client-go's and controller-runtime's.
    Queue {
        #[arg(last = true)]
        more: Vec<String>,
    },
}

pub(crate) fn run_bench(library: &Library) -> anyhow::Result<()> {
    match library {
        Library::Watch {
            real,
            replay,
            alone,
            more,
        } => {
            let built = build()?;
            let mut bench = Command::new(built.join("skopos-bench"));
            bench.arg("watch").args(more);
            if !alone {
                bench.arg("--kube").arg(kube_program("skopos-bench-kube")?);
                if let Some(program) = go_program("informer")? {
                    bench.arg("--go").arg(program);
                }
            }
            match (real, replay) {
                (true, _) => with_real_server(bench),
                (false, true) => run(&mut bench),
                (false, false) => run(bench.arg("--program").arg(built.join("skopos"))),
            }
        }
        Library::Controller { more } => {
            let built = build()?;
            let mut bench = Command::new(built.join("skopos-bench"));
            bench.arg("controller").args(more);
            bench.arg("--program").arg(built.join("skopos"));
            bench
                .arg("--kube")
                .arg(kube_program("skopos-bench-kube-controller")?);
            if let Some(program) = go_program("controller")? {
                bench.arg("--go").arg(program);
            }
            run(&mut bench)
        }
        Library::Journal { more } => {
            let built = build()?;
            let mut bench = Command::new(built.join("skopos-bench"));
            bench.arg("journal").arg("--dir").arg(target_dir()?);
            run(bench.args(more))
        }
        Library::Queue { more } => {
            let built = build()?;
            let mut bench = Command::new(built.join("skopos-bench"));
            bench.arg("queue").args(more);
            if let Some(program) = go_program("queue")? {
                bench.arg("--go").arg(program);
            }
            run(&mut bench)
        }
    }
}

fn with_real_server(mut bench: Command) -> anyhow::Result<()> {
    let instance = Instance::start_own("bench", Controllers::Embedded)?;
    let measured = run(bench.arg("--kubeconfig").arg(instance.kubeconfig()));
    instance.stop()?;
    measured
}

/// Builds a program of `bench/go`; nothing where there is no Go.
fn go_program(name: &str) -> anyhow::Result<Option<PathBuf>> {
    if on_path("go").is_none() {
        eprintln!("no go on this machine: client-go is left out");
        return Ok(None);
    }
    let program = target_dir()?.join("peers").join(name);
    let source = root().join("bench/go").join(name);
    run(Command::new("go")
        .arg("build")
        .arg("-C")
        .arg(source)
        .arg("-o")
        .arg(&program))?;
    Ok(Some(program))
}

/// Builds the programs on kube-rs, which are not part of the workspace; gives the one asked for.
fn kube_program(name: &str) -> anyhow::Result<PathBuf> {
    let manifest = root().join("bench/peers/kube/Cargo.toml");
    let target = target_dir()?.join("peers");
    let build = ["build", "--release", "--quiet", "--locked", "--manifest-path"];
    run(cargo().args(build).arg(manifest).arg("--target-dir").arg(&target))?;
    Ok(Path::new(&target).join("release").join(name))
}
