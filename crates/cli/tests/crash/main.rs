//! Kills at random: the watcher, the API server, the receiver, each a process of its own. What was received adds up to what
//! happened, and what is missing lies in holes that the journal tells of.
//!
//! With even seeds the API server forgets soon, and at least once nobody watches for longer than it remembers: then there
//! must be such a hole.
//!
//! Rules are in a file, or in the API server that is killed.
//!
//! The journal is in a directory, or on a server: then each watcher begins with an empty directory, the server is stopped
//! at random too, and a new watcher may come while the one before still works.
//!
//! `SEED=n` replays one, `SEEDS=n` runs more, `MINUTES=m` as many as there is time for, `CHANGES=n` makes each of them
//! longer. With `SKOPOS_TARGET=<kubeconfig>` the API server is that one, and it is killed if `cargo xtask` started it.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

#[path = "../support/endpoint.rs"]
#[expect(dead_code, reason = "other tests ask for health")]
mod endpoint;
mod keeper;
mod length;
mod receiver;
mod server;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;
mod truth;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_client::{Api, Client, DeleteParams, Patch, Resource, Sources, WriteParams, connect};
use skopos_object::GroupVersionKind;

use self::{
    keeper::Keeper,
    length::Account,
    receiver::Receiver,
    server::Server,
    support::{Running, run, skopos},
    truth::{Hole, Truth, n_repeated},
};

/// If nothing is received for so long, nothing ever will be.
const PATIENCE: Duration = Duration::from_secs(60);

/// An object that came and went in a hole is never received: that is not waited for longer.
const CATCHING_UP: Duration = Duration::from_secs(5);

/// Tests share a real API server, and must not see it killed by each other.
static REAL: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Where the rule stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    File,
    Cluster,
}

impl Rules {
    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Cluster => "cluster",
        }
    }
}

/// A process that watches.
struct Watcher {
    process: Running,
    data_dir: String,
}

impl Watcher {
    fn has_ended(&mut self) -> bool {
        self.process.child.try_wait().unwrap().is_some()
    }
}

struct World {
    rng: fastrand::Rng,
    rules: Rules,
    dir: tempfile::TempDir,
    server: Server,
    watcher: Option<Watcher>,
    /// Watchers from whom another one took over; they end by themselves.
    replaced: Vec<Watcher>,
    /// How many watchers there were.
    n_watchers: u32,
    keeper: Keeper,
    receiver: Receiver,
    truth: Truth,
    n_kills: usize,
    n_outages: usize,
    /// A name for everything of this run: a cluster may have seen others.
    run: String,
}

