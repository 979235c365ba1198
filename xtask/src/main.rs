//! The project's own chores: `cargo xtask <command>`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command speaks on its terminal"
)]

mod bench;
mod check;
mod differ;
mod r#gen;
mod interrupt;
mod kube;
mod parts;
mod proc;
mod programs;
mod run;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything a change must pass: checks, unit tests, end-to-end suites.
    Test(test::Args),
    /// Run the checks that read the code: format, clippy, rustdoc, tidy.
    Check,
    /// Compare the tree with its own rules: layers, crate table, file heads and sizes.
    Tidy,
    /// Make the generated tables again from the real server's own facts.
    Gen {
        /// Change nothing; fail if a table is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Measure the embedded server, and the real one beside it.
    Bench(bench::Args),
    /// Send random requests to the embedded server and to a real one, and compare.
    Differ(differ::Args),
    /// Build, start and stop a real kube-apiserver with etcd.
    #[command(subcommand)]
    Kube(kube::Command),
    /// Install the real servers that tests start: PostgreSQL, NATS, RabbitMQ, Kafka.
    Parts,
    /// Print the path of a tool that tests use, installing it if it is missing.
    Tool {
        /// Which one.
        tool: tools::Tool,
    },
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let begun = run::own_program().and_then(|_| interrupt::listen());
    let code = match begun.and_then(|()| dispatch(command)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    };
    interrupt::exit_code().unwrap_or(code)
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Test(args) => return test::run(&args),
        Command::Check => return Ok(check::run_command().exit_code()),
        Command::Tidy => tidy::run()?,
        Command::Gen { check } => r#gen::run(check)?,
        Command::Bench(args) => bench::run_bench(&args)?,
        Command::Differ(args) => return differ::run_differ(&args),
        Command::Kube(command) => return kube::run(command),
        Command::Parts => parts::install()?,
        Command::Tool { tool } => println!("{}", tool.path()?.display()),
    }
    Ok(ExitCode::SUCCESS)
}
