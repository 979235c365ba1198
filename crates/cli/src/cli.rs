//! The command line: global options and the list of commands.

use std::io::IsTerminal as _;

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
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

/// One variant per command; each type parses its own arguments and runs itself. What a variant says is what the type says
/// first.
#[derive(Debug, Subcommand)]
enum Command {
    /// See custom resources watched, on a control plane of its own
    Demo(Lazy<Demo>),
    /// Start a control plane here, with everything that watches and reacts
    Up(Lazy<Up>),
    /// Watch and react against a cluster
    Run(Lazy<Box<Run>>),
    /// Start the API server alone, with the flags of kube-apiserver
    Apiserver(Lazy<Box<Apiserver>>),
    /// Create or change objects so that they are as files describe
    Apply(Lazy<Apply>),
    /// Show objects of any resource
    Get(Lazy<Get>),
    /// Show every change of a resource, field by field
    Watch(Lazy<Watch>),
    /// Delete objects of any resource
    Delete(Lazy<Delete>),
    /// Show what happened to objects, or what they were
    History(Lazy<Box<History>>),
    /// Show why a rule fired for a change, or why not
    Explain(Lazy<Explain>),
    /// Show what a rule would have matched and sent, before it is put in force
    Backtest(Lazy<Backtest>),
    /// Send what a rule matched in a range of changes again
    Replay(Lazy<Replay>),
    /// Look at deliveries that were given up; try them again or drop them
    Dlq(Dlq),
    /// Show how rules, sinks and captures are doing: lag, rates, what waits and what was given up
    Top(Lazy<Top>),
    /// Let a rule go on that was suspended because it did more than it may, or looked like a loop
    Resume(Lazy<Resume>),
    /// Check rules, sinks, records and resources in files, and run the tests of rules
    Check(Lazy<Check>),
    /// Print everything that runs Skopos in a cluster
    Manifests(Lazy<Manifests>),
    /// Print the roles that `skopos run` needs for rules, sinks and records, and no more
    Rbac(Lazy<Rbac>),
    /// Print the definitions of Rule, Sink and Record
    Crd(Lazy<Crd>),
    /// Print a completion script for a shell
    Completion(Lazy<Completion>),
    /// Show the version of this program and of the server
    Version(Lazy<Version>),
    /// Answer envtest's health check of etcd; the store is in the API server
    #[command(hide = true)]
    Etcd(Lazy<Etcd>),
}

/// A command whose options are defined once it is asked for: to define those of all commands took a good part of the
/// time and memory of a start. Not for commands that have commands of their own: completion would not know those of `help`.
#[derive(Debug)]
struct Lazy<T>(T);

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Cli {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let exporter = match &self.command {
            Command::Up(Lazy(command)) => command.otlp.exporter()?,
            Command::Run(Lazy(command)) => command.otlp.exporter()?,
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
            Command::Demo(Lazy(command)) => command.run().await,
            Command::Up(Lazy(command)) => command.run(traces).await,
            Command::Run(Lazy(command)) => command.run(traces).await,
            Command::Apiserver(Lazy(command)) => command.run().await,
            Command::Apply(Lazy(command)) => command.run().await,
            Command::Get(Lazy(command)) => command.run().await,
            Command::Watch(Lazy(command)) => command.run().await,
            Command::Delete(Lazy(command)) => command.run().await,
            Command::History(Lazy(command)) => command.run().await,
            Command::Explain(Lazy(command)) => command.run().await,
            Command::Backtest(Lazy(command)) => command.run().await,
            Command::Replay(Lazy(command)) => command.run().await,
            Command::Dlq(command) => command.run().await,
            Command::Top(Lazy(command)) => command.run().await,
            Command::Resume(Lazy(command)) => command.run().await,
            Command::Check(Lazy(command)) => command.run().await,
            Command::Manifests(Lazy(command)) => command.run().await,
            Command::Rbac(Lazy(command)) => command.run().await,
            Command::Crd(Lazy(command)) => command.run(),
            Command::Completion(Lazy(command)) => command.run(),
            Command::Version(Lazy(command)) => command.run().await,
            Command::Etcd(Lazy(command)) => command.run().await,
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
    fn the_list_of_commands_says_what_each_says_first() {
        let listed = Cli::command();
        let mut built = Cli::command();
        built.build();
        for command in listed.get_subcommands() {
            let same = built.find_subcommand(command.get_name()).unwrap();
            let texts = [command, same].map(|command| command.get_about().map(ToString::to_string));
            assert_eq!(texts[0], texts[1], "{}", command.get_name());
            assert!(texts[0].is_some(), "{}", command.get_name());
        }
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
