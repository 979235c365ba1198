//! Subscribers that come late, are slow, and leave.

use std::{collections::BTreeMap, time::Duration};

use skopos_informer::{InformerConfig, Origin, Subscription};
use skopos_object::{Op, ResourceVersion};

use crate::informing::{beside, describe, next};
use crate::server::Server;

#[tokio::test(start_paused = true)]
async fn p29_late_subscriber_gets_what_is_there_and_syncs_on_its_own() {
    let server = Server::new();
    server.put("a", 1);
    server.put("b", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        let mut late = informer.subscribe();
        let mut sync = late.sync_watch();
        assert!(informer.has_synced() && !late.has_synced());
        for _ in 0..2 {
            assert_eq!(late.next().await.unwrap().origin, Origin::Initial);
        }
        assert!(!late.has_synced(), "still busy with the last one");
        assert_eq!(late.try_next(), None);
        assert!(late.has_synced() && sync.synced().await);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p29_change_of_what_still_waits_from_the_beginning_is_told_as_a_change() {
    let server = Server::new();
    server.put("a", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        let mut late = informer.subscribe();
        let version = server.put("a", 2);
        informer.seen(&version.into()).await.unwrap();
        assert!(!late.has_synced(), "it still waits, and was there at first");
        let told = late.next().await.unwrap();
        assert_eq!(
            (told.origin, describe(&told.change)),
            (Origin::Live, "a created 2".to_owned())
        );
        assert_eq!(late.try_next(), None);
        assert!(late.has_synced());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p33_slow_subscriber_gets_one_change_per_object_and_loses_no_deletion() {
    let server = Server::new();
    for name in ["changed", "deleted", "recreated"] {
        server.put(name, 1);
    }
    beside(&server, InformerConfig::default(), async |informer| {
        let mut slow = informer.subscribe();
        for _ in 0..3 {
            next(&mut slow).await;
        }
        for n in 2..1000 {
            server.put("changed", n);
            server.put("brief", n);
            server.delete("brief");
        }
        server.put("deleted", 5);
        server.delete("deleted");
        server.delete("recreated");
        server.put("recreated", 7);
        let version = server.put("recreated", 8);
        informer.seen(&version.into()).await.unwrap();
        assert_eq!(slow.lag().keys, 3, "bounded by the number of objects");
        let mut told = Vec::new();
        while let Some(notification) = slow.try_next() {
            told.push(describe(&notification.change));
        }
        assert_eq!(
            told,
            [
                "changed updated 1 999",
                "deleted deleted 5",
                "recreated deleted 1",
                "recreated created 8"
            ]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p34_update_has_old_and_new_state_so_that_both_owners_can_be_told() {
    let server = Server::new();
    server.put("moved", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        let mut changes = informer.subscribe();
        next(&mut changes).await;
        let owners = |told: skopos_informer::Notification| {
            [told.change.old, told.change.new]
                .map(|state| state.unwrap().label("parity").unwrap().into_owned())
        };
        server.put("moved", 2);
        assert_eq!(owners(changes.next().await.unwrap()), ["odd", "even"]);
        // What was joined still begins where the subscriber stands.
        for n in [4, 6, 7] {
            let version = server.put("moved", n);
            informer.seen(&version.into()).await.unwrap();
        }
        assert_eq!(owners(changes.next().await.unwrap()), ["even", "odd"]);
        // Also when it was found by a list.
        server.cut();
        server.put("moved", 8);
        server.compact();
        assert_eq!(owners(changes.next().await.unwrap()), ["odd", "even"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p28_resync_tells_again_without_asking_the_server() {
    let server = Server::new();
    server.put("a", 1);
    let config = InformerConfig {
        resync: Some(Duration::from_secs(30)),
        ..InformerConfig::default()
    };
    beside(&server, config, async |informer| {
        let mut changes = informer.subscribe();
        next(&mut changes).await;
        let n_before = server.with(|state| state.n_requests);
        let again = changes.next().await.unwrap();
        assert_eq!(
            (again.origin, describe(&again.change)),
            (Origin::Resync, "a updated 1 1".to_owned())
        );
        assert_eq!(server.with(|state| state.n_requests), n_before);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p30_bookmarks_end_the_wait_for_a_version_on_idle_collections() {
    let server = Server::new();
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        let elsewhere = server.with(|state| state.revision) + 1;
        let wait = async { informer.seen(&elsewhere.into()).await.unwrap() };
        tokio::pin!(wait);
        tokio::select! {
            () = &mut wait => panic!("too early"),
            () = tokio::time::sleep(Duration::from_secs(1)) => server.bookmark(),
        }
        wait.await;
        informer
            .seen(&ResourceVersion::from("not a number"))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn subscriptions_end_once_the_informer_has_stopped_and_all_is_told() {
    let server = Server::new();
    server.put("a", 1);
    let mut changes = beside(&server, InformerConfig::default(), async |informer| {
        let changes = informer.subscribe();
        informer.synced().await.unwrap();
        changes
    })
    .await;
    assert_eq!(next(&mut changes).await, "a created 1 initial");
    assert_eq!(changes.next().await, None);
    assert!(changes.informer().seen(&99_999.into()).await.is_err());
}

/// Applies what it is told and checks that each change fits what was told before.
#[derive(Default)]
struct Checker(BTreeMap<String, String>);

impl Checker {
    fn take(&mut self, changes: &mut Subscription) {
        while let Some(told) = changes.try_next() {
            let change = told.change;
            let name = change.key().unwrap().name;
            let seen = self.0.get(&name);
            let uid = |object: Option<&skopos_object::Object>| object.map(|object| object.uid().to_owned());
            assert_eq!(seen, uid(change.old.as_ref()).as_ref(), "{change:?}");
            match change.op {
                Op::Deleted => self.0.remove(&name),
                _ => self.0.insert(name, uid(change.new.as_ref()).unwrap()),
            };
        }
    }
}

#[expect(clippy::print_stdout, reason = "shown if it fails, to replay it")]
async fn run_seed(seed: u64) {
    println!("SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let server = Server::new();
    let mut config = InformerConfig::default();
    config.reflector.seed = Some(seed);
    if rng.bool() {
        config.compression = skopos_informer::Compression::Lz4;
    }
    server.with(|state| state.initial_events = rng.bool());
    beside(&server, config, async |informer| {
        let mut subscribers = vec![(informer.subscribe(), Checker::default())];
        for _ in 0..200 {
            let name = format!("thing-{}", rng.u8(0..30));
            match rng.u8(0..30) {
                0 => server.compact(),
                1 => server.cut(),
                2 => {
                    server.cut();
                    server.delete(&name);
                    server.compact();
                }
                3 => server.bookmark(),
                4 => subscribers.push((informer.subscribe(), Checker::default())),
                5 => server.with(|state| state.away = !state.away),
                6..12 => tokio::time::sleep(Duration::from_millis(rng.u64(1..5000))).await,
                12..17 => {
                    let (changes, checker) = rng.choice(&mut subscribers).unwrap();
                    checker.take(changes);
                }
                17..21 => {
                    server.delete(&name);
                }
                _ => {
                    server.put(&name, rng.u64(0..100));
                }
            }
        }
        server.with(|state| state.away = false);
        let last = server.put("last", 1);
        informer.seen(&last.into()).await.unwrap();
        let mut present = server.with(|state| state.objects.values().cloned().collect::<Vec<_>>());
        let mut copy = informer.store().list();
        present.sort_by(|a, b| a.name().cmp(b.name()));
        copy.sort_by(|a, b| a.name().cmp(b.name()));
        assert_eq!(copy, present, "SEED={seed}");
        for (changes, checker) in &mut subscribers {
            checker.take(changes);
            let uids: BTreeMap<_, _> = present
                .iter()
                .map(|object| (object.name().to_owned(), object.uid().to_owned()))
                .collect();
            assert_eq!(checker.0, uids, "SEED={seed}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_subscriber_sees_a_history_that_ends_in_the_present() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run_seed(seed).await;
    }
    let first = fastrand::u64(..u64::MAX / 2);
    for seed in first..first + 200 {
        run_seed(seed).await;
    }
}
