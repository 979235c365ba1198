//! What a relist does to the copy and to those who hear of it.

use skopos_informer::{Index, InformerConfig, Transform};
use skopos_object::{ListEnd, ListItem, Malformed, ObjectKey, Op, WatchEvent};

use crate::informing::{beside, next};
use crate::server::{Fault, Server, object};

/// Changes things behind the informer's back, then lets it relist.
fn behind_its_back(server: &Server, change: impl FnOnce()) {
    server.cut();
    change();
    server.compact();
}

#[tokio::test(start_paused = true)]
async fn p25_p26_replaces_all_then_tells_deletions_first_with_the_last_known_state() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.put(name, 1);
    }
    beside(&server, InformerConfig::default(), async |informer| {
        let mut changes = informer.subscribe();
        for _ in 0..3 {
            next(&mut changes).await;
        }
        let by_parity = informer.store().add_index(Index::label("parity"));
        behind_its_back(&server, || {
            server.put("a", 2);
            server.delete("c");
            server.put("d", 4);
        });
        assert_eq!(next(&mut changes).await, "c missing 1");
        assert_eq!(
            informer.store().len(),
            3,
            "the store is replaced before anyone is told"
        );
        assert_eq!(by_parity.get("even").len(), 2);
        let mut rest = [next(&mut changes).await, next(&mut changes).await];
        rest.sort();
        assert_eq!(rest, ["a updated 1 2", "d created 4"]);
        assert_eq!(informer.report().lists["expired"], 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p27_new_uid_under_an_old_name_is_a_deletion_and_a_creation() {
    let server = Server::new();
    server.put("a", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        let mut changes = informer.subscribe();
        next(&mut changes).await;
        behind_its_back(&server, || {
            server.delete("a");
            server.put("a", 2);
        });
        assert_eq!(next(&mut changes).await, "a missing 1");
        assert_eq!(next(&mut changes).await, "a created 2");
        assert_eq!(informer.store().get("shop", "a").unwrap().uid(), "uid-2");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p21_deletion_and_change_older_than_what_is_known_are_ignored() {
    let server = Server::new();
    server.put("a", 1);
    let version = server.with(|state| state.revision);
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        let stale = object("a", "uid-1", version + 1, 0);
        server.with(|state| {
            state.revision += 3;
            let newer = object("a", "uid-1", state.revision, 7);
            state
                .history
                .push((state.revision - 1, WatchEvent::Modified(newer)));
            state.history.push((state.revision, WatchEvent::Deleted(stale)));
        });
        let last = server.put("b", 1);
        informer.seen(&last.into()).await.unwrap();
        assert_eq!(
            informer.store().get("shop", "a").unwrap().get(&["spec", "n"]),
            Some(7.into())
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p22_object_that_cannot_be_read_is_set_aside_and_hides_nothing() {
    let server = Server::new();
    server.put("a", 1);
    server.put("b", 1);
    let malformed = |version: u64| Malformed {
        key: Some(ObjectKey::namespaced("shop", "a")),
        resource_version: version.into(),
        text: "{".into(),
        reason: "cut off".to_owned(),
    };
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        server.with(|state| {
            state.revision += 1;
            let (op, object) = (Op::Updated, malformed(state.revision));
            state
                .history
                .push((state.revision, WatchEvent::Malformed { op, object }));
            // The next list has it unreadable too.
            state.initial_events = false;
            let items = vec![
                ListItem::Malformed(malformed(state.revision)),
                ListItem::Object(state.objects["b"].clone()),
                ListItem::End(ListEnd {
                    resource_version: (state.revision + 1).into(),
                    ..ListEnd::default()
                }),
            ];
            state.list_faults.push_back(Fault::Items(items));
        });
        let version = server.with(|state| state.revision);
        informer.seen(&version.into()).await.unwrap();
        assert_eq!(informer.report().quarantined.len(), 1);
        behind_its_back(&server, || server.with(|state| state.revision += 1));
        while !informer.report().lists.contains_key("expired") {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(informer.store().len(), 2, "what is known of it stays");
        let version = server.put("a", 5);
        informer.seen(&version.into()).await.unwrap();
        let report = informer.report();
        assert_eq!((report.quarantined.len(), report.quarantined_total), (0, 2));
    })
    .await;
}

/// The simulation found the state of before kept, with a version that hid all changes to come.
#[tokio::test(start_paused = true)]
async fn object_that_cannot_be_read_after_a_loss_is_not_the_one_known() {
    let server = Server::new();
    server.lose("first");
    server.with(|state| state.initial_events = false);
    server.put("a", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        let mut changes = informer.subscribe();
        assert_eq!(next(&mut changes).await, "a created 1 initial");
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        server.lose("second");
        server.with(|state| {
            state.revision = 3;
            let unread = Malformed {
                key: Some(ObjectKey::namespaced("shop", "a")),
                resource_version: 3.into(),
                text: "{".into(),
                reason: "cut off".to_owned(),
            };
            let end = ListEnd {
                resource_version: 3.into(),
                ..ListEnd::default()
            };
            state.watch_faults.push_back(Fault::Refuse(crate::server::away()));
            let items = vec![ListItem::Malformed(unread), ListItem::End(end)];
            state.list_faults.push_back(Fault::Items(items));
        });
        assert_eq!(next(&mut changes).await, "a missing 1");
        server.put("a", 5);
        assert_eq!(next(&mut changes).await, "a created 5");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p31_index_function_that_panics_spoils_nothing() {
    let server = Server::new();
    for n in 0..10 {
        server.put(&format!("thing-{n}"), n);
    }
    beside(&server, InformerConfig::default(), async |informer| {
        let fussy = Index::new("fussy", |object| {
            let n = object.get(&["spec", "n"]).unwrap().as_u64().unwrap();
            assert_ne!(n, 3, "not this one");
            vec![(n / 5).to_string()]
        });
        let fussy = informer.store().add_index(fussy);
        informer.synced().await.unwrap();
        assert_eq!(fussy.get("0").len(), 4);
        server.put("thing-0", 3);
        server.put("thing-1", 9);
        for n in [2, 4] {
            server.delete(&format!("thing-{n}"));
        }
        let version = server.put("thing-5", 8);
        informer.seen(&version.into()).await.unwrap();
        assert_eq!(fussy.values(), [("1".to_owned(), 6)], "empty buckets are dropped");
        assert!(informer.report().index_panics > 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p32_transform_runs_once_per_object_before_store_and_subscribers() {
    let server = Server::new();
    server.put("a", 1);
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = calls.clone();
    let transform = Transform::new(move |given| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let n = given.get(&["spec", "n"]).unwrap().as_u64().unwrap();
        let version = given.resource_version().as_str().parse().unwrap();
        object(given.name(), given.uid(), version, n * 10)
    });
    let config = InformerConfig {
        transform: Some(transform),
        ..InformerConfig::default()
    };
    beside(&server, config, async |informer| {
        let mut changes = informer.subscribe();
        let mut other = informer.subscribe();
        assert_eq!(next(&mut changes).await, "a created 10 initial");
        server.put("a", 2);
        assert_eq!(next(&mut changes).await, "a updated 10 20");
        assert_eq!(next(&mut other).await, "a created 20");
        server.delete("a");
        assert_eq!(next(&mut changes).await, "a deleted 2", "not on what is gone");
        assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 2);
    })
    .await;
}
