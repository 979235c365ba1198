//! Informers on a source that behaves.

use std::time::Duration;

use skopos_informer::{Compression, Index, Informer, InformerConfig, Origin, Subscription};
use skopos_object::{Change, LabelSelector, ObjectKey, Op};
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// Runs `test` beside an informer on `server`.
pub(crate) async fn beside<T>(
    server: &Server,
    config: InformerConfig,
    test: impl AsyncFnOnce(Informer) -> T,
) -> T {
    let informer = Informer::new("things", config);
    let shutdown = CancellationToken::new();
    let run = informer.run(server.source(), shutdown.clone());
    let test = async {
        let result = tokio::time::timeout(Duration::from_secs(7200), test(informer.clone())).await;
        shutdown.cancel();
        result.expect("in time")
    };
    tokio::join!(run, test).1
}

pub(crate) async fn next(changes: &mut Subscription) -> String {
    let told = changes.next().await.expect("not stopped");
    format!(
        "{}{}",
        describe(&told.change),
        if told.origin == Origin::Initial {
            " initial"
        } else {
            ""
        }
    )
}

pub(crate) fn describe(change: &Change) -> String {
    let name = change.key().unwrap().name;
    let n = |object: &Option<skopos_object::Object>| object.as_ref().map(|o| o.get(&["spec", "n"]).unwrap());
    match (change.op, n(&change.old), n(&change.new)) {
        (Op::Created, None, Some(n)) => format!("{name} created {n}"),
        (Op::Updated, Some(o), Some(n)) => format!("{name} updated {o} {n}"),
        (Op::Deleted, Some(o), None) if change.is_final => format!("{name} deleted {o}"),
        (Op::Deleted, Some(o), None) => format!("{name} missing {o}"),
        odd => panic!("{odd:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn tells_what_is_there_then_what_happens() {
    let server = Server::new();
    server.put("a", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        let mut changes = informer.subscribe();
        assert_eq!(next(&mut changes).await, "a created 1 initial");
        server.put("a", 2);
        assert_eq!(next(&mut changes).await, "a updated 1 2");
        server.delete("a");
        assert_eq!(next(&mut changes).await, "a deleted 2");
        assert!(informer.store().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn finds_by_key_selector_and_index_also_when_compressed() {
    for compression in [Compression::None, Compression::Lz4] {
        let server = Server::new();
        for n in 0..500 {
            server.put(&format!("thing-{n}"), n);
        }
        let config = InformerConfig {
            compression,
            ..InformerConfig::default()
        };
        beside(&server, config, async |informer| {
            let by_parity = informer.store().add_index(Index::label("parity"));
            informer.synced().await.unwrap();
            let by_namespace = informer.store().add_index(Index::namespace());
            let version = server.put("thing-1", 100);
            informer.seen(&version.into()).await.unwrap();
            let store = informer.store();
            assert_eq!(by_parity.get("even").len(), 251);
            assert_eq!(by_namespace.values(), [("shop".to_owned(), 500)]);
            assert_eq!(
                store.get("shop", "thing-7").unwrap().get(&["spec", "n"]),
                Some(7.into())
            );
            let odd: LabelSelector = "parity=odd".parse().unwrap();
            assert_eq!(store.select(&odd).len(), 249);
            assert_eq!(store.snapshot().len(), 500);
            let key = ObjectKey::namespaced("shop", "thing-7");
            let uid = store.get_key(&key).unwrap().uid().to_owned();
            server.delete("thing-7");
            informer.gone(&key, &uid).await.unwrap();
        })
        .await;
    }
}
