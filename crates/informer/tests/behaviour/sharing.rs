//! Many informers, shared, on kinds that come and go.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use skopos_informer::{Informer, Informers, InformersConfig, Wanted};
use skopos_object::{
    Collection, CollectionName, Collections, GroupVersionKind, Object, OpenError, Status, WatchEvent,
};
use tokio_util::sync::CancellationToken;

use crate::informing::next;
use crate::server::{Server, refused};

/// Serves collections by plural.
#[derive(Clone, Debug, Default)]
struct Cluster(Arc<Mutex<Served>>);

#[derive(Debug, Default)]
struct Served {
    kinds: BTreeMap<String, (&'static str, Server)>,
    unavailable: bool,
    n_opened: usize,
    /// What is answered from memory, once something was.
    remembered: BTreeMap<String, (&'static str, Server)>,
}

impl Cluster {
    fn serve(&self, plural: &str, version: &'static str, server: &Server) {
        let kind = (version, server.clone());
        self.0.lock().unwrap().kinds.insert(plural.to_owned(), kind);
    }

    fn withdraw(&self, plural: &str) {
        self.0.lock().unwrap().kinds.remove(plural);
    }
}

impl Cluster {
    fn find(&self, name: &CollectionName, from_memory: bool) -> Result<Collection, OpenError> {
        let mut served = self.0.lock().unwrap();
        served.n_opened += 1;
        let key = match &name.namespace {
            Some(namespace) => format!("{}/{namespace}", name.resource),
            None => name.resource.clone(),
        };
        let remembered = served.remembered.get(&key).filter(|_| from_memory).cloned();
        if remembered.is_none() && served.unavailable {
            return Err(OpenError::Unavailable("discovery is partial".into()));
        }
        let kind = remembered.or_else(|| served.kinds.get(&key).cloned());
        let Some((version, server)) = kind else {
            served.remembered.remove(&key);
            return Err(OpenError::Missing(name.to_string()));
        };
        served.remembered.insert(key, (version, server.clone()));
        Ok(Collection {
            kind: GroupVersionKind::new(name.group.as_str(), version, "Thing"),
            plural: name.resource.clone(),
            singular: String::new(),
            short_names: Vec::new(),
            namespaced: true,
            source: server.source(),
        })
    }
}

impl Collections for Cluster {
    fn open<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        async move { self.find(name, true) }.boxed()
    }

    fn reopen<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        async move { self.find(name, false) }.boxed()
    }
}

async fn with_informers(cluster: &Cluster, test: impl AsyncFnOnce(Informers)) {
    with_config(cluster, InformersConfig::default(), test).await;
}

async fn with_config(cluster: &Cluster, config: InformersConfig, test: impl AsyncFnOnce(Informers)) {
    let informers = Informers::new(Arc::new(cluster.clone()), config);
    let shutdown = CancellationToken::new();
    let test = async {
        let done = tokio::time::timeout(Duration::from_secs(7200), test(informers.clone())).await;
        shutdown.cancel();
        done.expect("in time");
    };
    tokio::join!(informers.clone().run(shutdown.clone()), test);
}

fn things() -> CollectionName {
    CollectionName::new("example.com", "things")
}

