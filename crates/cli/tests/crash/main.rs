//! Kills at random: the watcher, the API server, the receiver. What was received adds up to what happened.
//!
//! The journal is in a directory, or on a server: then each watcher begins with an empty directory, the server is stopped
//! at random too, and a new watcher may come while the one before still works.
//!
//! `SEED=n` replays one, `SEEDS=n` runs more. With `SKOPOS_TARGET=<kubeconfig>` the API server is that one, and is not
//! killed.

#![expect(clippy::unwrap_used, reason = "tests")]

mod keeper;
mod receiver;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;
mod truth;

use std::{
    net::TcpListener,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skopos_client::{Api, Client, DeleteParams, Patch, Resource, Sources, WriteParams, connect};
use skopos_object::GroupVersionKind;
use skopos_testkit::seeds;

use self::{
    keeper::Keeper,
    receiver::Receiver,
    support::{Running, skopos},
    truth::Truth,
};

/// What is not received within this time never will be.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    rng: fastrand::Rng,
    dir: tempfile::TempDir,
    kubeconfig: PathBuf,
    /// The API server, unless it is somebody else's, and its port.
    server: Option<(Running, u16)>,
    watcher: Option<Running>,
    /// Watchers from whom another one took over; they end by themselves.
    replaced: Vec<Running>,
    /// How many watchers there were.
    n_watchers: u32,
    keeper: Keeper,
    receiver: Receiver,
    truth: Truth,
    /// A name for everything of this run: a cluster may have seen others.
    run: String,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl World {
    async fn new(seed: u64, keeper: Keeper) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let foreign = std::env::var_os("SKOPOS_TARGET").map(PathBuf::from);
        let run = format!("run{seed}-{}-{}", keeper.name(), std::process::id());
        let mut world = Self {
            rng: fastrand::Rng::with_seed(seed),
            kubeconfig: foreign.clone().unwrap_or_else(|| dir.path().join("kubeconfig")),
            server: None,
            watcher: None,
            replaced: Vec::new(),
            n_watchers: 0,
            keeper,
            receiver: Receiver::start(seed).await,
            truth: Truth::default(),
            run,
            dir,
        };
        if foreign.is_none() {
            world.start_server(free_port());
        }
        world.install().await;
        world
    }

    fn start_server(&mut self, port: u16) {
        let mut command = skopos(self.dir.path());
        let port_text = port.to_string();
        command.args([
            "apiserver",
            "--secure-port",
            &port_text,
            "--data-dir",
            "server",
            "--kubeconfig",
            "kubeconfig",
        ]);
        let running = Running::start(&mut command);
        running.lines.find("ready");
        self.server = Some((running, port));
    }

    async fn client(&self) -> Client {
        let sources = Sources {
            explicit: Some(self.kubeconfig.clone()),
            ..Sources::default()
        };
        connect(&sources).await.unwrap()
    }

    async fn api(&self) -> Api {
        let kind = GroupVersionKind::new("crash.example.com", "v1", "Widget");
        Api::namespaced(
            &self.client().await,
            &Resource::known(&kind, "widgets", true),
            "default",
        )
    }

    /// The definition of widgets, and the rules of the watcher.
    async fn install(&self) {
        let definition = skopos_testkit::definition("crash.example.com", "v1", "Widget", "widgets");
        let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api = Api::all(
            &self.client().await,
            &Resource::known(&kind, "customresourcedefinitions", false),
        );
        match api.create(&definition, &WriteParams::default()).await {
            Err(error) if !error.is_conflict() => panic!("{error}"),
            _ => {}
        }
        let widgets = self.api().await;
        while widgets.find("nothing").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let url = self.receiver.url();
        let run = &self.run;
        let rules = format!(
            "apiVersion: skopos.dev/v1alpha1\nkind: Sink\nmetadata: {{name: out}}\nspec:\n  webhook: {{url: '{url}'}}\n  \
             delivery: {{backoff: {{initial: 50ms, max: 500ms}}}}\n---\n\
             apiVersion: skopos.dev/v1alpha1\nkind: Rule\nmetadata: {{name: all}}\nspec:\n  \
             watch: {{group: crash.example.com, kind: Widget, selector: {{matchLabels: {{run: {run}}}}}}}\n  \
             existing: emit\n  do: [{{sink: out}}]\n"
        );
        std::fs::write(self.dir.path().join("rules.yaml"), rules).unwrap();
    }

    fn start_watcher(&mut self) {
        let mut command = skopos(self.dir.path());
        command
            .args([
                "run",
                "--no-cluster-rules",
                "--no-install",
                "--filename",
                "rules.yaml",
            ])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        match self.keeper.url() {
            None => command.args(["--data-dir", "data"]),
            Some(url) => {
                let own = format!("data-{}", self.n_watchers);
                command.env("SKOPOS_JOURNAL", url).args(["--data-dir", &own])
            }
        };
        self.n_watchers += 1;
        self.watcher = Some(Running::start(&mut command));
    }

    /// Makes a change and notes it.
    async fn act(&mut self, api: &Api) {
        let name = format!("{}-{}", self.run, self.rng.u32(..8));
        let exists = api.find(&name).await.unwrap();
        let by = WriteParams::default();
        match exists {
            Some(object) if self.rng.u32(..4) == 0 => {
                api.delete(&name, &DeleteParams::default()).await.unwrap();
                self.truth.note(&object, "deleted");
            }
            Some(_) => {
                let patch = json!({"spec": {"size": self.rng.u32(..)}});
                let changed = api.patch(&name, Patch::Merge(&patch), &by).await.unwrap().value;
                let version = changed["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                self.truth.note(&changed, &version);
            }
            None => {
                let object = json!({"apiVersion": "crash.example.com/v1", "kind": "Widget",
                    "metadata": {"name": name, "labels": {"run": self.run}}, "spec": {"size": 0}});
                let created = api.create(&object, &by).await.unwrap().value;
                self.truth.note(&created, "created");
            }
        }
    }

    /// Goes on until one watcher is left: the others find out when they write. One that waited for the server to come
    /// back may have opened the journal after the one that was to replace it, and then it is the one that stays.
    async fn see_replaced_end(&mut self, api: &Api) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(mut watcher) = self.replaced.pop() {
            match watcher.child.try_wait().unwrap() {
                Some(status) => assert!(!status.success(), "it ended as if nobody had taken over"),
                None if self.watcher.as_mut().is_none_or(has_ended) => self.watcher = Some(watcher),
                None => {
                    assert!(Instant::now() < deadline, "it was taken over and goes on");
                    self.act(api).await;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    self.replaced.push(watcher);
                }
            }
        }
    }

    /// Kills something, or brings it back.
    async fn disturb(&mut self) {
        match self.rng.u32(..6) {
            0 | 1 => match self.watcher.take() {
                // Takes over from one that does not know yet.
                Some(before) if self.keeper.url().is_some() && self.rng.bool() => {
                    self.start_watcher();
                    self.replaced.push(before);
                }
                // Dropped means killed.
                Some(watcher) => drop(watcher),
                None => self.start_watcher(),
            },
            5 => self.keeper.toggle().await,
            2 => {
                if let Some((server, port)) = self.server.take() {
                    drop(server);
                    self.start_server(port);
                }
            }
            _ => self.receiver.toggle().await,
        }
    }
}

