//! `skopos up`: a control plane in this directory, with everything that watches and reacts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use skopos_api::Size;
use skopos_app::{Credentials, ReactionsConfig};
use skopos_trace::Traces;

use crate::cluster_name::ClusterFlag;
use crate::control_plane::{ControlPlane, Settings};
use crate::failure::{EXIT_CODES, Failure};
use crate::journal_server::JournalServer;
use crate::otlp::Otlp;
use crate::output::Format;
use crate::{signal, terminal};

/// Start a control plane here, with everything that watches and reacts
///
/// Apply custom resource definitions, rules and sinks to it, and every change of what the rules watch is written down and
/// delivered.
///
/// Prints one line when it is ready, and stops cleanly on SIGINT or SIGTERM. The other commands find it when they
/// are run in the same directory.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos up
  skopos up --in-memory --listen 127.0.0.1:0
  KUBECONFIG=.skopos/kubeconfig kubectl get namespaces

{EXIT_CODES}"))]
pub(crate) struct Up {
    /// Where to keep data and certificates
    #[arg(long, value_name = "DIR", default_value = ".skopos")]
    data_dir: PathBuf,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Keep everything in memory: all is gone at the end
    #[arg(long)]
    in_memory: bool,
    /// Where to write the kubeconfig, if not into the data directory
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    journal: JournalServer,
    /// File or directory with rules, sinks and records, besides those of the control plane; may be given several times
    #[arg(short, long = "filename", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Let sinks of the control plane run commands on this machine; those of files may
    #[arg(long)]
    allow_exec: bool,
    /// Let sinks of the control plane write files on this machine; those of files may
    #[arg(long)]
    allow_file: bool,
    /// Keep no more than so many bytes of changes, such as 20Gi: then the oldest go, whatever records say
    #[arg(long, value_name = "SIZE")]
    journal_max_bytes: Option<Size>,
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
}

/// How directories are called whose process keeps its objects in memory, before the number of the process.
const IN_MEMORY: &str = "in-memory-";

impl Up {
    pub(crate) async fn run(self, traces: Option<Traces>) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let dir = self.journal_dir();
        let plane = ControlPlane::start(self.settings(&dir, traces)?).await?;
        let (address, kubeconfig) = (plane.address(), plane.kubeconfig().display());
        let line = match self.output {
            Format::Text => format!("skopos is ready at https://{address} (kubeconfig {kubeconfig})"),
            Format::Json => {
                json!({"ready": true, "server": format!("https://{address}"), "kubeconfig": kubeconfig.to_string()})
                    .to_string()
            }
        };
        // Serving does not depend on anybody reading the line.
        let _ = terminal::say(&line);
        let ran = plane.run(stop).await;
        if self.in_memory {
            // Like the objects, what happened to them is gone at the end.
            let _ = std::fs::remove_dir_all(&dir);
        }
        ran
    }

    /// Where changes are written down. They do not fit into memory, so they are on disk even if the objects are not.
    fn journal_dir(&self) -> PathBuf {
        if !self.in_memory {
            return self.data_dir.clone();
        }
        remove_leftovers(&self.data_dir);
        self.data_dir.join(format!("{IN_MEMORY}{}", std::process::id()))
    }

    fn settings(&self, journal_dir: &Path, traces: Option<Traces>) -> Result<Settings, Failure> {
        let reactions = ReactionsConfig {
            journal: self.journal.url()?,
            files: self.files.clone(),
            allow_exec: self.allow_exec,
            allow_file: self.allow_file,
            search_path: std::env::var_os("PATH"),
            env: |name| std::env::var(name).ok(),
            journal_max_bytes: self.journal_max_bytes.map(|size| size.0),
            endpoint: self.endpoint,
            traces,
            cluster: self.cluster.name.0.clone(),
            admin_dir: self.data_dir.clone(),
            ..ReactionsConfig::new(journal_dir.to_owned())
        };
        Ok(Settings {
            data_dir: (!self.in_memory).then(|| self.data_dir.clone()),
            listen: self.listen,
            kubeconfig: self
                .kubeconfig
                .clone()
                .unwrap_or_else(|| self.data_dir.join("kubeconfig")),
            credentials: Credentials::default(),
            reactions: Some(reactions),
            max_history_events: None,
        })
    }
}

/// Removes what processes left that were killed.
fn remove_leftovers(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(IN_MEMORY));
        let is_gone = |process: &str| !Path::new("/proc").join(process).exists();
        if process.is_some_and(is_gone) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
