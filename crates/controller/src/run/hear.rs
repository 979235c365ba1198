//! Hearing of changes: which keys they concern, and how soon.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use skopos_informer::{Informer, Notification, Origin, Subscription};
use skopos_object::{Change, Collection, Collections as _, GroupResource, Object, ObjectKey, Op};
use skopos_queue::{AddOptions, Priority};
use tokio::time::Instant;
use tracing::{Span, debug, error, info_span};

use super::Shared;
use crate::source::{Concerns, Primary, Source, Trouble};

/// What led to a reconcile.
#[derive(Debug)]
pub(super) struct Cause {
    /// When the first change since the last reconcile was heard of.
    pub(super) since: Instant,
    /// The last change, for traces.
    pub(super) span: Span,
    /// A reconcile has seen it, and did not succeed.
    pub(super) is_seen: bool,
}

/// The changes that no reconcile has seen yet. Bounded by the number of keys.
#[derive(Debug, Default)]
pub(super) struct Heard {
    by_key: Mutex<HashMap<ObjectKey, Cause>>,
}

impl Heard {
    fn note(&self, key: &ObjectKey, span: Span) {
        let mut by_key = self.lock();
        match by_key.get_mut(key) {
            Some(cause) if !cause.is_seen => cause.span = span,
            _ => {
                let cause = Cause {
                    since: Instant::now(),
                    span,
                    is_seen: false,
                };
                by_key.insert(key.clone(), cause);
            }
        }
    }

    pub(super) fn take(&self, key: &ObjectKey) -> Option<Cause> {
        self.lock().remove(key)
    }

    /// For the next attempt; what was heard of in the meantime counts for more.
    pub(super) fn put_back(&self, key: &ObjectKey, cause: Cause) {
        let cause = Cause {
            is_seen: true,
            ..cause
        };
        self.lock().entry(key.clone()).or_insert(cause);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Cause>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Puts the keys that changes concern into the queue, until the informer stops.
    pub(super) async fn hear(self: Arc<Self>, source: Source, mut subscription: Subscription) {
        let found = self.found(&source, subscription.informer()).await;
        let collection = GroupResource::new(found.kind.group.as_str(), found.plural.as_str());
        self.caches.set_collection(subscription.informer(), &collection);
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
        let is_itself = matches!(source.concerns, Concerns::Itself);
        let mut troubles = Vec::new();
        let counts = told.origin == Origin::Resync
            // Whatever the predicate looks at: the object waits for its finalizer to be removed.
            || (is_itself && begins_to_go(change))
            || source.counts(change, &mut troubles);
        let keys = match counts {
            true => source.keys(change, primary, &mut troubles),
            false => Vec::new(),
        };
        for trouble in troubles {
            self.tell_of(change, trouble);
        }
        if is_itself && self.controller.gone.is_some() {
            self.follow_departures(change, &keys);
        }
        for key in keys {
            self.add(key, told, is_itself);
        }
    }

    /// Notes an object that went before its key is in the queue, if that counts; and that one is there, if it does not.
    fn follow_departures(&self, change: &Change, counting: &[ObjectKey]) {
        if let Some(object) = &change.new {
            return self.departed.forget(&object.key());
        }
        for key in counting {
            self.departed.note(key);
        }
    }

    fn add(&self, key: ObjectKey, told: &Notification, is_itself: bool) {
        let is_live = told.origin == Origin::Live;
        // To the leader. In standby it is work that another does, and comes after what happens once this one leads.
        let is_news = is_live && self.environment.fence.is_open();
        if is_news {
            self.heard.note(&key, self.change_span(told));
        }
        if is_live && is_itself && told.change.op == Op::Created {
            // It may be another object than the last one of that name: what that one suffered is over.
            self.queue.forget(&key);
        }
        let priority = if is_news { Priority::High } else { Priority::Low };
        self.queue.add_with(
            key,
            AddOptions {
                priority,
                after: None,
            },
        );
    }

    /// To look at the same change again would lead to the same; the object's next one is a new chance.
    fn tell_of(&self, change: &Change, trouble: Trouble) {
        let object = change.object().map(|object| object.key().to_string());
        let kind = change.object().map(|object| object.kind().to_string());
        match trouble {
            Trouble::Predicate(panic) => {
                self.metrics.hearing_panics.inc();
                error!(object, kind, panic, "the predicate panicked; the change counts");
            }
            Trouble::Map(panic) => {
                self.metrics.hearing_panics.inc();
                error!(
                    object,
                    kind, panic, "the map to those concerned panicked; nobody is reconciled for this state"
                );
            }
            Trouble::Unfit(error) => {
                self.metrics.hearing_errors.inc();
                error!(
                    object,
                    kind, error, "cannot tell who is concerned; nobody is reconciled for this state"
                );
            }
        }
    }

    fn change_span(&self, told: &Notification) -> Span {
        let Some(object) = told.change.object() else {
            return Span::none();
        };
        info_span!(
            parent: None,
            "change",
            controller = self.controller.name,
            op = ?told.change.op,
            kind = object.kind(),
            object = %object.key(),
            version = object.resource_version().as_str(),
        )
    }
}

/// Whether an object is being deleted, and was not before as far as known.
fn begins_to_go(change: &Change) -> bool {
    let is_deleting = |object: &Option<Object>| object.as_ref().is_some_and(Object::is_deleting);
    is_deleting(&change.new) && !is_deleting(&change.old)
}
