//! `skopos demo`: a tour on a control plane of its own.

mod proof;
mod tour;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use skopos_app::Credentials;
use tokio_util::sync::CancellationToken;

use crate::command::demo::tour::{Show, Tour};
use crate::connection::{Connection, RUNNING_KUBECONFIG};
use crate::control_plane::{ControlPlane, Settings};
use crate::failure::{EXIT_CODES, Failure};
use crate::output::Format;
use crate::{signal, terminal};

/// See custom resources watched, on a control plane of its own
///
/// Starts a control plane in memory, installs a kind, creates, changes, scales and deletes objects of it, and shows
/// what a watch sees of that. Then it kills a watcher again and again while objects change, and shows that nothing was
/// lost. Stays for you to play until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Demo {
    /// End after the tour
    #[arg(long)]
    once: bool,
    /// Show the tour with commentary, or only the changes as lines of JSON
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let interrupted = signal::shutdown()?;
        let settings = Settings {
            data_dir: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            kubeconfig: self.kubeconfig(),
            credentials: Credentials::default(),
            reactions: None,
            max_history_events: None,
        };
        let plane = ControlPlane::start(settings).await?;
        let kubeconfig = plane.kubeconfig().to_owned();
        let address = plane.address();
        let stop = CancellationToken::new();
        let server = tokio::spawn(plane.run(stop.clone()));
        let result = tokio::select! {
            () = interrupted.cancelled() => Ok(()),
            result = self.guide(address, &kubeconfig) => result,
        };
        stop.cancel();
        match server.await {
            Ok(served) => result.and(served),
            Err(error) => result.and(Err(Failure::failed(format!(
                "the control plane ended badly: {error}"
            )))),
        }
    }

    /// Where the other commands look for a running server, unless one is there already.
    fn kubeconfig(&self) -> PathBuf {
        let usual = Path::new(RUNNING_KUBECONFIG);
        if self.once {
            std::env::temp_dir().join(format!("skopos-demo-{}.kubeconfig", std::process::id()))
        } else if usual.exists() {
            usual.with_file_name("demo.kubeconfig")
        } else {
            usual.to_owned()
        }
    }

    async fn guide(&self, address: SocketAddr, kubeconfig: &Path) -> Result<(), Failure> {
        let show = match self.output {
            Format::Text => Show::Text,
            Format::Json => Show::Json,
        };
        let client = Connection::with_kubeconfig(kubeconfig.to_owned())
            .client()
            .await?;
        let mut tour = Tour::begin(client, show, address).await?;
        tour.run().await?;
        tour.prove(kubeconfig).await?;
        if self.once {
            return tour.end();
        }
        if self.output == Format::Text {
            terminal::write(how_to_play(kubeconfig).as_bytes())?;
        }
        tour.stay().await
    }
}

fn how_to_play(kubeconfig: &Path) -> String {
    let file = kubeconfig.display();
    let choose = match kubeconfig == Path::new(RUNNING_KUBECONFIG) {
        true => String::new(),
        false => format!(" --kubeconfig {file}"),
    };
    format!(
        "
Now it is your turn; this window goes on showing changes. In another terminal, in this directory:

  skopos{choose} get applications
  skopos{choose} delete app shop
  skopos{choose} watch app -o json
  kubectl --kubeconfig {file} scale app/shop --replicas=3
  kubectl --kubeconfig {file} edit app shop

Ctrl-C ends the demo.

"
    )
}
