//! How reports become the content of the store and the changes of subscribers.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use skopos_object::{Malformed, Object, ObjectKey, Op, ResourceVersion};
use tokio::time::Instant;

use super::{Origin, Shared, subscription::Subscriber};
use crate::{
    ListReason, Report, event,
    store::{Body, Changes, Content, Delta, Entry, Staging},
};

/// What only the one who writes needs.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) parts: Vec<Part>,
    pub(super) subscribers: Vec<Arc<Subscriber>>,
    pub(super) quarantine: Quarantine,
    pub(super) lists: BTreeMap<&'static str, u64>,
    pub(super) n_troubles: u64,
    pub(super) closed: bool,
    pub(super) not_served: Option<String>,
}

/// One source of the collection: a namespace, or all there is.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) synced: bool,
    staging: Option<Staging>,
    /// Since when its watch is open.
    pub(super) watching: Option<Instant>,
    /// When something was last heard.
    pub(super) heard: Option<Instant>,
    /// When it ceased to be followed.
    pub(super) lost: Option<Instant>,
    /// Why it may not be followed, if that was the last trouble.
    pub(super) forbidden: Option<String>,
    pub(super) n_events: u64,
}

/// An object that cannot be read, set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its version, as far as known.
    pub resource_version: ResourceVersion,
    /// What is wrong with it.
    pub reason: String,
}

/// The objects set aside. Only so many are kept by name; all are counted.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    pub(super) kept: BTreeMap<ObjectKey, Quarantined>,
    pub(super) total: u64,
}

/// So many objects that cannot be read are remembered by name.
const KEPT: usize = 100;

impl Quarantine {
    fn add(&mut self, malformed: Malformed) {
        self.total += 1;
        let Some(key) = malformed.key else {
            return;
        };
        if self.kept.len() < KEPT || self.kept.contains_key(&key) {
            let entry = Quarantined {
                resource_version: malformed.resource_version,
                reason: malformed.reason,
            };
            self.kept.insert(key, entry);
        }
    }

    /// The object can be read again, or is gone.
    fn release(&mut self, object: &Object) {
        if !self.kept.is_empty() {
            self.kept.remove(&object.key());
        }
    }
}

impl Shared {
    /// Takes what a part's reflector reports, then makes known how far that part is.
    pub(super) fn take(&self, part: u16, mut reports: Vec<Report>, position: &ResourceVersion) {
        self.transform(&mut reports);
        let mut writer = self.writer();
        let first = !writer.parts[usize::from(part)].synced;
        let mut changes = Changes {
            appeared: None,
            deltas: Vec::with_capacity(reports.len()),
        };
        let now = Instant::now();
        {
            let mut content = self.store.write();
            for report in reports {
                writer.take(&self.name, part, now, report, &mut content, &mut changes);
            }
        }
        let origin = if first { Origin::Initial } else { Origin::Live };
        writer.deliver(&changes, origin);
        let synced = writer.parts.iter().all(|part| part.synced);
        if synced && first {
            for subscriber in &writer.subscribers {
                subscriber.informer_synced();
            }
        }
        self.publish(part, position, synced);
    }

    /// Forgets a part, because what it followed is no more.
    pub(crate) fn purge(&self) {
        let mut writer = self.writer();
        let mut changes = Changes::default();
        {
            let mut content = self.store.write();
            for part in 0..writer.parts.len() {
                content.purge(part as u16, &mut changes.deltas);
            }
        }
        writer.quarantine.kept.clear();
        event::Purged {
            informer: &self.name,
            objects: changes.deltas.len(),
        }
        .emit();
        writer.deliver(&changes, Origin::Live);
        self.publish_round();
    }

    /// Tells every subscriber of every object once more.
    pub(super) fn resync(&self) {
        let writer = self.writer();
        let (hasher, objects) = {
            let content = self.store.read();
            (content.table.hasher().clone(), content.table.snapshot())
        };
        let again = |entry: &Entry| {
            let hash = hasher.key_of(&entry.body.unpacked()).hash;
            Delta::repeated(hash, entry.body.clone())
        };
        let changes = Changes {
            appeared: None,
            deltas: objects.entries().map(again).collect(),
        };
        writer.deliver(&changes, Origin::Resync);
    }

    /// Runs the transform, once per object, before anything else sees it. Not on what is gone.
    fn transform(&self, reports: &mut [Report]) {
        let Some(transform) = &self.config.transform else {
            return;
        };
        for report in reports {
            let (Report::Listed(object) | Report::Applied(object)) = report else {
                continue;
            };
            let (op, given) = (Op::Updated, object.clone());
            match catch_unwind(AssertUnwindSafe(|| transform.apply(given))) {
                Ok(changed) => *object = changed,
                Err(_) => {
                    let object = Malformed {
                        key: Some(object.key()),
                        resource_version: object.resource_version(),
                        text: object.bytes().clone(),
                        reason: "the transform panicked".to_owned(),
                    };
                    *report = Report::Malformed { op, object };
                }
            }
        }
    }
}

