//! `skopos run`: watch and react against a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use skopos_api::{Size, Span};
use skopos_app::{LeaderConfig, ReactionsConfig, ReactionsError, run_reactions};
use skopos_trace::Traces;

use crate::cluster_name::ClusterFlag;
use crate::connection::Connection;
use crate::failure::{Code, EXIT_CODES, Failure, chain};
use crate::journal_server::{self, JournalServer};
use crate::otlp::Otlp;
use crate::output::Format;
use crate::rbac::LEASE;
use crate::{signal, terminal};

/// Watch and react against a cluster
///
/// Follows what rules and records ask for, writes every change down, and delivers what matches: the rules of the
/// cluster, and those of files. Prints one line when it is ready, and stops cleanly on SIGINT or SIGTERM.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos run
  skopos run -f rules/ --no-cluster-rules --no-install
  skopos run --leader-elect --data-dir /var/lib/skopos
  skopos run --watch-namespace shop --watch-namespace ops --no-install
  SKOPOS_JOURNAL=postgres://skopos:secret@db/audit skopos run --leader-elect

{EXIT_CODES}"))]
pub(crate) struct Run {
    /// Where to keep the journal and the state of deliveries
    #[arg(long, value_name = "DIR", default_value = ".skopos")]
    data_dir: PathBuf,
    #[command(flatten)]
    journal: JournalServer,
    /// How long the server of --journal may be away at the start
    #[arg(long, value_name = "TIME", default_value = "1m")]
    journal_wait: Span,
    /// File or directory with rules, sinks and records, besides those of the cluster; may be given several times
    #[arg(short, long = "filename", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Leave alone the rules, sinks and records of the cluster: only those of files count
    #[arg(long, requires = "files")]
    no_cluster_rules: bool,
    /// Look at this namespace only: for rules, sinks and records, and for what they watch; may be given several times
    #[arg(long = "watch-namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// Do not install the definitions of our kinds (`skopos crd` prints them)
    #[arg(long)]
    no_install: bool,
    /// Let sinks of the cluster run commands on this machine; those of files may
    #[arg(long)]
    allow_exec: bool,
    /// Let sinks of the cluster write files on this machine; those of files may
    #[arg(long)]
    allow_file: bool,
    /// Take turns with other replicas by a lease: only its holder works
    #[arg(long)]
    leader_elect: bool,
    /// Namespace of the lease
    #[arg(long, value_name = "NAME", default_value = "skopos-system")]
    leader_namespace: String,
    /// Name of this replica in the lease; otherwise HOSTNAME and a number by chance
    #[arg(long, value_name = "NAME")]
    leader_identity: Option<String>,
    /// Keep no more than so many bytes of changes, such as 20Gi: then the oldest go, whatever records say
    #[arg(long, value_name = "SIZE")]
    journal_max_bytes: Option<Size>,
    /// Address at which other commands ask; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    admin: SocketAddr,
    /// Address at which /healthz, /readyz and /metrics are served, without access control
    #[arg(long, value_name = "ADDRESS")]
    endpoint: Option<SocketAddr>,
    #[command(flatten)]
    cluster: ClusterFlag,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
    /// How to write the line that says it is ready
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    // Last: whatever follows would stand under its heading in the help.
    #[command(flatten)]
    connection: Connection,
}

impl Run {
    pub(crate) async fn run(self, traces: Option<Traces>) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let config = self.config(traces)?;
        let client = self.connection.client().await?;
        let (format, dir) = (self.output, self.data_dir.clone());
        let ready = move || {
            let line = match format {
                Format::Text => format!("skopos is watching (data in {})", dir.display()),
                Format::Json => json!({"ready": true, "dataDir": dir}).to_string(),
            };
            // Watching does not depend on anybody reading the line.
            let _ = terminal::say(&line);
        };
        run_reactions(&client, config, ready, stop)
            .await
            .map_err(|error| ended(&error))
    }

    fn config(&self, traces: Option<Traces>) -> Result<ReactionsConfig, Failure> {
        let identity = self.leader_identity.clone().unwrap_or_else(|| {
            let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "skopos".into());
            // Not the process id: a container that is started again has the same.
            format!("{host}_{:08x}", fastrand::u32(..))
        });
        Ok(ReactionsConfig {
            journal: self.journal.url()?,
            journal_wait: self.journal_wait.0,
            files: self.files.clone(),
            install: !self.no_install,
            from_cluster: !self.no_cluster_rules,
            namespaces: self.namespaces.clone(),
            allow_exec: self.allow_exec,
            allow_file: self.allow_file,
            search_path: std::env::var_os("PATH"),
            env: |name| std::env::var(name).ok(),
            journal_max_bytes: self.journal_max_bytes.map(|size| size.0),
            endpoint: self.endpoint,
            traces,
            cluster: self.cluster.name.0.clone(),
            admin: self.admin,
            leader: self
                .leader_elect
                .then(|| LeaderConfig::new(&self.leader_namespace, LEASE, &identity)),
            ..ReactionsConfig::new(self.data_dir.clone())
        })
    }
}

fn ended(error: &ReactionsError) -> Failure {
    let code = match error {
        ReactionsError::Stopped(_) => Code::Failed,
        _ => Code::NoStart,
    };
    let failure = Failure::new(code, chain(error));
    match journal_server::hint(error) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
