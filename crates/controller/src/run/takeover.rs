//! Taking over from another leader: its last writes must be in the caches before anything is done.
//!
//! A cache shows what a replica wrote itself before the next reconcile begins; of what others wrote it may be any time
//! behind. So a replica that begins to lead compares its caches with what the server has, once for each term.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use hashbrown::HashSet;
use skopos_informer::{Informer, Wanted};
use skopos_object::{
    CollectionName, Collections as _, Content, ListItem, ListRequest, ListWatchError, Malformed, Object,
    ObjectKey, OpenError, ResourceVersion,
};
use skopos_queue::{AddOptions, Priority};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Shared;
use crate::Failure;

/// Why the caches could not be compared.
#[derive(Debug, thiserror::Error)]
enum CompareError {
    #[error("cannot find the kind")]
    Open(#[from] OpenError),
    #[error("cannot list")]
    List(#[from] ListWatchError),
    #[error("the list was cut off")]
    CutOff,
}

impl Shared {
    /// Waits until the caches show all that was there when this replica began to lead. Once for each term, however
    /// many workers ask.
    pub(super) async fn take_over(&self, term: Option<u64>) {
        let Some(epoch) = term else {
            return;
        };
        let mut current = self.current.lock().await;
        if *current == Some(epoch) {
            return;
        }
        self.holdup.begin(epoch);
        for (wanted, informer) in self.caches.all() {
            self.catch_up(&wanted, &informer).await;
        }
        self.records.forget_applied();
        // Terms of all leaders are counted, so one that follows its own had nobody in between.
        if current.is_some_and(|last| epoch != last + 1) {
            self.look_at_all_again();
        }
        info!(epoch, "leads, with caches that are up to date");
        *current = Some(epoch);
        self.holdup.end();
    }

    /// Has every object reconciled: what the leader before meant to do later for one of them went with it.
    fn look_at_all_again(&self) {
        let options = AddOptions {
            priority: Priority::Low,
            after: None,
        };
        let mut keys: Vec<ObjectKey> = self
            .informer
            .store()
            .snapshot()
            .iter()
            .map(|it| it.key())
            .collect();
        // In an order of their own, so that a simulation can be replayed.
        keys.sort();
        for key in keys {
            self.queue.add_with(key, options);
        }
    }

    async fn catch_up(&self, wanted: &Wanted, informer: &Informer) {
        const PAUSE: Duration = Duration::from_secs(1);
        loop {
            match self.compare(wanted, informer).await {
                Ok(behind) => {
                    let kind = informer.name();
                    let why = format!("the cache of {kind} does not show yet what the server has");
                    self.holdup.set(why);
                    return behind.is_over(informer).await;
                }
                Err(error) => {
                    let (kind, error) = (informer.name(), Failure::from(error));
                    warn!(kind, %error, "cannot compare a cache with the server yet");
                    let why = format!("cannot compare the cache of {kind} with the server: {error}");
                    self.holdup.set(why);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What the server has and the cache does not show.
    async fn compare(&self, wanted: &Wanted, informer: &Informer) -> Result<Behind, CompareError> {
        // Taken before the list: what comes later is news, and not to be missed in the list.
        let cached = informer.store().snapshot();
        let mut behind = Behind::default();
        let mut listed = HashSet::new();
        for name in names(wanted) {
            let collection = match self.environment.discovery.open(&name).await {
                Err(OpenError::Missing(_)) => return Ok(behind),
                found => found?,
            };
            let mut request = ListRequest {
                labels: wanted.selection.labels.clone(),
                fields: wanted.selection.fields.clone(),
                limit: Some(500),
                ..ListRequest::default()
            };
            loop {
                let mut page = collection.source.list(request.clone()).await?;
                let end = loop {
                    match page.next().await.ok_or(CompareError::CutOff)?? {
                        ListItem::Object(object) => {
                            behind.note(&object, informer);
                            listed.insert(object.uid().to_owned());
                        }
                        ListItem::Malformed(object) => listed.extend(cached_uid(&object, informer)),
                        ListItem::End(end) => break end,
                    }
                };
                match end.continue_token {
                    Some(token) => request.continue_token = Some(token),
                    None => break,
                }
            }
        }
        let gone = cached.iter().filter(|object| !listed.contains(object.uid()));
        behind.gone = gone
            .map(|object| (object.key(), object.uid().to_owned()))
            .collect();
        Ok(behind)
    }
}

/// What keeps a replica that leads from its work.
#[derive(Debug, Default)]
pub(super) struct Holdup {
    state: Mutex<Option<Held>>,
}

#[derive(Debug)]
struct Held {
    /// The term that waits. One that is over may leave this behind.
    epoch: u64,
    since: Instant,
    why: String,
}

impl Holdup {
    fn begin(&self, epoch: u64) {
        *self.lock() = Some(Held {
            epoch,
            since: Instant::now(),
            why: "the caches are being compared with the server".to_owned(),
        });
    }

    fn set(&self, why: String) {
        if let Some(held) = &mut *self.lock() {
            held.why = why;
        }
    }

    fn end(&self) {
        *self.lock() = None;
    }

    /// Fails if the present term waits for longer than it takes to compare most caches.
    pub(super) fn check(&self, epoch: Option<u64>) -> Result<(), String> {
        const USUAL: Duration = Duration::from_secs(5);
        match &*self.lock() {
            Some(held) if epoch == Some(held.epoch) && held.since.elapsed() > USUAL => {
                Err(format!("leads and does nothing yet: {}", held.why))
            }
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By what a cache is behind.
#[derive(Debug, Default)]
struct Behind {
    /// The newest version of an object that it does not show, by namespace.
    newest: BTreeMap<String, ResourceVersion>,
    /// Objects that it shows although they are gone: to do something for them again would be as bad as to make
    /// something twice.
    gone: Vec<(ObjectKey, String)>,
}

impl Behind {
    /// Notes an object that the server has, if the cache does not show it.
    fn note(&mut self, object: &Object, informer: &Informer) {
        let version = object.resource_version();
        let seen = informer.store().get(object.namespace(), object.name());
        if seen.is_some_and(|seen| seen.resource_version() >= version) {
            return;
        }
        let newest = self.newest.entry(object.namespace().to_owned()).or_default();
        if *newest < version {
            *newest = version;
        }
    }

    /// Waits until the cache shows it all. One that has stopped shows nothing any more, and nobody works then.
    async fn is_over(&self, informer: &Informer) {
        for (namespace, version) in &self.newest {
            let _ = informer.seen_in(namespace, version).await;
        }
        for (key, uid) in &self.gone {
            let _ = informer.gone(key, uid).await;
        }
    }
}

/// What to list, without the objects' content.
fn names(wanted: &Wanted) -> Vec<CollectionName> {
    let whole = wanted.name.clone().with_content(Content::Metadata);
    if wanted.namespaces.is_empty() {
        return vec![whole];
    }
    let within = |namespace: &String| whole.clone().within(namespace.as_str());
    wanted.namespaces.iter().map(within).collect()
}

/// An object that cannot be read is there all the same, as the cache knew it.
fn cached_uid(object: &Malformed, informer: &Informer) -> Option<String> {
    let cached = informer.store().get_key(object.key.as_ref()?)?;
    Some(cached.uid().to_owned())
}
