//! A real kube-apiserver with etcd: built once from the Go module proxy, started on loopback, stopped again.

mod build;
mod instance;
mod process;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::run::{command, start};

pub(crate) use build::{bin, build_only};
pub(crate) use instance::{Controllers, Instance};

/// Whether a real server can be started here: it is built already, or Go is there to build it.
pub(crate) fn can_start() -> bool {
    build::is_built() || crate::tools::on_path("go").is_some()
}

/// What to do with the real server.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Build the programs into the cache, if they are not there yet.
    Build,
    /// Start etcd, kube-apiserver and kube-controller-manager; print the path of the kubeconfig.
    Up {
        /// Which of several instances.
        #[arg(long, default_value = "default")]
        name: String,
        /// Which controllers run beside the server.
        #[arg(long, default_value = "all")]
        controllers: Controllers,
    },
    /// Stop what `up` started, and delete its data.
    Down {
        /// Which of several instances.
        #[arg(long, default_value = "default")]
        name: String,
    },
    /// Kill the API server without a warning and start it again with the same data.
    Crash {
        /// Which of several instances.
        #[arg(long, default_value = "default")]
        name: String,
    },
    /// Show the instances and their processes.
    Status,
    /// Start an instance of its own, run a command with KUBECONFIG set, stop the instance.
    Run {
        /// Use the instance of this name; one that runs already is left running (default: a new one).
        #[arg(long)]
        name: Option<String>,
        /// Which controllers run beside the server.
        #[arg(long, default_value = "embedded")]
        controllers: Controllers,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Build => build::all()?,
        Command::Up { name, controllers } => {
            println!("{}", Instance::start(&name, controllers)?.kubeconfig().display());
        }
        Command::Down { name } => Instance::named(&name)?.stop()?,
        Command::Crash { name } => Instance::named(&name)?.crash()?,
        Command::Status => instance::print_status()?,
        Command::Run {
            name,
            controllers,
            command,
        } => {
            let name = name.unwrap_or_else(|| format!("run-{}", std::process::id()));
            return run_beside(&name, controllers, &command);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_beside(name: &str, controllers: Controllers, words: &[String]) -> anyhow::Result<ExitCode> {
    let (program, args) = words.split_first().context("no command")?;
    let instance = Instance::start(name, controllers)?;
    let mut command = command(program);
    command
        .args(args)
        .env("PATH", path_with_programs()?)
        .env("KUBECONFIG", instance.kubeconfig())
        .env("SKOPOS_TARGET", instance.kubeconfig())
        .envs(instance.how_to_crash()?);
    let status = start(&mut command).and_then(|mut child| Ok(child.wait()?));
    if instance.is_new() {
        instance.stop()?;
    }
    let code = status?
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// Where commands are found: the programs of the real control plane first, kubectl among them.
fn path_with_programs() -> anyhow::Result<OsString> {
    let programs = bin("kubectl")?;
    let programs = programs.parent().context("a program in no directory")?;
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&usual));
    Ok(std::env::join_paths(all)?)
}

/// A directory under the user's own, by the variable that moves it or its usual place.
pub(crate) fn user_dir(variable: &str, usual: &str) -> anyhow::Result<PathBuf> {
    if let Some(dir) = std::env::var_os(variable) {
        return Ok(dir.into());
    }
    let home = std::env::var_os("HOME").context("neither HOME nor XDG directories are set")?;
    Ok(PathBuf::from(home).join(usual))
}
