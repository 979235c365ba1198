//! Decisions of the collector at moments that requests alone do not reach.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skopos_store::{Expect, Store};

use super::Place;
use crate::edge::TokenTable;
use crate::registry::Resource;
use crate::state::{Settings, Shared};
use crate::versions;

/// A server of which only the store is alive: the collector does what it is told to.
struct Still {
    shared: Shared,
    maps: Arc<Resource>,
}

impl Still {
    fn new() -> Still {
        let settings = Settings {
            bookmark_interval: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(60),
            future_version_wait: Duration::from_secs(3),
            event_ttl: Duration::from_secs(3600),
            seed: Some(1),
            root_ca: String::new(),
        };
        let store = Store::open(skopos_store::Config::default()).unwrap();
        let shared = Shared::new(store, TokenTable::default(), settings);
        let maps = Arc::clone(shared.built_in("", "configmaps").unwrap());
        Still { shared, maps }
    }

    /// Stores a config map of this name and uid.
    async fn put(&self, name: &str, metadata: Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "home", "uid": name}});
        let fields = metadata.as_object().unwrap().clone();
        object["metadata"].as_object_mut().unwrap().extend(fields);
        let key = format!("home/{name}");
        let stored = self.shared.put(&self.maps, &key, Expect::Any, &object).await;
        versions::parse(&stored.unwrap()).unwrap()
    }

    async fn collect(&self, name: &str) {
        let place = Place {
            space: Arc::clone(&self.maps.space),
            key: format!("home/{name}"),
        };
        self.shared.collect(&place).await.unwrap();
    }

    fn get(&self, name: &str) -> Option<Value> {
        let entry = self.shared.store.get(&self.maps.space, &format!("home/{name}"))?;
        Some(versions::parse(&entry).unwrap())
    }
}

fn owner(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "blockOwnerDeletion": true})
}

#[tokio::test]
async fn an_object_that_lost_its_owner_after_the_decision_stays() {
    let server = Still::new();
    let seen = server
        .put("a", json!({"ownerReferences": [owner("absent")]}))
        .await;
    server.put("a", json!({})).await;
    let registry = server.shared.registry.load_full();
    let late = server
        .shared
        .collect_dependent(&registry, &server.maps, "home/a", &seen);
    late.await.unwrap();
    assert!(server.get("a").is_some());
}

#[tokio::test]
async fn what_has_dependents_goes_in_the_foreground_if_its_owner_does() {
    let server = Still::new();
    let waiting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]});
    server.put("a", waiting).await;
    server.put("b", json!({"ownerReferences": [owner("a")]})).await;
    server.put("c", json!({"ownerReferences": [owner("b")]})).await;
    server.collect("b").await;
    let waits = server.get("b").unwrap();
    assert_eq!(waits["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for name in ["c", "b", "a"] {
        server.collect(name).await;
        assert_eq!(server.get(name), None);
    }
}

#[tokio::test]
async fn nothing_is_written_while_one_owner_is_of_an_unknown_kind() {
    let server = Still::new();
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "x"});
    server.put("solid", json!({})).await;
    for others in [
        json!([unknown, owner("absent")]),
        json!([owner("absent"), owner("solid"), unknown]),
    ] {
        let before = server.put("a", json!({"ownerReferences": others})).await;
        server.collect("a").await;
        assert_eq!(server.get("a"), Some(before));
    }
}
