//! Replicas as processes of their own; the leader is killed, paused, cut off and stopped in turn.
//!
//! All write to two ConfigMaps while they lead: to one under the fence alone, to the other also with the resource
//! version they read. Some do it by hand with an [`Elector`](skopos_controller::Elector), others in a controller of a
//! [`Manager`](skopos_controller::Manager), by `Context::apply`. Each has its own way to the server. With `SKOPOS_TARGET` (or `SKOPOS_TEST_KUBECONFIG`) set to a
//! kubeconfig, that server is asked instead of an embedded one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod history;
mod managed;
mod replica;
mod terminated;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use skopos_client::{Api, Client, DeleteParams, Resource, Sources, WriteParams, connect};
use skopos_object::GroupVersionKind;
use skopos_testkit::{Faults, Proxy, TestServer};
use tokio::time::Instant;

use self::history::History;
use self::replica::Build;

/// Longer than the lease of the replicas.
const PAUSE: Duration = Duration::from_secs(3);
/// How long a new leader is looked at: so many writes.
const WRITES: usize = 30;

/// A replica and its way to the server.
struct Process {
    identity: String,
    child: Child,
    faults: Faults,
    _proxy: Proxy,
}

impl Process {
    async fn start(server: &Client, build: Build, run: &str, identity: &str) -> Self {
        let faults = Faults::seeded(0);
        let proxy = Proxy::start(server.kube().clone(), &faults).await.unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["replica::as_told", "--exact", "--nocapture"])
            .env(replica::URL, proxy.url())
            .env(replica::BUILD, build.text())
            .env(replica::RUN, run)
            .env(replica::IDENTITY, identity)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            identity: identity.to_owned(),
            child,
            faults,
            _proxy: proxy,
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success(), "kill {signal} {pid}");
    }

    /// Asks it to stop in good order.
    fn stop(&mut self) {
        drop(self.child.stdin.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server under test; the embedded one lives as long as this.
async fn server() -> (Client, Option<TestServer>) {
    let given = ["SKOPOS_TARGET", "SKOPOS_TEST_KUBECONFIG"];
    match given.into_iter().find_map(std::env::var_os) {
        Some(kubeconfig) => {
            let sources = Sources {
                explicit: Some(kubeconfig.into()),
                ..Sources::default()
            };
            (connect(&sources).await.unwrap(), None)
        }
        None => {
            let server = TestServer::start().await;
            (server.direct(), Some(server))
        }
    }
}

fn api(client: &Client, api_version: &str, kind: &str, plural: &str) -> Api {
    let gvk = GroupVersionKind::from_api_version(api_version, kind).unwrap();
    Api::namespaced(client, &Resource::known(&gvk, plural, true), "default")
}

/// What the test is about: who writes now, and what is done to them.
struct Show {
    history: History,
    replicas: Vec<Process>,
}

impl Show {
    /// Does something to the leader, and prints how long after it another term's first write came. Returns its place.
    async fn disturb(&mut self, what: &str, disturbance: impl FnOnce(&mut Process)) -> usize {
        // A busy machine may change the leader without us: so not the one that this test last heard of.
        let last = self.history.last();
        let mut replicas = self.replicas.iter();
        let at = replicas
            .position(|replica| replica.identity == last.identity)
            .unwrap();
        let begin = Instant::now();
        disturbance(&mut self.replicas[at]);
        self.hand_over(what, Some(last.epoch), begin).await;
        at
    }

    async fn hand_over(&self, what: &str, epoch: Option<u64>, begin: Instant) {
        let first = self.history.first_after(epoch).await;
        let took = first.at.saturating_duration_since(begin);
        println!("{what}: {} wrote after {} ms", first.identity, took.as_millis());
    }
}

/// One at a time: some measure.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_standby_takes_over_and_no_write_of_the_old_leader_comes_after() {
    let _alone = ALONE.lock().await;
    live_through_it_all(Build::ByHand).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controller_of_the_standby_takes_over_and_no_apply_of_the_old_one_comes_after() {
    let _alone = ALONE.lock().await;
    live_through_it_all(Build::Managed).await;
}

async fn live_through_it_all(build: Build) {
    println!("{}:", build.text());
    let (client, _server) = server().await;
    let run = format!("leader-{}-{:x}", std::process::id(), fastrand::u32(..));
    let maps = api(&client, "v1", "ConfigMap", "configmaps");
    for name in [replica::checked(&run), replica::fenced(&run)] {
        let map = json!({"metadata": {"name": name, "labels": {"run": run}}, "data": {"counter": "0"}});
        maps.create(&map, &WriteParams::default()).await.unwrap();
    }
    let accounts = api(&client, "v1", "ServiceAccount", "serviceaccounts");
    let account = json!({"metadata": {"name": run, "labels": {"counts": run}}});
    accounts.create(&account, &WriteParams::default()).await.unwrap();
    let mut show = Show {
        history: History::follow(&maps, &run).await,
        replicas: Vec::new(),
    };
    let begin = Instant::now();
    for identity in ["a", "b"] {
        show.replicas
            .push(Process::start(&client, build, &run, identity).await);
    }
    show.hand_over("start", None, begin).await;

    show.disturb("killed", |leader| leader.child.kill().unwrap())
        .await;
    show.replicas
        .push(Process::start(&client, build, &run, "c").await);
    show.history.more(WRITES).await;

    let begin = Instant::now();
    let paused = show.disturb("paused", |leader| leader.signal("-STOP")).await;
    tokio::time::sleep_until(begin + PAUSE).await;
    show.replicas[paused].signal("-CONT");
    show.history.more(WRITES).await;

    let cut_off = show.disturb("cut off", |leader| leader.faults.go_away()).await;
    show.replicas[cut_off].faults.come_back();
    show.history.more(WRITES).await;

    show.disturb("stopped", Process::stop).await;
    show.history.more(WRITES).await;

    show.history.check_versioned_writes(&replica::checked(&run));
    let late = show.history.late_writes(&replica::fenced(&run));
    println!("late writes under the fence alone: {late}");
    // The pause may fall between the look at the fence and the write, once.
    assert!(late <= 1, "{late}");
    drop(show);
    clean_up(&client, &run).await;
}

async fn clean_up(client: &Client, run: &str) {
    let maps = api(client, "v1", "ConfigMap", "configmaps");
    let params = DeleteParams::default();
    for name in [replica::checked(run), replica::fenced(run)] {
        maps.delete(&name, &params).await.unwrap();
    }
    let accounts = api(client, "v1", "ServiceAccount", "serviceaccounts");
    accounts.delete(run, &params).await.unwrap();
    let leases = api(client, "coordination.k8s.io/v1", "Lease", "leases");
    leases.delete(run, &params).await.unwrap();
}
