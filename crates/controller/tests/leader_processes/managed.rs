//! One replica as users write it: a manager whose controller counts, by `Context::apply`, while it leads.

use std::time::Duration;

use serde_json::{Value, json};
use skopos_client::Client;
use skopos_controller::{Action, Context, Controller, Failure, Fence, LeaderConfig, Manager, ManagerConfig};
use skopos_informer::{Selection, Wanted};
use skopos_object::{LabelSelector, Object};
use tokio_util::sync::CancellationToken;

use crate::replica::{checked, data, fenced, next};

/// Reconciles the service account that the test made, again and again: each time it counts.
pub(crate) async fn run(client: &Client, config: LeaderConfig, run: &str, stop: CancellationToken) {
    let identity = config.identity.clone();
    let config = ManagerConfig {
        leader: Some(config),
        ..ManagerConfig::new("x.io/counter")
    };
    let mut manager = Manager::new(client, config).unwrap();
    let counter = Counter {
        fence: manager.fence().clone(),
        run: run.to_owned(),
        identity,
    };
    let accounts = Wanted {
        selection: Selection {
            labels: LabelSelector::parse(&format!("counts={run}")).unwrap(),
            ..Selection::default()
        },
        ..Wanted::from("serviceaccounts")
    };
    manager.add(
        Controller::for_(accounts).reconcile(move |_: Object, context: Context| {
            let counter = counter.clone();
            async move { counter.count(&context).await }
        }),
    );
    manager.run(stop).await.unwrap();
}

#[derive(Clone)]
struct Counter {
    fence: Fence,
    run: String,
    identity: String,
}

impl Counter {
    async fn count(&self, context: &Context) -> Result<Action, Failure> {
        if let Some(epoch) = self.fence.epoch() {
            // Failures are part of the show: the next round tries again.
            let _ = self.count_checked(context, epoch).await;
            let map = self.map(&fenced(&self.run), fastrand::u64(..), epoch);
            let _ = context.apply(&map).await;
        }
        Ok(Action::RequeueAfter(Duration::from_millis(10)))
    }

    /// An apply that names the version over which it is meant: the server refuses it over any other.
    async fn count_checked(&self, context: &Context, epoch: u64) -> Result<(), Failure> {
        let name = checked(&self.run);
        let maps = crate::api(context.client(), "v1", "ConfigMap", "configmaps");
        let live = maps.get(&name).await?;
        if let Some(counter) = next(&live, epoch) {
            let mut map = self.map(&name, counter, epoch);
            map["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            context.apply(&map).await?;
        }
        Ok(())
    }

    fn map(&self, name: &str, counter: u64, epoch: u64) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
            "data": data(&self.identity, counter, epoch)})
    }
}
