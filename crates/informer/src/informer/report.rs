//! What can be seen of an informer.

use std::{collections::BTreeMap, time::Duration};

use skopos_object::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::{Informer, Lag, Quarantined, writer::Part};

/// The state of an informer at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerReport {
    /// Its name.
    pub informer: String,
    /// Whether the first list is complete.
    pub synced: bool,
    /// Why there is nothing to follow, for example because no such kind exists now.
    pub not_served: Option<String>,
    /// Why it may not be listed or watched, if that is so now: somebody has to give the right.
    pub forbidden: Option<String>,
    /// Up to where everything is known.
    pub version: ResourceVersion,
    /// How many objects the copy has.
    pub objects: usize,
    /// How much memory they take, nearly.
    pub bytes: usize,
    /// How many changes were heard of in watches.
    pub events: u64,
    /// How many lists were begun, by reason.
    pub lists: BTreeMap<&'static str, u64>,
    /// How many failures there were.
    pub troubles: u64,
    /// How long the watch is open; nothing if it is not. Of several parts, the youngest.
    pub watch_age: Option<Duration>,
    /// How long ago something was last heard, bookmarks included; nothing before the first list.
    pub last_event_age: Option<Duration>,
    /// How long the copy has not been in step: since its watch failed, or since it has been listing.
    /// Zero while the watch is open. Of several parts, the worst.
    pub staleness: Duration,
    /// How many objects could not be read since the start.
    pub quarantined_total: u64,
    /// The objects that cannot be read now; at most 100.
    pub quarantined: BTreeMap<ObjectKey, Quarantined>,
    /// How often an index function panicked.
    pub index_panics: u64,
    /// How far each subscriber is behind.
    pub subscribers: Vec<Lag>,
}

impl Informer {
    /// What can be seen of it now.
    pub fn report(&self) -> InformerReport {
        let store = self.store();
        let writer = self.shared.writer();
        let parts = &writer.parts;
        let watches: Option<Vec<_>> = parts.iter().map(|part| part.watching).collect();
        InformerReport {
            informer: self.name().to_owned(),
            synced: self.has_synced(),
            not_served: writer.not_served.clone(),
            forbidden: parts.iter().find_map(|part| part.forbidden.clone()),
            version: self.version(),
            objects: store.len(),
            bytes: store.size(),
            events: parts.iter().map(|part| part.n_events).sum(),
            lists: writer.lists.clone(),
            troubles: writer.n_troubles,
            watch_age: watches.and_then(|watches| watches.iter().max().map(Instant::elapsed)),
            last_event_age: parts
                .iter()
                .filter_map(|part| part.heard)
                .max()
                .map(|heard| heard.elapsed()),
            staleness: parts.iter().map(Part::staleness).max().unwrap_or_default(),
            quarantined_total: writer.quarantine.total,
            quarantined: writer.quarantine.kept.clone(),
            index_panics: store.index_panics(),
            subscribers: writer
                .subscribers
                .iter()
                .map(|subscriber| subscriber.lag())
                .collect(),
        }
    }
}

impl Part {
    fn staleness(&self) -> Duration {
        match (self.watching, self.lost, self.heard) {
            (Some(_), _, _) | (None, None, None) => Duration::ZERO,
            (None, lost, heard) => lost.or(heard).map_or(Duration::ZERO, |since| since.elapsed()),
        }
    }
}
