//! `skopos completion`: words for the Tab key.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::terminal;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  source <(skopos completion bash)")]
pub(crate) struct Completion {
    /// The shell that will read it
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "skopos", &mut script);
        Ok(terminal::write(&script)?)
    }
}
