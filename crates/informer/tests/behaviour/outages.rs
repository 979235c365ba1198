//! Servers that are away, stalled, or very large.

use std::time::Duration;

use serde_json::json;
use skopos_informer::InformerConfig;
use skopos_object::{ListWatchError, Object};

use crate::informing::{beside, next};
use crate::server::{Fault, Server};

#[tokio::test(start_paused = true)]
async fn server_away_for_ten_minutes_makes_no_storm_and_no_relist() {
    let server = Server::new();
    server.put("a", 1);
    beside(&server, InformerConfig::default(), async |informer| {
        let mut changes = informer.subscribe();
        next(&mut changes).await;
        server.with(|state| state.away = true);
        server.cut();
        let n_before = server.with(|state| state.n_requests);
        tokio::time::sleep(Duration::from_secs(600)).await;
        let n_asked = server.with(|state| state.n_requests) - n_before;
        assert!((15..50).contains(&n_asked), "{n_asked}");
        let report = informer.report();
        assert!(report.staleness > Duration::from_secs(590) && report.watch_age.is_none());
        assert_eq!((report.objects, changes.lag().keys), (1, 0), "nothing grows");
        server.put("a", 2);
        server.with(|state| state.away = false);
        assert_eq!(next(&mut changes).await, "a updated 1 2");
        assert_eq!(informer.report().lists.values().sum::<u64>(), 1, "the first");
        assert_eq!(informer.report().staleness, Duration::ZERO);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn stalled_watch_is_replaced_within_about_70_s() {
    let server = Server::new();
    server.with(|state| state.initial_events = false);
    let refusal = Fault::Refuse(ListWatchError::Unsupported("initial events"));
    server.with(|state| state.watch_faults.extend([refusal, Fault::Stall]));
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let version = server.put("a", 1);
        let start = tokio::time::Instant::now();
        informer.seen(&version.into()).await.unwrap();
        assert!((60..75).contains(&start.elapsed().as_secs()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_megabyte_are_kept_as_they_are() {
    let server = Server::new();
    for n in 0..20 {
        let text = "x".repeat(1 << 20);
        let name = format!("large-{n}");
        let object = json!({
            "kind": "Thing",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": (11 + n).to_string()},
            "data": text,
        });
        server.with(|state| {
            state.revision = 11 + n;
            state.objects.insert(name, Object::from_value(&object).unwrap())
        });
    }
    beside(&server, InformerConfig::default(), async |informer| {
        informer.synced().await.unwrap();
        let size = informer.store().size();
        assert!((20 << 20..21 << 20).contains(&size), "{size}");
    })
    .await;
}
