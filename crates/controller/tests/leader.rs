//! Leader election on a server in process, with faults and a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skopos_client::{Api, Client, Error, Resource, WriteParams};
use skopos_controller::{Elector, Fence, LeaderConfig, Release, Resigned};
use skopos_object::GroupVersionKind;
use skopos_testkit::{Fault, Rule, TestServer, Verb, value};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// A replica that takes part.
struct Replica {
    fence: Fence,
    stop: CancellationToken,
    task: JoinHandle<Resigned>,
}

impl Replica {
    fn start(client: &Client, identity: &str) -> Self {
        let config = LeaderConfig::new("default", "lock", identity);
        Self::run(Elector::new(client, config).unwrap())
    }

    fn run(elector: Elector) -> Self {
        let stop = CancellationToken::new();
        Self {
            fence: elector.fence(),
            task: tokio::spawn(elector.run(stop.clone())),
            stop,
        }
    }

    async fn resign(self) -> Resigned {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

fn api(client: &Client, api_version: &str, kind: &str, plural: &str) -> Api {
    let gvk = GroupVersionKind::from_api_version(api_version, kind).unwrap();
    Api::namespaced(client, &Resource::known(&gvk, plural, true), "default")
}

/// Holder, seconds and transitions as the server has them.
async fn lease(server: &TestServer) -> Value {
    let leases = api(&server.direct(), "coordination.k8s.io/v1", "Lease", "leases");
    let spec = leases.get("lock").await.unwrap()["spec"].take();
    json!([
        spec["holderIdentity"],
        spec["leaseDurationSeconds"],
        spec["leaseTransitions"]
    ])
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_look() {
    let server = TestServer::start().await;
    let first = Replica::start(&server.client(), "first");
    first.fence.opened().await;
    assert_eq!(first.fence.epoch(), Some(0));
    let second = Replica::start(&server.client(), "second");
    assert!(timeout(60 * SECOND, second.fence.opened()).await.is_err());

    let begin = Instant::now();
    let (fence, resigned) = (first.fence.clone(), first.resign().await);
    assert!(!fence.is_open());
    assert_eq!(
        lease(&server).await,
        json!(["first", 15, 0]),
        "not given back yet"
    );
    assert_eq!(resigned.release().await.unwrap(), Release::Released);
    assert_eq!(lease(&server).await, json!(["", 1, 0]), "as client-go leaves it");
    second.fence.opened().await;
    assert!(begin.elapsed() < 3 * SECOND, "{:?}", begin.elapsed());
    assert_eq!(second.fence.epoch(), Some(1));
    assert_eq!(lease(&server).await, json!(["second", 15, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_died_is_followed_after_the_lease_and_not_before_its_fence_closed() {
    let server = TestServer::start().await;
    let first = Replica::start(&server.client(), "first");
    first.fence.opened().await;
    let second = Replica::start(&server.client(), "second");
    tokio::time::sleep(30 * SECOND).await;
    first.task.abort();
    let begin = Instant::now();
    first.fence.closed().await;
    assert!(!second.fence.is_open());
    second.fence.opened().await;
    let took = begin.elapsed();
    assert!(took > 12 * SECOND && took < 18 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_leader_of_client_go_and_takes_over_when_it_is_silent() {
    let server = TestServer::start().await;
    server
        .apply(
            "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: lock, namespace: default}, \
             spec: {holderIdentity: go_1, leaseDurationSeconds: 20, leaseTransitions: 4, \
             acquireTime: '2020-01-01T00:00:00.000000Z', renewTime: '2020-01-01T00:00:00.000000Z'}}",
        )
        .await;
    let begin = Instant::now();
    let replica = Replica::start(&server.client(), "rust");
    replica.fence.opened().await;
    let took = begin.elapsed();
    assert!(took >= 20 * SECOND && took < 21 * SECOND, "{took:?}");
    assert_eq!(replica.fence.epoch(), Some(5));
}

/// One renewal goes wrong in this way: the leader goes on without a gap.
async fn check_one_bad_renewal(fault: Fault) {
    let server = TestServer::start().await;
    let replica = Replica::start(&server.client(), "first");
    replica.fence.opened().await;
    let bad = Rule::of(&[Verb::Update]).resource("leases").first(1);
    let bad = server.faults().add(bad.then(fault.clone()));
    let closed = timeout(30 * SECOND, replica.fence.closed()).await;
    assert!(closed.is_err(), "{fault:?}");
    assert_eq!((bad.injected(), replica.fence.epoch()), (1, Some(0)), "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn one_bad_renewal_does_not_end_the_lead() {
    let faults = [
        Fault::Refused,
        Fault::LostAnswer,
        Fault::Stall { after_bytes: 0 },
        Fault::Cut { after_bytes: 20 },
        Fault::End { after_bytes: 20 },
        Fault::Slow(4 * SECOND),
        Fault::Slow(60 * SECOND),
        Fault::conflict(),
        Fault::internal(),
        Fault::unavailable(30),
        Fault::too_many_requests(30),
    ];
    for fault in faults {
        check_one_bad_renewal(fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_got_lost_is_found_by_reading() {
    let server = TestServer::start().await;
    let lost = Rule::write().resource("leases").first(1).then(Fault::LostAnswer);
    let lost = server.faults().add(lost);
    let begin = Instant::now();
    let replica = Replica::start(&server.client(), "first");
    replica.fence.opened().await;
    assert_eq!((lost.injected(), replica.fence.epoch()), (1, Some(0)));
    assert!(begin.elapsed() < 3 * SECOND, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_reach_the_server_stops_at_its_deadline_and_begins_anew_later() {
    let server = TestServer::start().await;
    let replica = Replica::start(&server.client(), "first");
    replica.fence.opened().await;
    server.faults().go_away();
    let begin = Instant::now();
    replica.fence.closed().await;
    assert!(begin.elapsed() <= 10 * SECOND, "{:?}", begin.elapsed());
    tokio::time::sleep(60 * SECOND).await;
    server.faults().come_back();
    replica.fence.opened().await;
    assert_eq!(replica.fence.epoch(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn no_request_is_waited_for_beyond_half_the_deadline() {
    let server = TestServer::start().await;
    let replica = Replica::start(&server.client(), "first");
    replica.fence.opened().await;
    let silent = Fault::Stall { after_bytes: 0 };
    server.faults().add(Rule::any().resource("leases").then(silent));
    replica.fence.closed().await;
    let before = server.faults().requests();
    tokio::time::sleep(60 * SECOND).await;
    let asked = server.faults().requests() - before;
    assert!((9..=13).contains(&asked), "{asked} requests in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_answers_conflict_is_not_hammered() {
    let server = TestServer::start().await;
    let conflict = Rule::write().resource("leases").then(Fault::conflict());
    server.faults().add(conflict);
    let _replica = Replica::start(&server.client(), "first");
    tokio::time::sleep(60 * SECOND).await;
    assert!(server.faults().requests() < 130, "{}", server.faults().requests());
}

#[tokio::test(start_paused = true)]
async fn a_guarded_client_writes_only_while_its_replica_leads() {
    let server = TestServer::start().await;
    let config = LeaderConfig::new("default", "lock", "first");
    let elector = Elector::new(&server.client(), config).unwrap();
    let client = server.direct().guarded(Arc::new(elector.fence()));
    let maps = api(&client, "v1", "ConfigMap", "configmaps");
    let create = async |name: &str| {
        let map = value(&format!("{{metadata: {{name: {name}}}}}"));
        maps.create(&map, &WriteParams::default()).await
    };
    let replica = Replica::run(elector);
    replica.fence.opened().await;
    create("a").await.unwrap();
    server.faults().go_away();
    replica.fence.closed().await;
    let error = create("b").await.unwrap_err();
    assert!(matches!(error, Error::Withheld { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn shows_who_leads_in_metrics() {
    let server = TestServer::start().await;
    let config = LeaderConfig::new("default", "lock", "first");
    let elector = Elector::new(&server.client(), config).unwrap();
    let mut registry = Registry::default();
    elector.register(&mut registry);
    let mut holder = elector.holder();
    let page = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    assert!(page().contains("leader_election_master_status{name=\"lock\"} 0"));
    let replica = Replica::run(elector);
    replica.fence.opened().await;
    let known = holder.wait_for(|holder| !holder.identity.is_empty()).await;
    assert_eq!(known.unwrap().identity, "first");
    let text = page();
    assert!(
        text.contains("leader_election_master_status{name=\"lock\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("skopos_leader_terms_total{name=\"lock\"} 1"),
        "{text}"
    );
}

/// It is not polled any more, as if something before it blocked its task for ever.
#[tokio::test(start_paused = true)]
async fn an_election_that_stands_still_is_not_alive_for_longer_than_the_lease_and_a_tolerance() {
    let server = TestServer::start().await;
    let config = LeaderConfig::new("default", "lock", "one");
    let elector = Elector::new(&server.client(), config).unwrap();
    let (fence, alive, stop) = (elector.fence(), elector.liveness(), CancellationToken::new());
    assert_eq!(alive(), Ok(()), "not begun yet");
    tokio::time::advance(3600 * SECOND).await;
    assert_eq!(alive(), Ok(()), "not begun yet");
    let mut electing = std::pin::pin!(elector.run(stop.clone()));
    tokio::select! {
        () = fence.opened() => {}
        _ = &mut electing => panic!("ended"),
    }
    tokio::time::advance(34 * SECOND).await;
    assert_eq!((alive(), fence.is_open()), (Ok(()), false));
    tokio::time::advance(2 * SECOND).await;
    let why = "lease lock was not renewed for 36 s, and the lead not laid down";
    assert_eq!(alive(), Err(why.to_owned()));

    assert!(timeout(60 * SECOND, &mut electing).await.is_err());
    assert_eq!(alive(), Ok(()), "it moves again");
    stop.cancel();
    let _ = electing.await;
    tokio::time::advance(3600 * SECOND).await;
    assert_eq!(alive(), Ok(()), "asked to end");
}

#[tokio::test(start_paused = true)]
async fn an_election_is_alive_while_the_server_answers_nothing_or_another_leads() {
    let server = TestServer::start().await;
    let first = Replica::start(&server.client(), "first");
    first.fence.opened().await;
    let config = LeaderConfig::new("default", "lock", "second");
    let elector = Elector::new(&server.client(), config).unwrap();
    let alive = elector.liveness();
    let second = Replica::run(elector);
    assert!(timeout(60 * SECOND, second.fence.opened()).await.is_err());
    assert_eq!(alive(), Ok(()), "in standby");
    first.resign().await.release().await.unwrap();
    second.fence.opened().await;
    server
        .faults()
        .add(Rule::any().resource("leases").then(Fault::Slow(3600 * SECOND)));
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!((alive(), second.fence.is_open()), (Ok(()), false));
    drop(second.resign().await);
}
