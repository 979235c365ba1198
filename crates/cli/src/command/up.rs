//! `skopos up`: a control plane in this directory.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use skopos_app::Credentials;

use crate::control_plane::{ControlPlane, Settings};
use crate::failure::{EXIT_CODES, Failure};
use crate::{signal, terminal};

/// Start a control plane here
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
    /// How to write the line that says it is ready
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Up {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let plane = ControlPlane::start(self.settings()).await?;
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
        plane.run(stop).await
    }

    fn settings(&self) -> Settings {
        Settings {
            data_dir: (!self.in_memory).then(|| self.data_dir.clone()),
            listen: self.listen,
            kubeconfig: self
                .kubeconfig
                .clone()
                .unwrap_or_else(|| self.data_dir.join("kubeconfig")),
            credentials: Credentials::default(),
        }
    }
}
