//! Hearing of changes: which keys they concern, and how soon.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use skopos_informer::{Informer, Notification, Origin, Subscription};
use skopos_object::{Collection, Collections as _, GroupResource, ObjectKey, Op};
use skopos_queue::{AddOptions, Priority};
use tokio::time::Instant;
use tracing::{Span, debug, info_span};

use super::Shared;
use crate::source::{Concerns, Primary, Source};

/// What led to a reconcile.
#[derive(Debug)]
pub(super) struct Cause {
    /// When the first change since the last reconcile was heard of.
    pub(super) since: Instant,
    /// The last change, for traces.
    pub(super) span: Span,
}

/// The changes that no reconcile has seen yet. Bounded by the number of keys.
#[derive(Debug, Default)]
pub(super) struct Heard {
    by_key: Mutex<HashMap<ObjectKey, Cause>>,
}

impl Heard {
    fn note(&self, key: &ObjectKey, span: Span) {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        match by_key.get_mut(key) {
            Some(cause) => cause.span = span,
            None => {
                let since = Instant::now();
                by_key.insert(key.clone(), Cause { since, span });
            }
        }
    }

    pub(super) fn take(&self, key: &ObjectKey) -> Option<Cause> {
        self.by_key
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key)
    }
}

impl Shared {
    /// Puts the keys that changes concern into the queue, until the informer stops.
    pub(super) async fn hear(self: Arc<Self>, source: Source, mut subscription: Subscription) {
        let found = self.found(&source, subscription.informer()).await;
        let collection = GroupResource::new(found.kind.group.as_str(), found.plural.as_str());
        self.listened_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(collection, subscription.informer().clone());
        if matches!(source.concerns, Concerns::Itself) {
            let primary = Primary {
                kind: found.kind,
                namespaced: found.namespaced,
            };
            // Set once, by the only source of this sort.
            let _ = self.primary.set(primary);
        }
        let primary = self.primary.wait().await.clone();
        while let Some(told) = subscription.next().await {
            self.take_in(&source, &primary, &told);
        }
    }

    /// What serves a source, once something does.
    async fn found(&self, source: &Source, informer: &Informer) -> Collection {
        const RETRY: Duration = Duration::from_secs(1);
        loop {
            // If it has stopped, so will this task.
            let _ = informer.synced().await;
            match self.environment.discovery.open(&source.wanted.name).await {
                Ok(found) => return found,
                Err(error) => debug!(%error, "a kind that was served is not"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn take_in(&self, source: &Source, primary: &Primary, told: &Notification) {
        let change = &told.change;
        if told.origin != Origin::Resync && !source.predicate.counts(change) {
            return;
        }
        let is_news = told.origin == Origin::Live;
        let priority = if is_news { Priority::High } else { Priority::Low };
        let is_itself = matches!(source.concerns, Concerns::Itself);
        for key in source.keys(change, primary) {
            if is_news {
                self.heard.note(&key, self.change_span(told));
            }
            if is_news && is_itself && change.op == Op::Created {
                // It may be another object than the last one of that name: what that one suffered is over.
                self.queue.forget(&key);
            }
            self.queue.add_with(
                key,
                AddOptions {
                    priority,
                    after: None,
                },
            );
        }
    }

    fn change_span(&self, told: &Notification) -> Span {
        let Some(object) = told.change.object() else {
            return Span::none();
        };
        info_span!(
            "change",
            op = ?told.change.op,
            kind = object.kind(),
            object = %object.key(),
            version = object.resource_version().as_str(),
        )
    }
}
