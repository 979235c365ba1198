//! Replicas in Go and in Rust take turns with one lease.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use skopos_client::{Api, Client, Resource, Sources, connect};
use skopos_conformance::{Target, build_with, client_sources};
use skopos_controller::{Elector, Fence, LeaderConfig, Resigned};
use skopos_object::GroupVersionKind;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Long enough for a holder on a loaded machine to renew in time.
const LEASE: Duration = Duration::from_secs(4);
const NAMESPACE: &str = "default";

/// client-go's elector, in a process of its own.
struct Go {
    child: tokio::process::Child,
    said: Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Go {
    fn start(program: &Path, kubeconfig: &Path, name: &str, identity: &str) -> anyhow::Result<Self> {
        let mut child = tokio::process::Command::new(program)
            .args([NAMESPACE, name, identity, &LEASE.as_secs().to_string()])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let said = child.stdout.take().expect("it is piped");
        Ok(Self {
            child,
            said: BufReader::new(said).lines(),
        })
    }

    /// Waits until it says something.
    async fn says(&mut self) -> anyhow::Result<Option<String>> {
        Ok(self.said.next_line().await?)
    }

    /// Asks it to give the lease back and end.
    fn stop(&mut self) {
        drop(self.child.stdin.take());
    }
}

/// Our own elector.
struct Rust {
    fence: Fence,
    resign: CancellationToken,
    electing: JoinHandle<Resigned>,
}

impl Rust {
    fn start(client: &Client, name: &str, identity: &str) -> anyhow::Result<Self> {
        let config = LeaderConfig {
            lease_duration: LEASE,
            renew_deadline: LEASE * 4 / 5,
            retry_period: LEASE / 20,
            ..LeaderConfig::new(NAMESPACE, name, identity)
        };
        let elector = Elector::new(client, config)?;
        let (fence, resign) = (elector.fence(), CancellationToken::new());
        Ok(Self {
            fence,
            electing: tokio::spawn(elector.run(resign.clone())),
            resign,
        })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.resign.cancel();
        self.electing.await?.release().await?;
        Ok(())
    }
}

/// The lease, as the server has it.
struct Lease {
    api: Api,
    name: String,
}

impl Lease {
    async fn field(&self, name: &str) -> anyhow::Result<serde_json::Value> {
        Ok(self.api.get(&self.name).await?["spec"][name].clone())
    }

    /// Waits until its holder has held it for longer than it lasts: without renewals another one would have it.
    async fn outlasts_itself(&self, holder: &str) -> anyhow::Result<()> {
        let begin: jiff::Timestamp = serde_json::from_value(self.field("renewTime").await?)?;
        loop {
            let renewed: jiff::Timestamp = serde_json::from_value(self.field("renewTime").await?)?;
            anyhow::ensure!(self.field("holderIdentity").await? == holder, "{holder} lost it");
            if renewed.duration_since(begin) > jiff::SignedDuration::try_from(LEASE * 5 / 4)? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Builds the Go side; nothing where there is no Go.
fn build() -> anyhow::Result<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-contend");
    let mut go = Command::new("go");
    go.current_dir(client_sources("go"));
    build_with(go.arg("build").arg("-o").arg(&program).arg("./contend"))?;
    Ok(Some(program))
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
async fn replicas_in_go_and_in_rust_take_turns_with_one_lease() -> anyhow::Result<()> {
    let Some(program) = tokio::task::spawn_blocking(build).await?? else {
        println!("skipped: there is no go on this machine; install Go 1.26 or later (https://go.dev/dl)");
        return Ok(());
    };
    let target = tokio::task::spawn_blocking(Target::start).await??;
    let client = connect(&Sources {
        explicit: Some(target.kubeconfig().to_owned()),
        ..Sources::default()
    })
    .await?;
    let name = format!("shared-{}", std::process::id());
    let gvk = GroupVersionKind::from_api_version("coordination.k8s.io/v1", "Lease")?;
    let lease = Lease {
        api: Api::namespaced(&client, &Resource::known(&gvk, "leases", true), NAMESPACE),
        name: name.clone(),
    };
    let go = |identity| Go::start(&program, target.kubeconfig(), &name, identity);

    let mut first = go("go-1")?;
    assert_eq!(first.says().await?.as_deref(), Some("leads"));
    let second = Rust::start(&client, &name, "rust-2")?;
    lease.outlasts_itself("go-1").await?;
    assert_eq!(
        second.fence.epoch(),
        None,
        "Go renews it, and Rust leads all the same"
    );

    // Dies without a word: the lease runs out.
    first.child.kill().await?;
    second.fence.opened().await;
    assert_eq!(lease.field("holderIdentity").await?, "rust-2");
    assert_eq!(lease.field("leaseTransitions").await?, 1);
    let mut third = go("go-3")?;
    lease.outlasts_itself("rust-2").await?;

    // Gives it back: had Go led before, that would be the first thing it said.
    let fence = second.fence.clone();
    second.stop().await?;
    assert_eq!(third.says().await?.as_deref(), Some("leads"));
    assert_eq!(fence.epoch(), None);
    assert_eq!(lease.field("leaseTransitions").await?, 2);

    let fourth = Rust::start(&client, &name, "rust-4")?;
    third.stop();
    assert_eq!(third.says().await?.as_deref(), Some("lost"));
    fourth.fence.opened().await;
    assert_eq!(lease.field("holderIdentity").await?, "rust-4");
    fourth.stop().await
}