impl World {
    async fn new(seed: u64, keeper: Keeper, rules: Rules) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        let world = Self {
            server: Server::start(dir.path(), seed.is_multiple_of(2), &mut rng),
            rng,
            rules,
            watcher: None,
            replaced: Vec::new(),
            n_watchers: 0,
            run: format!(
                "run{seed}-{}-{}-{}",
                rules.name(),
                keeper.name(),
                std::process::id()
            ),
            keeper,
            receiver: Receiver::start(dir.path(), seed),
            truth: Truth::default(),
            n_kills: 0,
            n_outages: 0,
            dir,
        };
        world.install().await;
        world
    }

    async fn client(&self) -> Client {
        let sources = Sources {
            explicit: Some(self.server.kubeconfig()),
            ..Sources::default()
        };
        connect(&sources).await.unwrap()
    }

    async fn api(&self) -> Api {
        self.api_of(
            &GroupVersionKind::new("crash.example.com", "v1", "Widget"),
            "widgets",
        )
        .await
    }

    /// The rules or sinks of the cluster.
    async fn ours(&self, kind: &str, plural: &str) -> Api {
        self.api_of(&GroupVersionKind::new("skopos.dev", "v1alpha1", kind), plural)
            .await
    }

    async fn api_of(&self, kind: &GroupVersionKind, plural: &str) -> Api {
        Api::namespaced(
            &self.client().await,
            &Resource::known(kind, plural, true),
            "default",
        )
    }

    /// The definition of widgets, and the rules of the watcher.
    async fn install(&self) {
        self.define(&skopos_testkit::definition(
            "crash.example.com",
            "v1",
            "Widget",
            "widgets",
        ))
        .await;
        until_served(&self.api().await).await;
        let own = |kind: &str, spec: Value| {
            json!({"apiVersion": "skopos.dev/v1alpha1", "kind": kind,
                "metadata": {"name": self.run, "namespace": "default"}, "spec": spec})
        };
        let backoff = json!({"initial": "50ms", "max": "500ms"});
        let sink = own(
            "Sink",
            json!({"webhook": {"url": self.receiver.url()}, "delivery": {"backoff": backoff}}),
        );
        let labels = json!({"matchLabels": {"run": self.run}});
        let watch = json!({"group": "crash.example.com", "kind": "Widget", "selector": labels});
        let rule = own(
            "Rule",
            json!({"watch": watch, "existing": "emit", "do": [{"sink": self.run}]}),
        );
        match self.rules {
            Rules::File => {
                let rules = format!("{sink}\n---\n{rule}\n");
                std::fs::write(self.dir.path().join("rules.yaml"), rules).unwrap();
            }
            Rules::Cluster => {
                for definition in skopos_api::definitions() {
                    self.define(&definition).await;
                }
                for (kind, plural, object) in [("Sink", "sinks", sink), ("Rule", "rules", rule)] {
                    let api = self.ours(kind, plural).await;
                    until_served(&api).await;
                    api.create(&object, &WriteParams::default()).await.unwrap();
                }
            }
        }
    }

    async fn define(&self, definition: &Value) {
        let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api = Api::all(
            &self.client().await,
            &Resource::known(&kind, "customresourcedefinitions", false),
        );
        match api.create(definition, &WriteParams::default()).await {
            Err(error) if !error.is_conflict() => panic!("{error}"),
            _ => {}
        }
    }

    /// A real server stays, and with it what stands there.
    async fn clean_up(&self) {
        if self.rules == Rules::Cluster {
            for (kind, plural) in [("Rule", "rules"), ("Sink", "sinks")] {
                let api = self.ours(kind, plural).await;
                api.delete(&self.run, &DeleteParams::default()).await.unwrap();
            }
        }
    }

    /// A server that was just started may not serve widgets yet.
    async fn until_served(&self) {
        until_served(&self.api().await).await;
    }

    fn start_watcher(&mut self) {
        let mut command = skopos(self.dir.path());
        command
            .args(["run", "--no-install", "--kubeconfig"])
            .arg(self.server.kubeconfig());
        if self.rules == Rules::File {
            command.args(["--no-cluster-rules", "--filename", "rules.yaml"]);
        }
        let data_dir = match self.keeper.url() {
            None => "data".to_owned(),
            Some(url) => {
                command.env("SKOPOS_JOURNAL", url);
                format!("data-{}", self.n_watchers)
            }
        };
        command.args(["--data-dir", &data_dir]);
        self.n_watchers += 1;
        self.watcher = Some(Watcher {
            process: Running::start(&mut command),
            data_dir,
        });
    }

    /// Makes a change and notes it.
    async fn act(&mut self, api: &Api) {
        let name = format!("{}-{}", self.run, self.rng.u32(..8));
        let exists = api.find(&name).await.unwrap();
        let by = WriteParams::default();
        let begun = Timestamp::now();
        match exists {
            Some(object) if self.rng.u32(..4) == 0 => {
                api.delete(&name, &DeleteParams::default()).await.unwrap();
                self.truth.note(&object, "deleted", begun);
            }
            Some(_) => {
                let patch = json!({"spec": {"size": self.rng.u32(..)}});
                let changed = api.patch(&name, Patch::Merge(&patch), &by).await.unwrap().value;
                let version = changed["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                self.truth.note(&changed, &version, begun);
            }
            None => {
                let object = json!({"apiVersion": "crash.example.com/v1", "kind": "Widget",
                    "metadata": {"name": name, "labels": {"run": self.run}}, "spec": {"size": 0}});
                let created = api.create(&object, &by).await.unwrap().value;
                self.truth.note(&created, "created", begun);
            }
        }
    }

    /// Goes on until one watcher is left: the others find out when they write. One that waited for the server to come
    /// back may have opened the journal after the one that was to replace it, and then it is the one that stays.
    async fn see_replaced_end(&mut self, api: &Api) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(mut watcher) = self.replaced.pop() {
            match watcher.process.child.try_wait().unwrap() {
                Some(status) => assert!(!status.success(), "it ended as if nobody had taken over"),
                None if self.watcher.as_mut().is_none_or(Watcher::has_ended) => self.watcher = Some(watcher),
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
                Some(watcher) => {
                    drop(watcher);
                    self.n_kills += 1;
                }
                None => self.start_watcher(),
            },
            5 => self.n_kills += usize::from(self.keeper.toggle().await),
            2 => {
                self.n_kills += usize::from(self.server.is_ours());
                self.server.crash();
                self.until_served().await;
            }
            _ => self.n_kills += usize::from(self.receiver.toggle()),
        }
    }

    /// Nobody watches while more happens than the API server remembers, if it can be made to forget.
    async fn outlast_history(&mut self, api: &Api) {
        let Some(n_changes) = self.server.forgets_after() else {
            return self.disturb().await;
        };
        // Dropped means killed.
        self.n_kills += self
            .watcher
            .take()
            .into_iter()
            .chain(self.replaced.drain(..))
            .count();
        for _ in 0..n_changes + self.rng.u32(5..20) {
            self.act(api).await;
        }
        self.server.forget();
        self.until_served().await;
        self.n_outages += 1;
        self.start_watcher();
    }

    /// Lets the last change be received, if all who take part are there: what follows is then seen as it happens.
    async fn catch_up(&mut self) {
        let is_watched = self.watcher.as_mut().is_some_and(|watcher| !watcher.has_ended());
        let deadline = Instant::now() + CATCHING_UP;
        while is_watched && self.keeper.is_up() && self.receiver.is_up() && Instant::now() < deadline {
            if self.truth.has_last_of(&self.receiver.received()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Changes and disturbances in turns.
    async fn live(&mut self, api: &Api) {
        let (n_rounds, outage) = (self.rng.u32(6..12), self.rng.u32(1..6));
        let n_changes = length::n_changes().unwrap_or(0);
        for round in 0.. {
            if round >= n_rounds && self.truth.n_changes() >= n_changes {
                return;
            }
            for _ in 0..self.rng.u32(5..40) {
                self.act(api).await;
            }
            if self.rng.bool() {
                self.catch_up().await;
            }
            match round == outage || self.rng.u32(..20) == 0 {
                true => self.outlast_history(api).await,
                false => self.disturb().await,
            }
            // Mostly nobody is away for long, so that most is seen as it happens.
            if self.watcher.is_none() && self.rng.u32(..3) != 0 {
                self.start_watcher();
            }
        }
    }

    /// Where the journal says that changes may be missing; nothing while nobody can be asked.
    fn holes(&self) -> Vec<Hole> {
        let Some(watcher) = &self.watcher else {
            return Vec::new();
        };
        let words = [
            "history",
            "widgets.crash.example.com",
            "--output=json",
            "--data-dir",
        ];
        let told = run(self.dir.path(), &[&words[..], &[&watcher.data_dir]].concat());
        let time = |hole: &Value, name: &str| hole[name].as_str().unwrap().parse().unwrap();
        told.out
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).unwrap().get("hole").cloned())
            .map(|hole| Hole {
                from: time(&hole, "from"),
                to: time(&hole, "to"),
            })
            .collect()
    }

    /// Waits until everything adds up, or fails with what does not.
    async fn see_it_add_up(&self, seed: u64) -> Account {
        let (mut n_received, mut deadline) = (0, Instant::now());
        loop {
            let (received, holes) = (self.receiver.received(), self.holes());
            if received.len() > n_received {
                (n_received, deadline) = (received.len(), Instant::now() + PATIENCE);
            }
            let wrong = match self.truth.check(&received, &holes) {
                Ok(_) if self.n_outages > 0 && holes.is_empty() => "an outage is not declared".to_owned(),
                Ok(n_in_holes) => return self.account(&received, holes.len(), n_in_holes),
                Err(wrong) => wrong,
            };
            assert!(Instant::now() < deadline, "seed {seed}: {wrong}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn account(&self, received: &[Value], n_holes: usize, n_in_holes: usize) -> Account {
        Account {
            n_seeds: 1,
            n_changes: self.truth.n_changes(),
            n_kills: self.n_kills,
            n_outages: self.n_outages,
            n_holes,
            n_in_holes,
            n_repeated: n_repeated(received),
        }
    }
}

/// A server that was just told of a kind may not serve it yet.
async fn until_served(api: &Api) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = api.find("nothing").await {
        assert!(Instant::now() < deadline, "it is never served: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One life.
async fn crash(seed: u64, keeper: Keeper, rules: Rules) -> Account {
    let _alone = match std::env::var_os("SKOPOS_TARGET") {
        Some(_) => Some(REAL.lock().await),
        None => None,
    };
    let mut world = World::new(seed, keeper, rules).await;
    let api = world.api().await;
    world.start_watcher();
    // What happened before the watcher was there for the first time is nobody's loss.
    world.act(&api).await;
    let deadline = Instant::now() + PATIENCE;
    while world.receiver.received().is_empty() {
        assert!(
            Instant::now() < deadline,
            "seed {seed}: nothing was ever received"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.live(&api).await;
    world.keeper.up().await;
    if world.watcher.as_mut().is_none_or(Watcher::has_ended) {
        world.start_watcher();
    }
    world.see_replaced_end(&api).await;
    world.receiver.up();
    // Asked before it has its data directory, `history` would open that itself.
    world
        .watcher
        .as_ref()
        .inspect(|watcher| drop(watcher.process.lines.find("skopos is watching")));
    let account = world.see_it_add_up(seed).await;
    world.clean_up().await;
    account
}

/// Some lives, one after the other.
async fn run_lives(default: u64, rules: Rules, keeper: impl AsyncFn() -> Keeper) {
    let (mut sum, mut name) = (Account::default(), "");
    for seed in length::seeds(default) {
        let keeper = keeper().await;
        name = keeper.name();
        let account = crash(seed, keeper, rules).await;
        eprintln!("{name}, seed {seed}: {account}");
        sum += account;
    }
    eprintln!("journal in {name}, {} seeds: {sum}", sum.n_seeds);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_to_what_happened() {
    run_lives(3, Rules::File, async || Keeper::directory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_with_rules_in_the_server_that_is_killed() {
    run_lives(2, Rules::Cluster, async || Keeper::directory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_with_a_journal_in_postgres() {
    run_lives(1, Rules::File, Keeper::postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_received_adds_up_with_a_journal_in_nats() {
    run_lives(1, Rules::File, Keeper::nats).await;
}
