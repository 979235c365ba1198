//! `skopos manifests`: everything that runs Skopos in a cluster.

use clap::Args;

use crate::failure::{EXIT_CODES, Failure};
use crate::output::{ObjectFormat, manifests};
use crate::rbac::{self, Who};
use crate::rule_source::RuleSource;
use crate::terminal;
use crate::workload::{SecretRef, Workload, namespace, workload};

/// Print everything that runs Skopos in a cluster
///
/// The namespace, the definitions of our kinds, the service account with the roles that the rules need (as `skopos rbac`),
/// the pods with probes and a restricted security context, a Service for the metrics and a PodDisruptionBudget. With the
/// journal on a volume there is one pod; with a journal elsewhere (--journal-secret) there are two, of which one works.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos manifests -f rules crds --image example.com/skopos:0.1.0 | kubectl apply --server-side -f -
  skopos manifests --image example.com/skopos:0.1.0 --journal-secret skopos-journal

{EXIT_CODES}"))]
pub(crate) struct Manifests {
    /// Container image; the Dockerfile of the repository makes one
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Namespace that Skopos runs in
    #[arg(short, long, value_name = "NAME", default_value = "skopos-system")]
    namespace: String,
    /// Namespace that Skopos looks at; may be given several times, and then there are only Roles, no ClusterRole
    #[arg(long = "watch-namespace", value_name = "NAME")]
    watch: Vec<String>,
    /// Name of the service account, the roles and the workload
    #[arg(long, value_name = "NAME", default_value = "skopos")]
    name: String,
    /// Secret in that namespace with the address of a shared journal, and its key (`url` unless given): replicas take turns
    #[arg(long, value_name = "NAME[/KEY]", value_parser = secret)]
    journal_secret: Option<SecretRef>,
    /// Size of the volume, if the journal is on one
    #[arg(long, value_name = "SIZE", default_value = "10Gi")]
    storage: String,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
    // Last: whatever follows would stand under its heading in the help.
    #[command(flatten)]
    source: RuleSource,
}

impl Manifests {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let files = self.source.read(&self.watch).await?;
        let who = Who {
            name: self.name,
            namespace: self.namespace,
            watch: self.watch,
        };
        let rights = rbac::manifests(&files, &who);
        for warning in &rights.warnings {
            terminal::warn(warning);
        }
        let pods = Workload {
            image: self.image,
            journal: self.journal_secret,
            storage: self.storage,
        };
        let mut objects = vec![namespace(&who)];
        objects.extend(skopos_api::definitions());
        objects.extend(rights.objects);
        objects.extend(workload(&who, &pods));
        Ok(manifests(&mut terminal::stdout(), self.output, objects)?)
    }
}

fn secret(text: &str) -> Result<SecretRef, String> {
    let (name, key) = text.split_once('/').unwrap_or((text, "url"));
    match name.is_empty() || key.is_empty() {
        true => Err("expected the name of a Secret, and its key after a slash".into()),
        false => Ok(SecretRef {
            name: name.into(),
            key: key.into(),
        }),
    }
}
