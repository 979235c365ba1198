//! Two replicas of a controller on one server, and everything that happens to them.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use skopos_client::{Api, Client, DeleteParams, ListParams, Patch, Resource, WriteParams};
use skopos_controller::{ClockSkew, Fence, LeaderConfig, Manager, ManagerConfig};
use skopos_object::GroupVersionKind;
use skopos_testkit::{Fault, FaultLayer, Faults, Rule, TestServer, Verb, definition, eventually};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

use crate::renting::{Outside, controller};
use crate::trace::Trace;
use crate::witness::Witness;

pub(crate) struct World {
    server: TestServer,
    trace: Trace,
    random: Rng,
    replicas: Vec<Replica>,
    outside: Outside,
    witness: Witness,
    clocks: Clocks,
    patience: Duration,
}

/// How wrong the clocks of the replicas are.
#[derive(Clone, Copy)]
pub(crate) enum Clocks {
    /// Anyhow, by less than lease and deadline allow: 15 to 10.
    Wrong,
    /// So many milliseconds in a second.
    Gaining([i32; 2]),
}

struct Replica {
    name: String,
    /// Between this replica and the server.
    faults: Faults,
    fence: Fence,
    shutdown: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
}

/// What is watched: what the controller is for, and what it makes.
const WATCHED: [&str; 2] = ["apps", "configmaps"];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

impl World {
    /// A world whose controllers wait so long for the caches to show what they wrote.
    pub(crate) async fn new(seed: u64, clocks: Clocks, patience: Duration) -> Self {
        // Whoever draws without a seed of its own draws from this one: everything is on this thread.
        fastrand::seed(seed);
        let server = TestServer::start_seeded(seed).await;
        server.put(&definition("x.io", "v1", "App", "apps")).await;
        let mut world = Self {
            server,
            trace: Trace::new(),
            random: Rng::with_seed(seed),
            replicas: Vec::new(),
            outside: Outside::default(),
            witness: Witness::default(),
            clocks,
            patience,
        };
        for n in 0..2 {
            world.start_replica(n);
        }
        world
    }

    fn start_replica(&mut self, n: usize) {
        let name = format!("replica-{n}-{}", self.random.u32(..));
        let faults = Faults::seeded(self.random.u64(..));
        self.draw_lags(&faults);
        let witnessed = self.witness.of(self.server.direct().kube(), &name);
        let behind = kube::Client::new(FaultLayer::new(&faults).layer(witnessed), "default");
        let client = self.trace.of(&Client::new(behind, "in process"), &name);
        let gain_per_mille = match self.clocks {
            Clocks::Wrong => self.random.i32(-160..=180),
            Clocks::Gaining(gains) => gains[n],
        };
        let skew = ClockSkew {
            ahead: Duration::from_secs(self.random.u64(0..1000)),
            gain_per_mille,
        };
        let config = ManagerConfig {
            leader: Some(LeaderConfig {
                skew,
                ..LeaderConfig::new("default", "apps", &name)
            }),
            ..ManagerConfig::new("x.io/apps")
        };
        let mut manager = Manager::new(&client, config).unwrap();
        manager.add(controller(&self.outside, self.random.fork(), self.patience));
        let fence = manager.fence().clone();
        self.witness.knows(&name, &fence);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(manager.run(shutdown.clone()));
        let replica = Replica {
            name,
            faults,
            fence,
            shutdown,
            running,
        };
        if n < self.replicas.len() {
            self.replicas[n] = replica;
        } else {
            self.replicas.push(replica);
        }
    }

    /// From now on a replica hears of each resource late, by a time of its own, or at once.
    fn draw_lags(&mut self, faults: &Faults) {
        for resource in WATCHED {
            let lag = match self.random.bool() {
                true => Duration::from_millis(self.random.u64(0..4000)),
                false => Duration::ZERO,
            };
            faults.lag(resource, lag);
        }
    }

    /// Lets so many things happen.
    pub(crate) async fn live(&mut self, n_happenings: usize) {
        for _ in 0..n_happenings {
            let pause = Duration::from_millis(self.random.u64(0..3000));
            tokio::time::sleep(pause).await;
            let happening = self.random.u8(0..12);
            self.trace.note(format_args!("happening {happening}"));
            match happening {
                0..=4 => self.change_app().await,
                5 => self.meddle().await,
                6 => self.kill_replica().await,
                7 => self.stop_replica().await,
                8 => self.cut_off().await,
                _ => self.disturb(),
            }
        }
    }

