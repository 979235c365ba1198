//! The caches that a controller reads: those of what it listens to, and those that its reconciles asked for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skopos_informer::{Informer, Wanted};
use skopos_object::{Collection, Collections as _, Content, FieldOperator, FieldRequirement, GroupResource};
use tracing::warn;

use super::Shared;
use crate::Error;
use crate::records::{Place, State};

/// All of them, which go on as long as this. Bounded by what the code names.
#[derive(Debug, Default)]
pub(super) struct Caches {
    all: Mutex<Vec<Cache>>,
}

#[derive(Debug)]
struct Cache {
    wanted: Wanted,
    informer: Informer,
    /// What serves it, once that is known.
    collection: Option<GroupResource>,
    kept: Kept,
}

/// Why a cache is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The controller listens to it.
    Heard,
    /// A reconcile asked for it.
    Asked,
}

impl Caches {
    pub(super) fn keep(&self, wanted: &Wanted, informer: &Informer, kept: Kept) {
        /// More are hardly what somebody named: rather one for each object.
        const MANY: usize = 100;
        let mut all = self.lock();
        if all.iter().all(|cache| cache.informer.name() != informer.name()) {
            if all.len() == MANY {
                warn!(
                    n = MANY,
                    kind = informer.name(),
                    "many caches: ask for whole kinds, and find objects by an index"
                );
            }
            all.push(Cache {
                wanted: wanted.clone(),
                informer: informer.clone(),
                collection: None,
                kept,
            });
        }
    }

    /// Lets a cache go that a reconcile asked for and that was never complete: whoever takes over would wait for it.
    fn let_go(&self, informer: &Informer) {
        let is_vain = |cache: &Cache| {
            cache.informer.name() == informer.name()
                && cache.kept == Kept::Asked
                && cache.collection.is_none()
        };
        self.lock().retain(|cache| !is_vain(cache));
    }

    pub(super) fn set_collection(&self, informer: &Informer, collection: &GroupResource) {
        for cache in self.lock().iter_mut() {
            if cache.informer.name() == informer.name() {
                cache.collection = Some(collection.clone());
            }
        }
    }

    pub(super) fn all(&self) -> Vec<(Wanted, Informer)> {
        let pair = |cache: &Cache| (cache.wanted.clone(), cache.informer.clone());
        self.lock().iter().map(pair).collect()
    }

    /// Those of a collection, those with whole objects first.
    pub(super) fn of(&self, collection: &GroupResource) -> Vec<Informer> {
        let all = self.lock();
        let mut found: Vec<&Cache> = all
            .iter()
            .filter(|cache| cache.collection.as_ref() == Some(collection))
            .collect();
        found.sort_by_key(|cache| cache.wanted.name.content == Content::Metadata);
        found.into_iter().map(|cache| cache.informer.clone()).collect()
    }

    /// Those in which an object, or several, may show or have shown what was written to it.
    pub(super) fn that_show(&self, place: &Place, state: &State) -> Vec<Informer> {
        let all = self.lock();
        let of_collection = all
            .iter()
            .filter(|cache| cache.collection.as_ref() == Some(&place.collection));
        let that_show = of_collection.filter(|cache| cache.selects(place, state) || cache.has(place));
        that_show.map(|cache| cache.informer.clone()).collect()
    }

    /// The fields by which they select, the name aside.
    pub(super) fn field_paths(&self) -> Vec<String> {
        let all = self.lock();
        let requirements = all
            .iter()
            .flat_map(|cache| cache.wanted.selection.fields.requirements());
        let paths = requirements.map(|requirement| &requirement.path);
        let mut paths: Vec<String> = paths.filter(|path| *path != "metadata.name").cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    fn has_collection(&self, informer: &Informer) -> bool {
        let all = self.lock();
        let mut of_name = all
            .iter()
            .filter(|cache| cache.informer.name() == informer.name());
        of_name.any(|cache| cache.collection.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Cache>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Whether an object in this state is among what the cache is to show, as far as can be told. Its namespace aside.
    fn selects(&self, place: &Place, state: &State) -> bool {
        let selection = &self.wanted.selection;
        let has_labels = state
            .labels
            .as_ref()
            .is_none_or(|labels| selection.labels.matches_value(labels));
        let mut fields = selection.fields.requirements().iter();
        has_labels && fields.all(|requirement| may_meet(requirement, place, state))
    }

    fn has(&self, place: &Place) -> bool {
        self.informer.store().get_key(&place.key).is_some()
    }
}

/// Whether an object in this state meets a requirement, or may. The server may see a value where the answer has none.
fn may_meet(requirement: &FieldRequirement, place: &Place, state: &State) -> bool {
    let value = match requirement.path.as_str() {
        "metadata.name" => Some(&place.key.name).filter(|name| !name.is_empty()),
        path => state.fields.get(path),
    };
    let is_to_be = requirement.op == FieldOperator::Equals;
    value.is_none_or(|value| (*value == requirement.value) == is_to_be)
}

impl Shared {
    /// The informer of a kind, once it is complete. It goes on from now on, and is waited for like those of what the
    /// controller listens to. A kind that is not served, or may not be read, is an error.
    pub(crate) async fn cache(&self, wanted: Wanted) -> Result<Informer, Error> {
        const LOOK_AGAIN: Duration = Duration::from_millis(200);
        let informer = self.environment.informers.informer(wanted.clone());
        self.caches.keep(&wanted, &informer, Kept::Asked);
        while !informer.has_synced() {
            self.check_can_sync(&wanted, &informer).await?;
            if let Ok(synced) = tokio::time::timeout(LOOK_AGAIN, informer.synced()).await {
                synced?;
            }
        }
        if !self.caches.has_collection(&informer) {
            let found = self.find(&wanted).await?;
            let collection = GroupResource::new(found.kind.group.as_str(), found.plural.as_str());
            // Once more: somebody may have let it go while it was forbidden.
            self.caches.keep(&wanted, &informer, Kept::Asked);
            self.caches.set_collection(&informer, &collection);
        }
        Ok(informer)
    }

    /// The informer asks again by itself; whoever waited for it would take a worker with it.
    async fn check_can_sync(&self, wanted: &Wanted, informer: &Informer) -> Result<(), Error> {
        let report = informer.report();
        if let Some(why) = report.forbidden {
            self.caches.let_go(informer);
            let kind = wanted.name.to_string();
            return Err(Error::Forbidden { kind, why });
        }
        if report.not_served.is_some() {
            self.find(wanted).await?;
        }
        Ok(())
    }

    async fn find(&self, wanted: &Wanted) -> Result<Collection, Error> {
        let found = self.environment.discovery.open(&wanted.name).await;
        found.map_err(|source| Error::Kind {
            kind: wanted.name.to_string(),
            source,
        })
    }

    /// The caches of a collection, those with whole objects first.
    pub(crate) fn caches_of(&self, collection: &GroupResource) -> Vec<Informer> {
        self.caches.of(collection)
    }
}
