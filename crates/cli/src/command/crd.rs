//! `skopos crd`: the definitions of our own kinds.

use clap::Args;
use skopos_api::definitions;

use crate::failure::{EXIT_CODES, Failure};
use crate::output::{ObjectFormat, manifests};
use crate::terminal;

/// Print the definitions of Rule, Sink and Record
///
/// `skopos up` has them already; a cluster that `skopos run` works on needs them.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos crd | kubectl apply --server-side -f -
  skopos crd -o json

{EXIT_CODES}"))]
pub(crate) struct Crd {
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

impl Crd {
    pub(crate) fn run(self) -> Result<(), Failure> {
        Ok(manifests(&mut terminal::stdout(), self.output, definitions())?)
    }
}
