//! One replica: while it leads it counts, in two ConfigMaps.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skopos_client::{Api, Client, Error, Patch, WriteParams};
use skopos_controller::{Elector, Fence, LeaderConfig};
use tokio_util::sync::CancellationToken;

use crate::api;

/// Where the server is.
pub(crate) const URL: &str = "REPLICA_URL";
/// What the replicas of one run share: the name of the lease, and the beginning of the names of the ConfigMaps.
pub(crate) const RUN: &str = "REPLICA_RUN";
/// Who this is.
pub(crate) const IDENTITY: &str = "REPLICA_IDENTITY";

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
        let number = |name: &str| {
            map["data"][name]
                .as_str()
                .and_then(|text| text.parse::<u64>().ok())
        };
        if number("epoch").is_some_and(|latest| latest > epoch) {
            return Ok(());
        }
        let counter = number("counter").unwrap_or_default() + 1;
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

    fn data(&self, counter: u64, epoch: u64) -> serde_json::Value {
        let (counter, epoch) = (counter.to_string(), epoch.to_string());
        json!({"counter": counter, "epoch": epoch, "identity": self.identity})
    }
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
