//! `skopos rbac`: the rights that rules need, as manifests.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use skopos_object::yaml;

use crate::failure::{Code, EXIT_CODES, Failed, Failure};
use crate::output::{ObjectFormat, documents};
use crate::rbac::{Who, manifests};
use crate::rule_files::RuleFiles;
use crate::terminal;

/// Print the roles that `skopos run` needs for rules, sinks and records, and no more
///
/// Reading what rules and records watch, the kinds of Skopos and their status, definitions, events, its lease, the
/// Secrets that sinks name, what sinks of the kind kubernetes write, and acting as the service accounts that rules
/// name. The rights of those accounts are printed too.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos rbac -f rules | kubectl apply -f -
  skopos rbac -f rules crds -n skopos-system --name skopos

{EXIT_CODES}"))]
pub(crate) struct Rbac {
    /// File or directory of YAML or JSON, or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Look into subdirectories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Namespace that Skopos runs in
    #[arg(short, long, value_name = "NAME", default_value = "skopos-system")]
    namespace: String,
    /// Name of the service account and of the roles
    #[arg(long, value_name = "NAME", default_value = "skopos")]
    name: String,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

impl Rbac {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let files = RuleFiles::read(&self.filename, self.recursive);
        let mut failed = Failed::default();
        for problem in &files.problems {
            failed.note(&Failure::failed(problem.as_str()));
        }
        // Half of the rights would be worse than none.
        if failed.worst.is_some() {
            return Err(Failure::silent(Code::Failed));
        }
        let who = Who {
            name: self.name,
            namespace: self.namespace,
        };
        let made = manifests(&files, &who);
        for warning in &made.warnings {
            terminal::warn(warning);
        }
        match self.output {
            Format::Json => Ok(documents(
                &mut terminal::stdout(),
                ObjectFormat::Json,
                made.objects,
                false,
            )?),
            Format::Yaml => {
                let text: String = made
                    .objects
                    .iter()
                    .map(|object| format!("---\n{}", yaml::encode(object)))
                    .collect();
                Ok(terminal::write(text.as_bytes())?)
            }
        }
    }
}
