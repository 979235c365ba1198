//! Events live for an hour, and the store's history for as long as its limits say.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use skopos_object::raw_path;
use skopos_store::{Entry, Expect, Range};
use tokio_util::sync::CancellationToken;

use crate::state::Shared;
use crate::versions;

/// How often old things are looked for.
const PERIOD: Duration = Duration::from_secs(20);

/// Runs until told to stop.
pub(crate) async fn expire(shared: Arc<Shared>, stop: CancellationToken) {
    let started = tokio::time::Instant::now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        shared.store.maintain(started.elapsed());
        remove_old_events(&shared, Timestamp::now()).await;
    }
}

pub(super) async fn remove_old_events(shared: &Shared, now: Timestamp) {
    let Some(resource) = shared.built_in("", "events") else {
        return;
    };
    let Ok(page) = shared.store.list(&resource.space, &Range::default()) else {
        return;
    };
    let ttl = SignedDuration::try_from(shared.settings.event_ttl).unwrap_or(SignedDuration::from_hours(1));
    for entry in page.items.iter().filter(|entry| is_older(entry, now, ttl)) {
        let Ok(last) = versions::parse(entry) else {
            continue;
        };
        // Somebody who has just updated the event keeps it alive.
        let _ = shared
            .remove(resource, &entry.key, Expect::At(entry.modified), &last)
            .await;
    }
}

/// An event counts from its last sighting.
fn is_older(entry: &Entry, now: Timestamp, ttl: SignedDuration) -> bool {
    let times = [
        &["lastTimestamp"][..],
        &["eventTime"],
        &["metadata", "creationTimestamp"],
    ];
    let newest = times
        .into_iter()
        .filter_map(|path| {
            serde_json::from_slice::<String>(raw_path(&entry.value, path)?)
                .ok()?
                .parse()
                .ok()
        })
        .max();
    newest.is_some_and(|time: Timestamp| now.duration_since(time) > ttl)
}
