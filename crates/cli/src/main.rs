//! The skopos command.

mod admin_client;
mod applier;
mod argv;
mod change_view;
mod cli;
mod cluster_name;
mod command;
mod connection;
mod control_plane;
mod diff_view;
mod failure;
mod journal_server;
mod kind;
mod lint;
mod live_source;
mod manifest;
mod merge;
mod mirror;
mod moment;
mod names;
mod otlp;
mod output;
mod rbac;
mod rule_files;
mod rule_source;
mod screen;
mod signal;
mod terminal;
mod workload;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;
use crate::failure::{Code, Failure};

fn main() -> ExitCode {
    let (args, unknown) = argv::prepare(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Printing can only fail if nobody listens.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8));
        }
    };
    for flag in unknown {
        terminal::warn(&format!(
            "{flag} is a flag of kube-apiserver that has no meaning here; ignored"
        ));
    }
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::report(&failure);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::NoStart, format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(cli.run());
    // Connections that are still open do not hold up the end.
    runtime.shutdown_background();
    result
}