    /// Keeps the first replica from renewing its lease while it works on, for longer than its clock says.
    ///
    /// Returns what was seen that must not happen.
    pub(crate) async fn live_without_renewals(&mut self) -> Vec<String> {
        self.replicas[0].fence.opened().await;
        let refused = Rule::write().resource("leases").then(Fault::unavailable(1));
        self.replicas[0].faults.add(refused);
        for _ in 0..60 {
            self.change_app().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.wrongs()
    }

    /// Changes apps one after the other while the replicas hear of maps so late.
    ///
    /// Returns what was seen that must not happen.
    pub(crate) async fn live_with_late_maps(&mut self, lag: Duration) -> Vec<String> {
        for replica in &self.replicas {
            replica.faults.lag("apps", Duration::ZERO);
            replica.faults.lag("configmaps", lag);
        }
        for _ in 0..60 {
            self.change_app().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.wrongs()
    }

    /// What was seen that must not happen.
    fn wrongs(&self) -> Vec<String> {
        let mut wrongs = self.witness.wrongs();
        wrongs.extend(self.outside.wrongs());
        wrongs
    }

    /// Somebody changes an app, now and then twice, so that the second change comes in the middle of the work on the first.
    async fn change_app(&mut self) {
        let name = *self.random.choice(&NAMES).unwrap();
        self.change(name).await;
        if self.random.u8(0..3) == 0 {
            tokio::time::sleep(Duration::from_millis(self.random.u64(0..500))).await;
            self.change(name).await;
        }
    }

    async fn change(&mut self, name: &str) {
        let n = self.random.i64(1..100);
        let apps = self.apps();
        // Whether it is there matters as little as whether it works: anything may happen.
        let _ = match self.random.u8(0..5) {
            0 => apps.delete(name, &DeleteParams::default()).await,
            _ => match apps.find(name).await.unwrap() {
                None => apps.create(&app(name, n), &WriteParams::default()).await,
                Some(_) => {
                    let patch = json!({"spec": {"n": n}});
                    apps.patch(name, Patch::Merge(&patch), &WriteParams::default())
                        .await
                }
            },
        };
    }

    /// Somebody changes or deletes what the controller made.
    async fn meddle(&mut self) {
        let maps = list(&self.maps()).await;
        let Some(map) = self.random.choice(&maps) else {
            return;
        };
        let name = map["metadata"]["name"].as_str().unwrap();
        let drift = json!({"data": {"n": "changed"}});
        let _ = match self.random.bool() {
            true => {
                if name.starts_with("made-") {
                    self.witness.deletes(map);
                }
                self.maps().delete(name, &DeleteParams::default()).await
            }
            false => {
                self.maps()
                    .patch(name, Patch::Merge(&drift), &WriteParams::default())
                    .await
            }
        };
    }

    /// A replica dies in the middle of whatever it does, and another comes.
    async fn kill_replica(&mut self) {
        let n = self.random.usize(0..2);
        self.replicas[n].running.abort();
        self.start_replica(n);
    }

    async fn stop_replica(&mut self) {
        let n = self.random.usize(0..2);
        self.replicas[n].shutdown.cancel();
        let (faults, running) = (self.replicas[n].faults.clone(), &mut self.replicas[n].running);
        faults.clear();
        running.await.unwrap().unwrap();
        self.start_replica(n);
    }

    /// A replica does not reach the server for longer than its lease.
    async fn cut_off(&mut self) {
        let n = self.random.usize(0..2);
        self.replicas[n].faults.go_away();
        tokio::time::sleep(Duration::from_secs(self.random.u64(5..30))).await;
        self.replicas[n].faults.come_back();
    }

    /// Some requests of a replica go wrong for a while, or it hears of changes late.
    fn disturb(&mut self) {
        let n = self.random.usize(0..2);
        let faults = self.replicas[n].faults.clone();
        let rule = match self.random.u8(0..8) {
            0 => Rule::write().with_chance(0.3).then(Fault::conflict()),
            1 => Rule::write().with_chance(0.3).then(Fault::internal()),
            2 => Rule::of(&[Verb::Patch, Verb::Update])
                .with_chance(0.2)
                .then(Fault::LostAnswer),
            3 => Rule::write()
                .with_chance(0.3)
                .then(Fault::Slow(Duration::from_secs(4))),
            4 => Rule::watch()
                .with_chance(0.5)
                .then(Fault::Cut { after_bytes: 2000 }),
            5 => Rule::watch().with_chance(0.5).then(Fault::gone()),
            6 => return self.draw_lags(&faults),
            _ => {
                faults.cut_open_streams();
                return faults.clear();
            }
        };
        faults.add(rule);
    }

    /// Ends all faults, and waits until everything is as it ought to be.
    pub(crate) async fn settle(&mut self) {
        for replica in &self.replicas {
            replica.faults.clear();
            replica.faults.come_back();
            for resource in WATCHED {
                replica.faults.lag(resource, Duration::ZERO);
            }
        }
        // Backoff of up to a quarter of an hour may have to pass; on a paused clock it does.
        for _ in 0..40 {
            if self.difference().await.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        eventually(async || self.difference().await.map_or(Ok(()), Err)).await;
        assert_eq!(self.wrongs(), [""; 0]);
    }

    /// What is not as it ought to be.
    async fn difference(&self) -> Option<String> {
        let apps = list(&self.apps()).await;
        let maps = list(&self.maps()).await;
        let outside = self.outside.rented();
        for app in &apps {
            let (uid, n) = (
                app["metadata"]["uid"].as_str().unwrap(),
                app["spec"]["n"].as_i64().unwrap(),
            );
            if !app["metadata"]["deletionTimestamp"].is_null() {
                return Some(format!("{} is still being deleted", app["metadata"]["name"]));
            }
            let made: Vec<_> = maps
                .iter()
                .filter(|map| map["metadata"]["ownerReferences"][0]["uid"] == uid)
                .collect();
            let data: Vec<_> = made
                .iter()
                .map(|map| map["data"]["n"].as_str().unwrap_or_default())
                .collect();
            if data.len() != 2 || data.iter().any(|data| *data != n.to_string()) {
                return Some(format!(
                    "{} with {n} has maps with {data:?}",
                    app["metadata"]["name"]
                ));
            }
            if app["status"]["n"] != n || app["status"]["observedGeneration"] != app["metadata"]["generation"]
            {
                return Some(format!(
                    "{} with {n} has status {}",
                    app["metadata"]["name"], app["status"]
                ));
            }
            if outside.get(uid) != Some(&n) {
                return Some(format!(
                    "{} with {n} rents {:?}",
                    app["metadata"]["name"],
                    outside.get(uid)
                ));
            }
        }
        let rented = outside.len();
        (rented != apps.len()).then(|| format!("{rented} rented for {} apps", apps.len()))
    }

    /// Stops everything, and returns what happened and what is there in the end.
    pub(crate) async fn stop(mut self) -> Vec<String> {
        for replica in std::mem::take(&mut self.replicas) {
            replica.shutdown.cancel();
            replica
                .running
                .await
                .unwrap_or_else(|_| panic!("{} failed", replica.name))
                .unwrap();
        }
        assert_eq!(self.wrongs(), [""; 0]);
        for object in list(&self.apps()).await.iter().chain(&list(&self.maps()).await) {
            let metadata = &object["metadata"];
            self.trace.note(format_args!(
                "left {} {} {}",
                metadata["name"], metadata["uid"], metadata["resourceVersion"]
            ));
        }
        self.trace.lines()
    }

    fn apps(&self) -> Api {
        self.api("x.io", "App", "apps")
    }

    fn maps(&self) -> Api {
        self.api("", "ConfigMap", "configmaps")
    }

    fn api(&self, group: &str, kind: &str, plural: &str) -> Api {
        let resource = Resource::known(&GroupVersionKind::new(group, "v1", kind), plural, true);
        Api::namespaced(&self.server.direct(), &resource, "default")
    }
}

fn app(name: &str, n: i64) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "App", "metadata": {"name": name, "namespace": "default"}, "spec": {"n": n}})
}

async fn list(api: &Api) -> Vec<Value> {
    let (mut list, mut all) = (api.list(&ListParams::default()), Vec::new());
    while let Some(object) = list.next().await.unwrap() {
        all.push(object.to_value());
    }
    all.retain(|object| object["metadata"]["name"] != "kube-root-ca.crt");
    all
}
