//! What the watch engine stands, on the embedded server: kinds that go and come, many kinds, large objects, an outage,
//! objects that leave what is selected.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skopos_client::{Api, Discovery};
use skopos_informer::{Informer, InformerConfig, Informers, InformersConfig, Selection, Wanted};
use skopos_object::{CollectionName, LabelSelector, Op};
use skopos_testkit::{Data, TestServer, definition, eventually};
use tokio_util::sync::CancellationToken;

/// A server, and informers on it.
async fn start() -> (TestServer, Informers, CancellationToken) {
    start_with(InformersConfig::default()).await
}

async fn start_with(config: InformersConfig) -> (TestServer, Informers, CancellationToken) {
    let server = TestServer::start().await;
    let discovery = Arc::new(Discovery::new(&server.client()));
    let informers = Informers::new(discovery, config);
    let stop = CancellationToken::new();
    tokio::spawn(informers.clone().run(stop.clone()));
    (server, informers, stop)
}

async fn put_widget(server: &TestServer, namespace: &str, name: &str) {
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace},
    });
    server.put(&widget).await;
}

/// Waits until every informer has so many objects.
async fn have(informers: &[Informer], n: usize) {
    eventually(async || {
        let wrong = informers
            .iter()
            .find(|informer| !informer.has_synced() || informer.store().len() != n);
        match wrong {
            None => Ok(()),
            Some(informer) => Err(format!("{n} expected: {:#?}", informer.report())),
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_deleted_and_made_again_under_twenty_informers() {
    let (server, informers, stop) = start().await;
    let widgets = definition("example.com", "v1", "Widget", "widgets");
    server.put(&widgets).await;
    let namespaces: Vec<String> = (0..20).map(|n| format!("home-{n}")).collect();
    for name in &namespaces {
        server
            .put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
        put_widget(&server, name, "first").await;
    }
    let name = CollectionName::new("example.com", "widgets");
    let all: Vec<Informer> = namespaces
        .iter()
        .map(|namespace| informers.informer(name.clone().within(namespace)))
        .collect();
    have(&all, 1).await;
    let before: Vec<String> = all
        .iter()
        .map(|informer| informer.store().list()[0].uid().to_owned())
        .collect();
    let crds = definitions(&server);
    crds.delete("widgets.example.com", &Default::default())
        .await
        .unwrap();
    have(&all, 0).await;
    eventually(async || match crds.find("widgets.example.com").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    server.put(&widgets).await;
    for name in &namespaces {
        put_widget(&server, name, "first").await;
        put_widget(&server, name, "second").await;
    }
    have(&all, 2).await;
    for (informer, uid) in all.iter().zip(before) {
        let first = informer
            .store()
            .list()
            .into_iter()
            .find(|object| object.name() == "first");
        assert_ne!(first.unwrap().uid(), uid);
    }
    stop.cancel();
}

/// Definitions, past all faults.
fn definitions(server: &TestServer) -> Api {
    let definitions = server.api(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    definitions.with_client(&server.direct())
}

#[tokio::test(start_paused = true)]
async fn a_kind_deleted_where_nobody_watches_definitions() {
    let config = InformersConfig {
        definitions: false,
        ..InformersConfig::default()
    };
    let (server, informers, stop) = start_with(config).await;
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    let informer = informers.informer(CollectionName::new("example.com", "widgets"));
    have(std::slice::from_ref(&informer), 0).await;
    let begin = tokio::time::Instant::now();
    definitions(&server)
        .delete("widgets.example.com", &Default::default())
        .await
        .unwrap();
    eventually(async || informer.report().not_served.map(drop).ok_or("still followed")).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn many_kinds_watched_at_once() {
    // `KINDS=500` by hand: a definition costs the more the more there are.
    let wanted = std::env::var("KINDS").ok().and_then(|n| n.parse().ok());
    let n_kinds: usize = wanted.unwrap_or(60);
    let (server, informers, stop) = start().await;
    for n in 0..n_kinds {
        let kind = format!("Kind{n}");
        server
            .put(&definition("many.example.com", "v1", &kind, &format!("kind{n}s")))
            .await;
    }
    let all: Vec<Informer> = (0..n_kinds)
        .map(|n| informers.informer(CollectionName::new("many.example.com", format!("kind{n}s"))))
        .collect();
    have(&all, 0).await;
    for n in (0..n_kinds).step_by(20) {
        let object = json!({
            "apiVersion": "many.example.com/v1", "kind": format!("Kind{n}"),
            "metadata": {"name": "one", "namespace": "default"},
        });
        server.put(&object).await;
    }
    let chosen: Vec<Informer> = all.iter().step_by(20).cloned().collect();
    have(&chosen, 1).await;
    let requests = server.faults().requests();
    assert!(
        requests < 5 * n_kinds as u64,
        "{requests} requests for {n_kinds} kinds"
    );
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_list_of_objects_of_a_megabyte() {
    let server = TestServer::start().await;
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    for n in 0..16 {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": format!("big-{n}"), "namespace": "default"},
            "spec": {"text": "x".repeat(1 << 20)},
        });
        server.put(&widget).await;
    }
    let informer = Informer::new("widgets", InformerConfig::default());
    let stop = CancellationToken::new();
    let source = Arc::new(server.api("example.com/v1", "Widget", "widgets"));
    let running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(source, stop).await }
    });
    have(std::slice::from_ref(&informer), 16).await;
    let bytes = informer.report().bytes;
    assert!((16 << 20..17 << 20).contains(&bytes), "{bytes} bytes for 16 MiB");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_away_for_ten_minutes() {
    let server = TestServer::start().await;
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    for n in 0..50 {
        put_widget(&server, "default", &format!("w{n}")).await;
    }
    let informer = Informer::new("widgets", InformerConfig::default());
    let mut changes = informer.subscribe();
    let stop = CancellationToken::new();
    let source = Arc::new(server.api("example.com/v1", "Widget", "widgets"));
    let running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(source, stop).await }
    });
    have(std::slice::from_ref(&informer), 50).await;
    while changes.try_next().is_some() {}
    let (before, bytes) = (server.faults().requests(), informer.report().bytes);
    server.faults().go_away();
    tokio::time::sleep(Duration::from_secs(400)).await;
    // Events are kept for five minutes: this one is still there when the server is back.
    put_widget(&server, "default", "meanwhile").await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let asked = server.faults().requests() - before;
    assert!(asked <= 40, "{asked} requests in ten minutes");
    assert_eq!((informer.report().bytes, changes.lag().keys), (bytes, 0));
    server.faults().come_back();
    let told = changes.next().await.unwrap();
    assert_eq!(told.change.key().unwrap().name, "meanwhile");
    assert_eq!(informer.report().lists.len(), 1, "no list but the first");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn p20_object_that_leaves_the_selection_is_told_as_deleted_in_its_old_state() {
    let (server, informers, stop) = start().await;
    server
        .put(&definition("example.com", "v1", "Widget", "widgets"))
        .await;
    let put = async |color: &str| {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a", "namespace": "default", "labels": {"color": color}},
        });
        let written = server.put(&widget).await;
        let version = written["metadata"]["resourceVersion"].as_str();
        skopos_object::ResourceVersion::from(version.unwrap())
    };
    put("red").await;
    let red = informers.informer(Wanted {
        selection: Selection {
            labels: LabelSelector::parse("color=red").unwrap(),
            ..Selection::default()
        },
        ..CollectionName::new("example.com", "widgets").into()
    });
    let mut changes = red.subscribe();
    let mut told = async || {
        let change = changes.next().await.unwrap().change;
        let state = change.new.or(change.old).unwrap();
        let color = state.label("color").unwrap().into_owned();
        (change.op, color, state.uid().to_owned(), state.resource_version())
    };
    let (_, _, uid, _) = told().await;
    let left = put("blue").await;
    assert_eq!(
        told().await,
        (Op::Deleted, "red".into(), uid.clone(), left.clone())
    );
    assert!(red.store().is_empty() && red.version() == left);
    let back = put("red").await;
    assert_eq!(
        told().await,
        (Op::Created, "red".into(), uid.clone(), back.clone())
    );
    // Nobody saw it leave: then the list lacks it, and the state is the one last known.
    server.faults().go_away();
    put("blue").await;
    server.compact();
    server.faults().come_back();
    assert_eq!(told().await, (Op::Deleted, "red".into(), uid, back));
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_its_data_and_counted_on() {
    let (mut server, informers, stop) = start().await;
    let widgets = definition("example.com", "v1", "Widget", "widgets");
    server.put(&widgets).await;
    put_widget(&server, "default", "before").await;
    let informer = informers.informer(CollectionName::new("example.com", "widgets"));
    have(std::slice::from_ref(&informer), 1).await;
    let known: u64 = informer.version().as_str().parse().unwrap();
    server.faults().go_away();
    server.restart(Data::Lost).await;
    server.put(&widgets).await;
    for n in 0..known {
        put_widget(&server, "default", &format!("after-{}", n % 3)).await;
    }
    server.faults().come_back();
    have(std::slice::from_ref(&informer), 3).await;
    assert!(informer.version().as_str().parse::<u64>().unwrap() > known);
    assert_eq!(informer.report().lists["other_history"], 1);
    stop.cancel();
}
