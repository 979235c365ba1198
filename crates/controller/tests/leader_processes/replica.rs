//! One replica: while it leads it counts, in two ConfigMaps.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::{Api, Client, Error, Patch, WriteParams};
use skopos_controller::{Elector, Fence, LeaderConfig};
use tokio_util::sync::CancellationToken;

use crate::{api, managed, terminated};

/// Where the server is.
pub(crate) const URL: &str = "REPLICA_URL";
/// What the replicas of one run share: the name of the lease, and the beginning of the names of the ConfigMaps.
pub(crate) const RUN: &str = "REPLICA_RUN";
/// How it is built.
pub(crate) const BUILD: &str = "REPLICA_BUILD";
/// Who this is.
pub(crate) const IDENTITY: &str = "REPLICA_IDENTITY";

/// How a replica is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// With an elector, and a loop that writes while it leads.
    ByHand,
    /// With a manager and a controller.
    Managed,
    /// With a manager that waits for what runs when it is terminated.
    Patient,
    /// With a manager that does not wait long.
    Impatient,
}

impl Build {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::ByHand => "by hand",
            Self::Managed => "managed",
            Self::Patient => "patient",
            Self::Impatient => "impatient",
        }
    }
}

/// Written under the fence, and only over the version that was read.
pub(crate) fn checked(run: &str) -> String {
    format!("{run}-checked")
}

/// Written under the fence, whatever is there.
pub(crate) fn fenced(run: &str) -> String {
    format!("{run}-fenced")
}

/// Not a test: the process that the test starts. Ends when its standard input does.
#[tokio::test]
async fn as_told() {
    let told = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(run), Some(identity)) = (told(URL), told(RUN), told(IDENTITY)) else {
        return;
    };
    let kube = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let client = Client::new(kube, &url);
    let config = LeaderConfig {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1200),
        retry_period: Duration::from_millis(300),
        ..LeaderConfig::new("default", &run, &identity)
    };
    let build = told(BUILD).unwrap_or_default();
    if build == Build::Managed.text() {
        return managed::run(&client, config, &run, end_of_input()).await;
    }
    if build != Build::ByHand.text() {
        let is_patient = build == Build::Patient.text();
        let grace = if is_patient { 60_000 } else { 500 };
        return terminated::run(
            &client,
            config,
            &run,
            Duration::from_millis(grace),
            end_of_input(),
        )
        .await;
    }
    let elector = Elector::new(&client, config).unwrap();
    let fence = elector.fence();
    let counter = Counter {
        maps: api(
            &client.guarded(Arc::new(fence.clone())),
            "v1",
            "ConfigMap",
            "configmaps",
        ),
        run,
        identity,
    };
    let (stop, resign) = (end_of_input(), CancellationToken::new());
    let electing = tokio::spawn(elector.run(resign.clone()));
    stop.run_until_cancelled(counter.work(&fence)).await;
    // Everything has stopped: the lease may go.
    resign.cancel();
    electing.await.unwrap().release().await.unwrap();
}

struct Counter {
    maps: Api,
    run: String,
    identity: String,
}

impl Counter {
    async fn work(&self, fence: &Fence) {
        loop {
            fence.opened().await;
            let Some(epoch) = fence.epoch() else { continue };
            tokio::select! {
                () = fence.closed() => {}
                () = self.count(epoch) => {}
            }
        }
    }

    async fn count(&self, epoch: u64) {
        loop {
            // Failures are part of the show: the next round tries again.
            let _ = self.count_checked(epoch).await;
            let _ = self.count_fenced(epoch).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The second line of defence: what was read must still be there, and must not be of a later term.
    async fn count_checked(&self, epoch: u64) -> Result<(), Error> {
        let name = checked(&self.run);
        let mut map = self.maps.get(&name).await?;
        let Some(counter) = next(&map, epoch) else {
            return Ok(());
        };
        map["data"] = self.data(counter, epoch);
        self.maps.update(&name, &map, &WriteParams::default()).await?;
        Ok(())
    }

    async fn count_fenced(&self, epoch: u64) -> Result<(), Error> {
        let patch = json!({"data": self.data(fastrand::u64(..), epoch)});
        let params = WriteParams::default();
        self.maps
            .patch(&fenced(&self.run), Patch::Merge(&patch), &params)
            .await?;
        Ok(())
    }

    fn data(&self, counter: u64, epoch: u64) -> Value {
        data(&self.identity, counter, epoch)
    }
}

/// What is written each time.
pub(crate) fn data(identity: &str, counter: u64, epoch: u64) -> Value {
    let (counter, epoch) = (counter.to_string(), epoch.to_string());
    json!({"counter": counter, "epoch": epoch, "identity": identity})
}

/// What comes next, if what is there is not of a later term.
pub(crate) fn next(map: &Value, epoch: u64) -> Option<u64> {
    let number = |name: &str| map["data"][name].as_str()?.parse::<u64>().ok();
    let is_late = number("epoch").is_some_and(|latest| latest > epoch);
    (!is_late).then(|| number("counter").unwrap_or_default() + 1)
}

/// Is cancelled when nobody holds the other end of standard input any more, also because it died.
fn end_of_input() -> CancellationToken {
    let ended = CancellationToken::new();
    let token = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        token.cancel();
    });
    ended
}
