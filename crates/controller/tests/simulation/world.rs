//! Two replicas of a controller on one server, and everything that happens to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use skopos_client::{Api, DeleteParams, ListParams, Patch, Resource, WriteParams};
use skopos_controller::{
    Action, Context, Controller, Failure, LeaderConfig, Manager, ManagerConfig, controller_reference,
};
use skopos_object::{GroupVersionKind, Object};
use skopos_testkit::{Fault, Faults, Rule, TestServer, Verb, definition, eventually};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Something outside the cluster that each app rents by its UID, and has to give back.
type Outside = Arc<Mutex<BTreeMap<String, i64>>>;

pub(crate) struct World {
    server: TestServer,
    random: Rng,
    replicas: Vec<Replica>,
    outside: Outside,
}

struct Replica {
    name: String,
    /// Between this replica and the server.
    faults: Faults,
    shutdown: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let server = TestServer::start().await;
        server.put(&definition("x.io", "v1", "App", "apps")).await;
        let mut world = Self {
            server,
            random: Rng::with_seed(seed),
            replicas: Vec::new(),
            outside: Outside::default(),
        };
        for n in 0..2 {
            world.start_replica(n);
        }
        world
    }

    fn start_replica(&mut self, n: usize) {
        let name = format!("replica-{n}-{}", self.random.u32(..));
        let faults = Faults::seeded(self.random.u64(..));
        let client = self.server.client_behind(&faults);
        let config = ManagerConfig {
            leader: Some(LeaderConfig::new("default", "apps", &name)),
            ..ManagerConfig::new("x.io/apps")
        };
        let mut manager = Manager::new(&client, config).unwrap();
        manager.add(controller(&self.outside, self.random.fork()));
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(manager.run(shutdown.clone()));
        let replica = Replica {
            name,
            faults,
            shutdown,
            running,
        };
        if n < self.replicas.len() {
            self.replicas[n] = replica;
        } else {
            self.replicas.push(replica);
        }
    }

    /// Lets so many things happen.
    pub(crate) async fn live(&mut self, n_happenings: usize) {
        for _ in 0..n_happenings {
            let pause = Duration::from_millis(self.random.u64(0..3000));
            tokio::time::sleep(pause).await;
            match self.random.u8(0..12) {
                0..=4 => self.change_app().await,
                5 => self.meddle().await,
                6 => self.kill_replica().await,
                7 => self.stop_replica().await,
                8 => self.cut_off().await,
                _ => self.disturb(),
            }
        }
    }

    async fn change_app(&mut self) {
        let name = *self.random.choice(&NAMES).unwrap();
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
            true => self.maps().delete(name, &DeleteParams::default()).await,
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

    /// Some requests of a replica go wrong for a while.
    fn disturb(&mut self) {
        let n = self.random.usize(0..2);
        let faults = &self.replicas[n].faults;
        let rule = match self.random.u8(0..7) {
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
        }
        // Backoff of up to a quarter of an hour may have to pass; on a paused clock it does.
        for _ in 0..40 {
            if self.difference().await.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        eventually(async || self.difference().await.map_or(Ok(()), Err)).await;
    }

    /// What is not as it ought to be.
    async fn difference(&self) -> Option<String> {
        let apps = list(&self.apps()).await;
        let maps = list(&self.maps()).await;
        let outside = self.outside.lock().unwrap().clone();
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

    pub(crate) async fn stop(self) {
        for replica in self.replicas {
            replica.shutdown.cancel();
            replica
                .running
                .await
                .unwrap_or_else(|_| panic!("{} failed", replica.name))
                .unwrap();
        }
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

/// Makes two maps of each app, one by a name of its own and one by a name that the server chooses, rents something
/// outside, and writes a status. Panics and fails at random.
fn controller(outside: &Outside, random: Rng) -> Controller {
    let (rents, returns) = (outside.clone(), outside.clone());
    let random = Arc::new(Mutex::new(random));
    Controller::for_("apps.x.io")
        .owns("configmaps")
        .finalizer("x.io/rent", move |app: Object, _: Context| {
            returns.lock().unwrap().remove(app.uid());
            async { Ok(Action::Done) }
        })
        .reconcile(move |app: Object, context: Context| {
            let (outside, luck) = (rents.clone(), random.lock().unwrap().u8(0..40));
            async move { reconcile(&app, &context, &outside, luck).await }
        })
}

async fn reconcile(app: &Object, context: &Context, outside: &Outside, luck: u8) -> Result<Action, Failure> {
    let n = app.get(&["spec", "n"]).and_then(|n| n.as_i64()).unwrap();
    outside.lock().unwrap().insert(app.uid().to_owned(), n);
    let data = json!({"n": n.to_string()});
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    context.apply_owned(&map(app.name())).await?;
    match luck {
        0 => panic!("bad luck"),
        1 => return Err(Failure::new("bad luck")),
        2 => std::future::pending().await,
        _ => {}
    }
    let owned = context.owned("configmaps").await?;
    match owned.iter().find(|map| map.name().starts_with("made-")) {
        Some(made) => context.apply_owned(&map(made.name())).await.map(|_| ())?,
        None => make(app, context, &data).await?,
    }
    context
        .status(|status| {
            status.set("n", n);
        })
        .await?;
    Ok(Action::Done)
}

/// Makes a map whose name the server chooses: only a cache that shows the last write keeps this from happening twice.
///
/// A create whose answer is lost is the one thing that cannot be told from one that did not happen; so no such answer
/// is lost here. Who has to live with that chooses the names.
async fn make(app: &Object, context: &Context, data: &Value) -> Result<(), Failure> {
    let maps = context
        .resource(&GroupVersionKind::new("", "v1", "ConfigMap"))
        .await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"generateName": "made-", "ownerReferences": [controller_reference(app)]}});
    let maps = Api::namespaced(context.client(), &maps, app.namespace());
    maps.create(&map, &WriteParams::default()).await?;
    Ok(())
}
