//! Events on a server in process, with faults and a paused clock; one test also on the server of `SKOPOS_TARGET`.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skopos_client::{Api, Client, ListParams, Resource, Sources, connect};
use skopos_controller::{EventKind, Events, EventsConfig, Fence, FenceKeeper, Recorder, Regarding};
use skopos_object::GroupVersionKind;
use skopos_testkit::{Fault, Rule, TestServer, eventually, object};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

struct World {
    server: TestServer,
    recorder: Recorder,
    shutdown: CancellationToken,
    writing: JoinHandle<()>,
}

impl World {
    async fn start(fence: &Fence, change: impl FnOnce(&mut EventsConfig)) -> Self {
        let server = TestServer::start().await;
        let mut config = EventsConfig::new("example.com/widgets", "pod-1");
        change(&mut config);
        let (recorder, events) = Events::new(&server.client(), fence, config);
        let shutdown = CancellationToken::new();
        let writing = tokio::spawn(events.run(shutdown.clone()));
        Self {
            server,
            recorder,
            shutdown,
            writing,
        }
    }

    fn warn(&self, name: &str, reason: &str, note: &str) {
        let regarding = Regarding {
            api_version: "example.com/v1".to_owned(),
            kind: "Widget".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
        };
        self.recorder
            .event(regarding, EventKind::Warning, reason, "Create", note);
    }

    async fn events(&self) -> Vec<Value> {
        events_about(&self.server.direct(), "Widget").await
    }

    async fn expect_events(&self, n: usize) {
        eventually(async || match self.events().await.len() {
            now if now == n => Ok(()),
            now => Err(format!("{now} events, not {n}")),
        })
        .await;
    }

    fn metric(&self, line: &str) -> bool {
        let mut registry = Registry::default();
        self.recorder.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().any(|is| is == line)
    }

    async fn stop(&mut self) {
        self.shutdown.cancel();
        (&mut self.writing).await.unwrap();
    }
}

async fn events_about(client: &Client, kind: &str) -> Vec<Value> {
    let gvk = GroupVersionKind::from_api_version("events.k8s.io/v1", "Event").unwrap();
    let api = Api::all(client, &Resource::known(&gvk, "events", true));
    let mut list = api.list(&ListParams::default());
    let mut events = Vec::new();
    while let Some(event) = list.next().await.unwrap() {
        events.push(event.to_value());
    }
    events.retain(|event| event["regarding"]["kind"] == kind);
    events
}

#[tokio::test]
async fn servers_accept_an_event_and_its_series() {
    let embedded = TestServer::start().await;
    let client = match std::env::var_os("SKOPOS_TARGET") {
        Some(kubeconfig) => {
            let explicit = Some(kubeconfig.into());
            let sources = Sources {
                explicit,
                ..Sources::default()
            };
            connect(&sources).await.unwrap()
        }
        None => embedded.direct(),
    };
    let config = EventsConfig {
        series_spacing: Duration::ZERO,
        ..EventsConfig::new("example.com/widgets", "pod-1")
    };
    let (recorder, events) = Events::new(&client, &Fence::open(), config);
    let shutdown = CancellationToken::new();
    let writing = tokio::spawn(events.run(shutdown.clone()));
    // Cluster-scoped, with a name that an event must not have, in a kind that no other run has.
    let kind = format!("Gadget{:08x}", fastrand::u32(..));
    let gadget = || Regarding {
        api_version: "example.com/v1".to_owned(),
        kind: kind.clone(),
        name: "system:gadget".to_owned(),
        uid: "u1".to_owned(),
        ..Regarding::default()
    };
    let note = "ä".repeat(2000);
    for _ in 0..3 {
        recorder.event(gadget(), EventKind::Warning, "Failed", "Create", &note);
    }
    eventually(async || match events_about(&client, &kind).await.as_slice() {
        [event] if event["series"]["count"] == 3 => Ok(()),
        events => Err(format!("{events:?}")),
    })
    .await;
    shutdown.cancel();
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn writes_an_event_with_all_that_the_api_asks_for() {
    let world = World::start(&Fence::open(), |_| {}).await;
    let widget = object(
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: default, uid: u1}}",
    );
    world
        .recorder
        .event(&widget, EventKind::Normal, "Created", "", "made it");
    world.expect_events(1).await;
    let event = world.events().await.remove(0);
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("a."));
    let shown = json!([
        event["type"],
        event["reason"],
        event["action"],
        event["note"],
        event["reportingController"]
    ]);
    let expect = json!(["Normal", "Created", "Created", "made it", "example.com/widgets"]);
    assert_eq!((shown, &event["regarding"]["uid"]), (expect, &json!("u1")));
}

