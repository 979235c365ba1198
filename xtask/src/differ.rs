//! `cargo xtask differ`: the seeded generator at length, on the embedded server and on a real one.

use std::process::ExitCode;

use crate::kube::{Controllers, Instance};
use crate::run::{cargo, run};
use crate::tools::Tool;

/// Where to begin, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The first seed; each scenario takes the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to go on.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

pub(crate) fn run_differ(args: &Args) -> anyhow::Result<ExitCode> {
    let skopos = Tool::Skopos.path()?;
    let instance = Instance::start_own("differ", Controllers::Embedded)?;
    let mut test = cargo();
    test.args([
        "test",
        "--quiet",
        "--package",
        "skopos-conformance",
        "--test",
        "generated",
    ])
    .args(["--", "--nocapture"])
    .env("SKOPOS_TARGET", instance.kubeconfig())
    .env(Tool::Skopos.variable(), skopos)
    .env("SEED", args.seed.to_string())
    .env("MINUTES", args.minutes.to_string());
    let outcome = run(&mut test);
    instance.stop()?;
    outcome?;
    Ok(ExitCode::SUCCESS)
}