#[tokio::test(start_paused = true)]
async fn same_name_is_the_same_informer_until_a_while_after_its_last_user() {
    let (cluster, server) = (Cluster::default(), Server::new());
    cluster.serve("things", "v1", &server);
    with_informers(&cluster, async |informers| {
        let first = informers.informer(things());
        let second = informers.informer(things());
        second.synced().await.unwrap();
        let changes = second.subscribe();
        drop((first, second));
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(informers.reports().len(), 2, "a subscription is a user too");
        drop(changes);
        tokio::time::sleep(Duration::from_secs(20)).await;
        let again = informers.informer(things());
        assert!(again.has_synced(), "within the grace it is still there");
        drop(again);
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(informers.reports().len(), 1, "only the definitions are left");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_a_grace_without_end_an_unused_informer_goes_on() {
    let (cluster, server) = (Cluster::default(), Server::new());
    cluster.serve("things", "v1", &server);
    let config = InformersConfig {
        grace: Duration::MAX,
        ..InformersConfig::default()
    };
    with_config(&cluster, config, async |informers| {
        informers.informer(things()).synced().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(informers.informer(things()).has_synced());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p49_kind_deleted_and_created_again_under_twenty_informers() {
    let (cluster, server) = (Cluster::default(), Server::new());
    let definitions = Server::new();
    cluster.serve("customresourcedefinitions", "v1", &definitions);
    with_informers(&cluster, async |informers| {
        let wanted = |n: usize| Wanted {
            selection: skopos_informer::Selection {
                labels: format!("parity!=none-{n}").parse().unwrap(),
                ..Default::default()
            },
            ..things().into()
        };
        let all: Vec<_> = (0..20).map(|n| informers.informer(wanted(n))).collect();
        let mut changes: Vec<_> = all.iter().map(Informer::subscribe).collect();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(all[0].report().not_served.is_some());
        server.put("a", 1);
        cluster.serve("things", "v1", &server);
        define(&definitions, "things.example.com", true);
        for changes in &mut changes {
            assert_eq!(next(changes).await, "a created 1 initial");
        }
        cluster.withdraw("things");
        answer_not_found(&server);
        define(&definitions, "things.example.com", false);
        for changes in &mut changes {
            assert_eq!(next(changes).await, "a missing 1");
        }
        let reborn = Server::new();
        reborn.put("b", 1);
        cluster.serve("things", "v2", &reborn);
        define(&definitions, "things.example.com", true);
        for changes in &mut changes {
            assert_eq!(next(changes).await, "b created 1");
        }
    })
    .await;
}

/// Ends all watches, and knows of nothing from now on.
fn answer_not_found(server: &Server) {
    server.with(|state| {
        let not_found = || refused(Status::generic_not_found());
        state.list_faults.extend((0..200).map(|_| not_found()));
        state.watch_faults.extend((0..200).map(|_| not_found()));
    });
    server.cut();
}

/// How long it takes until the only object is told as missing, when nobody watches definitions.
async fn missed_after(gone: impl FnOnce(&Cluster, &Server)) -> Duration {
    let (cluster, server) = (Cluster::default(), Server::new());
    cluster.serve("things", "v1", &server);
    server.put("a", 1);
    let config = InformersConfig {
        definitions: false,
        ..InformersConfig::default()
    };
    let mut took = Duration::ZERO;
    with_config(&cluster, config, async |informers| {
        let mut changes = informers.informer(things()).subscribe();
        next(&mut changes).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        gone(&cluster, &server);
        let since = tokio::time::Instant::now();
        assert_eq!(next(&mut changes).await, "a missing 1");
        took = since.elapsed();
    })
    .await;
    took
}

#[tokio::test(start_paused = true)]
async fn p49_deleted_kind_is_noticed_in_seconds_though_nobody_watches_definitions() {
    let took = missed_after(|cluster, server| {
        cluster.withdraw("things");
        answer_not_found(server);
    })
    .await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn p50_repeated_not_found_counts_where_discovery_does_not_answer() {
    let took = missed_after(|cluster, server| {
        cluster.0.lock().unwrap().unavailable = true;
        answer_not_found(server);
    })
    .await;
    assert!((5..20).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn p50_not_found_of_a_kind_that_is_listed_is_believed_only_after_a_while() {
    let took = missed_after(|_, server| answer_not_found(server)).await;
    assert!((30..90).contains(&took.as_secs()), "{took:?}");
}

/// Adds or removes a definition.
fn define(definitions: &Server, name: &str, there: bool) {
    definitions.with(|state| {
        state.revision += 1;
        let metadata = json!({"name": name, "uid": name, "resourceVersion": state.revision.to_string()});
        let object =
            Object::from_value(&json!({"kind": "CustomResourceDefinition", "metadata": metadata})).unwrap();
        let event = if there {
            WatchEvent::Added(object)
        } else {
            WatchEvent::Deleted(object)
        };
        state.history.push((state.revision, event));
    });
}

#[tokio::test(start_paused = true)]
async fn p50_partial_discovery_purges_nothing() {
    let (cluster, server) = (Cluster::default(), Server::new());
    let definitions = Server::new();
    cluster.serve("customresourcedefinitions", "v1", &definitions);
    cluster.serve("things", "v1", &server);
    server.put("a", 1);
    with_informers(&cluster, async |informers| {
        let informer = informers.informer(things());
        informer.synced().await.unwrap();
        cluster.0.lock().unwrap().unavailable = true;
        server.with(|state| state.away = true);
        server.cut();
        define(&definitions, "things.example.com", true);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(informer.store().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn server_that_lost_its_data_is_noticed_though_its_versions_went_on() {
    let (cluster, server) = (Cluster::default(), Server::new());
    cluster.serve("things", "v1", &server);
    server.lose("first");
    server.put("a", 1);
    with_informers(&cluster, async |informers| {
        let informer = informers.informer(things());
        let mut changes = informer.subscribe();
        assert_eq!(next(&mut changes).await, "a created 1 initial");
        server.with(|state| state.away = true);
        server.lose("second");
        server.put("b", 2);
        tokio::time::sleep(Duration::from_secs(20)).await;
        server.with(|state| state.away = false);
        assert_eq!(next(&mut changes).await, "a missing 1");
        assert_eq!(next(&mut changes).await, "b created 2");
        assert_eq!(informer.report().lists["other_history"], 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_view() {
    let cluster = Cluster::default();
    let [shop, bank] = [Server::new(), Server::new()];
    cluster.serve("things/shop", "v1", &shop);
    cluster.serve("things/bank", "v1", &bank);
    shop.put("a", 1);
    bank.put("b", 2);
    with_informers(&cluster, async |informers| {
        let informer = informers.informer(Wanted {
            namespaces: vec!["shop".into(), "bank".into()],
            ..things().into()
        });
        informer.synced().await.unwrap();
        assert_eq!(informer.store().len(), 2);
        shop.cut();
        shop.delete("a");
        shop.compact();
        while informer.store().len() > 1 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(
            informer.store().get("shop", "b").is_some(),
            "a relist of one part leaves the other"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn five_hundred_collections_at_once() {
    let cluster = Cluster::default();
    for n in 0..500 {
        let server = Server::new();
        server.put("a", n);
        cluster.serve(&format!("kind-{n}"), "v1", &server);
    }
    with_informers(&cluster, async |informers| {
        let all: Vec<_> = (0..500)
            .map(|n| informers.informer(CollectionName::new("example.com", format!("kind-{n}"))))
            .collect();
        for informer in &all {
            informer.synced().await.unwrap();
            assert_eq!(informer.store().len(), 1);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn informers_show_themselves_as_metrics() {
    let (cluster, server) = (Cluster::default(), Server::new());
    cluster.serve("things", "v1", &server);
    server.put("a", 1);
    with_informers(&cluster, async |informers| {
        let informer = informers.informer(things());
        let mut registry = prometheus_client::registry::Registry::default();
        informers.register(&mut registry);
        informer.synced().await.unwrap();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "skopos_informer_objects{informer=\"things.example.com\"} 1",
            "skopos_informer_lists_total{informer=\"things.example.com\",reason=\"first\"} 1",
            "skopos_informer_staleness_seconds{informer=\"things.example.com\"} 0",
        ] {
            assert!(text.contains(line), "{text}");
        }
    })
    .await;
}