#[tokio::test(start_paused = true)]
async fn counts_repetitions_in_a_series_and_begins_anew_after_six_minutes() {
    let world = World::start(&Fence::open(), |_| {}).await;
    for n in 0..50 {
        world.warn("a", "Failed", &format!("attempt {n}"));
    }
    eventually(async || match world.events().await.as_slice() {
        [event] if event["series"]["count"] == 50 => Ok(()),
        events => Err(format!("{events:?}")),
    })
    .await;
    // Counted when it is answered, which is after it can be read.
    eventually(async || match world.metric("skopos_events_writes_total 2") {
        true => Ok(()),
        false => Err("not created, then patched once"),
    })
    .await;
    tokio::time::sleep(361 * SECOND).await;
    world.warn("a", "Failed", "again");
    world.expect_events(2).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_too_many_events_does_not_silence_others() {
    let world = World::start(&Fence::open(), |_| {}).await;
    for n in 0..40 {
        world.warn("noisy", &format!("Reason{n}"), "");
    }
    world.warn("quiet", "Failed", "");
    world.expect_events(26).await;
    assert!(world.metric("skopos_events_dropped_total{reason=\"spam\"} 15"));
}

#[tokio::test(start_paused = true)]
async fn never_waits_for_a_server_that_does_not_answer() {
    let world = World::start(&Fence::open(), |config| config.capacity = 10).await;
    world.server.faults().go_away();
    for n in 0..1000 {
        world.warn(&format!("widget-{n}"), "Failed", "");
    }
    assert!(world.metric("skopos_events_dropped_total{reason=\"overflow\"} 990"));
    tokio::time::sleep(5 * SECOND).await;
    world.server.faults().come_back();
    world.expect_events(10).await;
}

#[tokio::test(start_paused = true)]
async fn tries_again_and_writes_nothing_twice_when_answers_get_lost() {
    let world = World::start(&Fence::open(), |_| {}).await;
    let lost = Rule::write().resource("events").first(2).then(Fault::LostAnswer);
    let lost = world.server.faults().add(lost);
    world.warn("a", "Failed", "");
    eventually(async || match world.metric("skopos_events_writes_total 1") {
        true => Ok(()),
        false => Err("not written"),
    })
    .await;
    assert_eq!((lost.injected(), world.events().await.len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn stays_silent_while_it_does_not_lead() {
    let keeper = FenceKeeper::closed();
    let mut world = World::start(&keeper.fence(), |_| {}).await;
    world.warn("a", "Failed", "");
    world.stop().await;
    assert_eq!(world.events().await.len(), 0);
    assert!(world.metric("skopos_events_dropped_total{reason=\"standby\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn writes_what_is_left_at_the_end_but_not_for_ever() {
    let mut world = World::start(&Fence::open(), |_| {}).await;
    world.warn("a", "Failed", "");
    world.expect_events(1).await;
    world.warn("a", "Failed", "");
    world.warn("b", "Failed", "");
    world.stop().await;
    let mut counts: Vec<Value> = Vec::new();
    for event in world.events().await {
        counts.push(event["series"]["count"].clone());
    }
    assert_eq!(counts, [json!(2), Value::Null]);

    let mut world = World::start(&Fence::open(), |_| {}).await;
    let silent = Fault::Stall { after_bytes: 0 };
    world.server.faults().add(Rule::write().then(silent));
    world.warn("a", "Failed", "");
    let begin = tokio::time::Instant::now();
    world.stop().await;
    assert_eq!(begin.elapsed(), 3 * SECOND);
    assert!(world.metric("skopos_events_dropped_total{reason=\"failed\"} 1"));
}
