//! `skopos rbac`: the rights that rules need, as manifests.

use clap::Args;

use crate::failure::{EXIT_CODES, Failure};
use crate::output::{ObjectFormat, manifests};
use crate::rbac::{self, Who};
use crate::rule_source::RuleSource;
use crate::terminal;

/// Print the roles that `skopos run` needs for rules, sinks and records, and no more
///
/// Reading what rules and records watch, the kinds of Skopos and their status, definitions, its lease, the
/// Secrets that sinks name, what sinks of the kind kubernetes write, and acting as the service accounts that rules
/// name. The rights of those accounts are printed too.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos rbac -f rules | kubectl apply -f -
  skopos rbac -f rules crds -n skopos-system --name skopos
  skopos rbac -f rules crds --watch-namespace shop

{EXIT_CODES}"))]
pub(crate) struct Rbac {
    /// Namespace that Skopos runs in
    #[arg(short, long, value_name = "NAME", default_value = "skopos-system")]
    namespace: String,
    /// Namespace that Skopos looks at; may be given several times, and then there are only Roles, no ClusterRole
    #[arg(long = "watch-namespace", value_name = "NAME")]
    watch: Vec<String>,
    /// Name of the service account and of the roles
    #[arg(long, value_name = "NAME", default_value = "skopos")]
    name: String,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
    // Last: whatever follows would stand under its heading in the help.
    #[command(flatten)]
    source: RuleSource,
}

impl Rbac {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let files = self.source.read(&self.watch).await?;
        let who = Who {
            name: self.name,
            namespace: self.namespace,
            watch: self.watch,
        };
        let made = rbac::manifests(&files, &who);
        for warning in &made.warnings {
            terminal::warn(warning);
        }
        Ok(manifests(&mut terminal::stdout(), self.output, made.objects)?)
    }
}
