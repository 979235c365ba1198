//! A manager that a signal tells to stop, as in a pod: intake first, then what runs, the lease last.

use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::{Api, Client, DeleteParams, Patch, WriteParams};
use skopos_controller::{Action, Context, Controller, Failure, LeaderConfig, Manager, ManagerConfig};
use skopos_informer::{Selection, Wanted};
use skopos_object::{LabelSelector, Object};
use skopos_testkit::eventually;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::replica::Build;
use crate::{ALONE, Process, api, server};

/// Reconciles the service accounts of a run: notes the begin in a map of the same name, waits there for leave to go on,
/// and notes the end. When it is terminated it makes the map `<run>-told`.
pub(crate) async fn run(
    client: &Client,
    leader: LeaderConfig,
    run: &str,
    grace: Duration,
    shutdown: CancellationToken,
) {
    let config = ManagerConfig {
        leader: Some(leader),
        grace,
        ..ManagerConfig::new("x.io/slow")
    };
    let mut manager = Manager::new(client, config).unwrap();
    let accounts = Wanted {
        selection: Selection {
            labels: LabelSelector::parse(&format!("slow={run}")).unwrap(),
            ..Selection::default()
        },
        ..Wanted::from("serviceaccounts")
    };
    manager.add(Controller::for_(accounts).reconcile(reconcile));
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let (stop, maps, told) = (shutdown.clone(), maps(client), format!("{run}-told"));
    let telling = tokio::spawn(async move {
        if stop.run_until_cancelled(terminated.recv()).await.is_some() {
            stop.cancel();
            let told = json!({"metadata": {"name": told}});
            maps.create(&told, &WriteParams::default()).await.unwrap();
        }
    });
    manager.run(shutdown).await.unwrap();
    telling.await.unwrap();
}

async fn reconcile(account: Object, context: Context) -> Result<Action, Failure> {
    let name = account.name();
    let state = |state: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"state": state}});
    context.apply(&state("begun")).await?;
    while maps(context.client()).get(name).await?["data"]["leave"] != "yes" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    context.apply(&state("ended")).await?;
    Ok(Action::Done)
}

fn maps(client: &Client) -> Api {
    api(client, "v1", "ConfigMap", "configmaps")
}

/// A replica in the middle of its first reconcile.
struct Show {
    client: Client,
    run: String,
    process: Process,
}

impl Show {
    async fn begin(client: &Client, build: Build) -> Self {
        let run = format!("terminated-{}-{:x}", std::process::id(), fastrand::u32(..));
        let show = Self {
            client: client.clone(),
            process: Process::start(client, build, &run, "a").await,
            run,
        };
        show.account("first").await;
        eventually(async || match show.state("first").await.as_deref() {
            Some("begun") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        show
    }

    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.run)
    }

    async fn account(&self, name: &str) {
        let metadata = json!({"name": self.name(name), "labels": {"slow": self.run}});
        let accounts = api(&self.client, "v1", "ServiceAccount", "serviceaccounts");
        let account = json!({"metadata": metadata});
        accounts.create(&account, &WriteParams::default()).await.unwrap();
    }

    async fn map(&self, name: &str) -> Option<Value> {
        maps(&self.client).find(&self.name(name)).await.unwrap()
    }

    async fn state(&self, name: &str) -> Option<String> {
        let map = self.map(name).await?;
        map["data"]["state"].as_str().map(str::to_owned)
    }

    async fn lease(&self) -> Value {
        let leases = api(&self.client, "coordination.k8s.io/v1", "Lease", "leases");
        leases.get(&self.run).await.unwrap()
    }

    /// Sends the signal, and waits until it has arrived.
    async fn terminate(&self) {
        self.process.signal("-TERM");
        eventually(async || self.map("told").await.map(drop).ok_or("not told")).await;
    }

    async fn ended(&mut self) {
        eventually(async || match self.process.child.try_wait().unwrap() {
            Some(status) if status.success() => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    async fn clean_up(self) {
        let params = DeleteParams::default();
        let accounts = api(&self.client, "v1", "ServiceAccount", "serviceaccounts");
        for name in ["first", "second", "told"] {
            // Not every show has all of them.
            let _ = accounts.delete(&self.name(name), &params).await;
            let _ = maps(&self.client).delete(&self.name(name), &params).await;
        }
        let leases = api(&self.client, "coordination.k8s.io/v1", "Lease", "leases");
        leases.delete(&self.run, &params).await.unwrap();
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_manager_finishes_what_runs_begins_nothing_and_gives_the_lease_back_last() {
    let _alone = ALONE.lock().await;
    let (client, _server) = server().await;
    let mut show = Show::begin(&client, Build::Patient).await;
    show.terminate().await;
    show.account("second").await;
    // It leads on, for what still runs.
    let before = show.lease().await["spec"]["renewTime"].clone();
    eventually(async || {
        let lease = show.lease().await;
        let is_renewed = lease["spec"]["renewTime"] != before && lease["spec"]["holderIdentity"] == "a";
        if is_renewed {
            Ok(())
        } else {
            Err(lease.to_string())
        }
    })
    .await;
    assert_eq!(show.state("first").await.as_deref(), Some("begun"));
    let leave = json!({"data": {"leave": "yes"}});
    maps(&client)
        .patch(&show.name("first"), Patch::Merge(&leave), &WriteParams::default())
        .await
        .unwrap();
    show.ended().await;
    let (first, lease) = (show.map("first").await.unwrap(), show.lease().await);
    assert_eq!(first["data"]["state"], "ended");
    assert_eq!(show.state("second").await, None);
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
    assert!(version(&lease) > version(&first), "{lease} before {first}");
    show.clean_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_manager_cancels_what_does_not_finish_in_time_and_gives_the_lease_back() {
    let _alone = ALONE.lock().await;
    let (client, _server) = server().await;
    let mut show = Show::begin(&client, Build::Impatient).await;
    show.terminate().await;
    show.ended().await;
    assert_eq!(show.state("first").await.as_deref(), Some("begun"));
    let lease = show.lease().await;
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
    show.clean_up().await;
}
