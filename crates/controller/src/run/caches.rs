//! The caches that a controller reads: those of what it listens to, and those that its reconciles asked for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skopos_informer::{Informer, Wanted};
use skopos_object::{Collection, Collections as _, Content, GroupResource};

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
}

impl Caches {
    pub(super) fn keep(&self, wanted: &Wanted, informer: &Informer) {
        let mut all = self.lock();
        if all.iter().all(|cache| cache.informer.name() != informer.name()) {
            all.push(Cache {
                wanted: wanted.clone(),
                informer: informer.clone(),
                collection: None,
            });
        }
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
        let name = selection.fields.exact("metadata.name");
        let has_name = name.is_none_or(|name| place.key.name.is_empty() || name == place.key.name);
        has_labels && has_name
    }

    fn has(&self, place: &Place) -> bool {
        self.informer.store().get_key(&place.key).is_some()
    }
}

impl Shared {
    /// The informer of a kind, once it is complete. It goes on from now on, and is waited for like those of what the
    /// controller listens to. A kind that is not served is an error.
    pub(crate) async fn cache(&self, wanted: Wanted) -> Result<Informer, Error> {
        const LOOK_AGAIN: Duration = Duration::from_millis(200);
        let informer = self.environment.informers.informer(wanted.clone());
        self.caches.keep(&wanted, &informer);
        loop {
            match tokio::time::timeout(LOOK_AGAIN, informer.synced()).await {
                Ok(synced) => break synced?,
                // The informer asks again by itself; whoever waits for it would take a worker with it.
                Err(_) if informer.report().not_served.is_some() => _ = self.find(&wanted).await?,
                Err(_) => {}
            }
        }
        if !self.caches.has_collection(&informer) {
            let found = self.find(&wanted).await?;
            let collection = GroupResource::new(found.kind.group.as_str(), found.plural.as_str());
            self.caches.set_collection(&informer, &collection);
        }
        Ok(informer)
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
