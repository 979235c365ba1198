//! `skopos crd`: the definitions of our own kinds.

use clap::{Args, ValueEnum};
use skopos_api::definitions;
use skopos_object::yaml;

use crate::failure::{EXIT_CODES, Failure};
use crate::output::{ObjectFormat, documents};
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
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

impl Crd {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.output {
            Format::Json => Ok(documents(
                &mut terminal::stdout(),
                ObjectFormat::Json,
                definitions(),
                false,
            )?),
            Format::Yaml => {
                let text: String = definitions()
                    .iter()
                    .map(|definition| format!("---\n{}", yaml::encode(definition)))
                    .collect();
                Ok(terminal::write(text.as_bytes())?)
            }
        }
    }
}
