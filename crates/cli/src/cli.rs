//! The command line: global options and the list of commands.

use std::io::IsTerminal as _;

use clap::{Parser, Subcommand, ValueEnum};
use skopos_trace::{Exporter, Traces};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use crate::command::{
    Apiserver, Apply, Backtest, Check, Completion, Crd, Delete, Demo, Dlq, Etcd, Explain, Get, History,
    Manifests, Rbac, Replay, Resume, Run, Top, Up, Version, Watch,
};
use crate::failure::{EXIT_CODES, Failure};
use crate::otlp::Exporting;

/// Watch custom resources and react to every change.
#[derive(Debug, Parser)]
#[command(name = "skopos", version, after_help = EXIT_CODES, propagate_version = false)]
pub(crate) struct Cli {
    /// Say more on standard error (-v information, -vv every request)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How to write logs
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One object of JSON per line.
    Json,
}

/// One variant per command; each type parses its own arguments and runs itself.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(Demo),
    Up(Up),
    Run(Box<Run>),
    Apiserver(Box<Apiserver>),
    Apply(Apply),
    Get(Get),
    Watch(Watch),
    Delete(Delete),
    History(Box<History>),
    Explain(Explain),
    Backtest(Backtest),
    Replay(Replay),
    Dlq(Dlq),
    Top(Top),
    Resume(Resume),
    Check(Check),
    Manifests(Manifests),
    Rbac(Rbac),
    Crd(Crd),
    Completion(Completion),
    Version(Version),
    #[command(hide = true)]
    Etcd(Etcd),
}

impl Cli {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let exporter = match &self.command {
            Command::Up(command) => command.otlp.exporter()?,
            Command::Run(command) => command.otlp.exporter()?,
            _ => None,
        };
        self.start_logging(exporter.as_ref());
        let exporting = exporter.map(Exporting::start);
        let result = self.command.run(exporting.as_ref().map(Exporting::traces)).await;
        // Last, so that what a stop brings about is exported too.
        if let Some(exporting) = exporting {
            exporting.end().await;
        }
        result
    }

    /// Logs go to standard error; `SKOPOS_LOG` overrides the level with a filter such as `skopos=debug`. Traces go to an
    /// exporter whatever is logged.
    fn start_logging(&self, exporter: Option<&Exporter>) {
        let serves = matches!(
            self.command,
            Command::Up(_) | Command::Run(_) | Command::Apiserver(_)
        );
        let level = match (self.verbose, serves) {
            // The commands say themselves what the client below them logs as errors.
            (0, false) => "error,kube_client=off",
            (0, true) => "warn",
            (1, _) => "info",
            _ => "debug",
        };
        let filter = EnvFilter::try_from_env("SKOPOS_LOG").unwrap_or_else(|_| EnvFilter::new(level));
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let logs = fmt::layer().with_writer(std::io::stderr);
        let logs = match self.log_format {
            LogFormat::Text => logs.with_ansi(colour).boxed(),
            LogFormat::Json => logs.json().boxed(),
        };
        match exporter {
            Some(exporter) => registry()
                .with(logs.with_filter(filter))
                .with(exporter.layer())
                .init(),
            // One filter for everything is quicker than one of a layer.
            None => registry().with(logs).with(filter).init(),
        }
    }
}

impl Command {
    async fn run(self, traces: Option<Traces>) -> Result<(), Failure> {
        match self {
            Command::Demo(command) => command.run().await,
            Command::Up(command) => command.run(traces).await,
            Command::Run(command) => command.run(traces).await,
            Command::Apiserver(command) => command.run().await,
            Command::Apply(command) => command.run().await,
            Command::Get(command) => command.run().await,
            Command::Watch(command) => command.run().await,
            Command::Delete(command) => command.run().await,
            Command::History(command) => command.run().await,
            Command::Explain(command) => command.run().await,
            Command::Backtest(command) => command.run().await,
            Command::Replay(command) => command.run().await,
            Command::Dlq(command) => command.run().await,
            Command::Top(command) => command.run().await,
            Command::Resume(command) => command.run().await,
            Command::Check(command) => command.run().await,
            Command::Manifests(command) => command.run().await,
            Command::Rbac(command) => command.run().await,
            Command::Crd(command) => command.run(),
            Command::Completion(command) => command.run(),
            Command::Version(command) => command.run().await,
            Command::Etcd(command) => command.run().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_documents_the_exit_codes() {
        assert!(
            Cli::command()
                .render_long_help()
                .to_string()
                .contains("no API server found")
        );
    }
}