impl Writer {
    fn deliver(&self, changes: &Changes, origin: Origin) {
        if changes.is_empty() {
            return;
        }
        for subscriber in &self.subscribers {
            subscriber.deliver(changes, origin);
        }
    }

    fn take(
        &mut self,
        informer: &str,
        part: u16,
        now: Instant,
        report: Report,
        content: &mut Content,
        changes: &mut Changes,
    ) {
        let deltas = &mut changes.deltas;
        let state = &mut self.parts[usize::from(part)];
        match report {
            Report::Replace { reason } => {
                self.listing(informer, part, reason, content);
            }
            Report::Listed(object) => {
                self.quarantine.release(&object);
                if let Some(staging) = &mut state.staging {
                    staging.add(object, &content.table);
                }
            }
            Report::Unlisted(object) => {
                if let Some(staging) = &mut state.staging {
                    staging.remove(&object.key(), &content.table);
                }
            }
            Report::Replaced { version } => {
                state.heard = Some(now);
                state.synced = true;
                state.lost = None;
                state.forbidden = None;
                if let Some(staging) = state.staging.take() {
                    content.replace(staging, changes);
                }
                let objects = content.table.len();
                event::Listed {
                    informer,
                    objects,
                    version: &version,
                }
                .emit();
            }
            Report::Applied(object) => {
                state.hear_event(now);
                self.quarantine.release(&object);
                content.apply(part, object, deltas);
            }
            Report::Deleted(object) => {
                state.hear_event(now);
                self.deleted(object, content, deltas);
            }
            Report::Malformed { op, object } => {
                state.heard = Some(now);
                self.malformed(informer, part, op, object, content, deltas);
            }
            Report::Bookmark(_) => state.heard = Some(now),
            Report::Watching => {
                state.watching = Some(now);
                state.lost = None;
                state.forbidden = None;
            }
            Report::Trouble { error, retry_in } => {
                state.watching = None;
                state.lost.get_or_insert(now);
                state.forbidden = error.forbidden().map(ToString::to_string);
                self.n_troubles += 1;
                event::Trouble {
                    informer,
                    error: &error,
                    retry_in,
                }
                .emit();
            }
            Report::Resumed => event::Resumed { informer }.emit(),
        }
    }

    fn listing(&mut self, informer: &str, part: u16, reason: ListReason, content: &Content) {
        let state = &mut self.parts[usize::from(part)];
        let staging = match reason {
            ListReason::OtherHistory => Staging::of_other_history(part, &content.table),
            _ => Staging::new(part, &content.table),
        };
        state.staging = Some(staging);
        state.watching = None;
        *self.lists.entry(reason.as_str()).or_default() += 1;
        event::Listing { informer, reason }.emit();
    }

    fn deleted(&mut self, last: Object, content: &mut Content, deltas: &mut Vec<Delta>) {
        let n_before = deltas.len();
        let was_unread =
            !self.quarantine.kept.is_empty() && self.quarantine.kept.remove(&last.key()).is_some();
        if was_unread {
            // What the store has of it, if anything, is older than what could not be read.
            content.delete(last.clone(), deltas);
            if deltas.len() == n_before {
                let hash = content.table.hasher().key_of(&last).hash;
                deltas.push(Delta::deleted(hash, Body::plain(last), true));
            }
        } else {
            content.delete(last, deltas);
        }
    }

    fn malformed(
        &mut self,
        informer: &str,
        part: u16,
        op: Op,
        object: Malformed,
        content: &mut Content,
        deltas: &mut Vec<Delta>,
    ) {
        let state = &mut self.parts[usize::from(part)];
        event::Malformed {
            informer,
            object: &object,
        }
        .emit();
        match (&object.key, &mut state.staging, op) {
            (Some(key), Some(staging), Op::Deleted) => staging.remove(key, &content.table),
            (Some(key), Some(staging), _) => staging.keep(key, &content.table),
            (Some(key), None, Op::Deleted) => {
                content.delete_unread(key, deltas);
                self.quarantine.kept.remove(key);
                self.quarantine.total += 1;
                return;
            }
            _ => {}
        }
        self.quarantine.add(object);
    }
}

impl Part {
    fn hear_event(&mut self, now: Instant) {
        self.n_events += 1;
        self.heard = Some(now);
    }
}