fn has_ended(watcher: &mut Running) -> bool {
    watcher.child.try_wait().unwrap().is_some()
}

async fn crash(seed: u64, keeper: Keeper) {
    let mut world = World::new(seed, keeper).await;
    let api = world.api().await;
    world.start_watcher();
    // What happened before the watcher was there for the first time is nobody's loss.
    world.act(&api).await;
    world
        .receiver
        .until(PATIENCE, |received| !received.is_empty())
        .await;
    for _ in 0..world.rng.u32(6..12) {
        for _ in 0..world.rng.u32(5..40) {
            world.act(&api).await;
        }
        world.disturb().await;
    }
    world.keeper.up().await;
    if world.watcher.as_mut().is_none_or(has_ended) {
        world.start_watcher();
    }
    world.see_replaced_end(&api).await;
    world.receiver.up().await;
    let truth = std::mem::take(&mut world.truth);
    let received = world
        .receiver
        .until(PATIENCE, |received| truth.is_settled(received))
        .await;
    truth.check(&received, seed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_to_what_happened() {
    for seed in seeds(3) {
        crash(seed, Keeper::directory()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_with_a_journal_in_postgres() {
    for seed in seeds(1) {
        crash(seed, Keeper::postgres().await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_with_a_journal_in_nats() {
    for seed in seeds(1) {
        crash(seed, Keeper::nats().await).await;
    }
}

/// The data of an event.
fn data(event: &Value) -> &Value {
    &event["data"]
}
