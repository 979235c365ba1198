//! Many informers, shared by name, which come and go with their users and with what is served.

mod follow;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use skopos_object::{Change, CollectionName, Collections, Content, ObjectKey};
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::error;

use self::follow::Follower;
use crate::{Informer, InformerConfig, InformerReport, Notification, Origin, Selection, Subscription};

/// Informers by the name of what they follow: whoever asks for the same gets the same one.
///
/// An informer starts when it is first asked for, and stops some time after its last handle (or subscription)
/// is dropped. Its kind need not exist: it is followed once it does, forgotten when it goes, and followed
/// anew when it comes again or changes its version. Cloning gives another handle to the same informers.
///
/// ```
/// # async fn example(server: std::sync::Arc<dyn skopos_object::Collections>) {
/// use skopos_informer::{Informers, InformersConfig};
/// use skopos_object::CollectionName;
/// use tokio_util::sync::CancellationToken;
///
/// let informers = Informers::new(server, InformersConfig::default());
/// let shutdown = CancellationToken::new();
/// let running = tokio::spawn(informers.clone().run(shutdown.clone()));
///
/// let apps = informers.informer(CollectionName::new("skopos.dev", "applications"));
/// let mut changes = apps.subscribe();
/// while let Some(told) = changes.next().await {
///     println!("{:?} {:?}", told.change.op, told.change.key());
/// }
/// shutdown.cancel();
/// running.await.unwrap();
/// # }
/// ```
#[derive(Clone)]
pub struct Informers {
    shared: Arc<Shared>,
}

/// How [`Informers`] behave.
#[derive(Clone, Debug)]
pub struct InformersConfig {
    /// How each informer behaves, except for its selection.
    pub informer: InformerConfig,
    /// How long an informer that no one uses goes on (default 30 s); for ever with [`Duration::MAX`].
    pub grace: Duration,
    /// How long to wait at first before asking again for what is not served (default 1 s), then twice as
    /// long each time up to a minute.
    pub retry: Duration,
    /// Whether to follow definitions of custom resources, so as to be told when kinds come, change and go
    /// (default: yes). Without, they are asked for from time to time.
    pub definitions: bool,
}

impl Default for InformersConfig {
    fn default() -> Self {
        Self {
            informer: InformerConfig::default(),
            grace: Duration::from_secs(30),
            retry: Duration::from_secs(1),
            definitions: true,
        }
    }
}

/// What an informer is to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The collection.
    pub name: CollectionName,
    /// These namespaces, as one; none means what `name` says.
    pub namespaces: Vec<String>,
    /// Which of its objects.
    pub selection: Selection,
}

impl From<CollectionName> for Wanted {
    fn from(name: CollectionName) -> Self {
        Self {
            name,
            namespaces: Vec::new(),
            selection: Selection::default(),
        }
    }
}

impl From<&str> for Wanted {
    /// Reads `plural.group`, such as `deployments.apps`, or `plural` for the core group.
    fn from(text: &str) -> Self {
        CollectionName::from(text).into()
    }
}

impl Wanted {
    /// The names to open: one for each namespace.
    fn names(&self) -> Vec<CollectionName> {
        if self.namespaces.is_empty() {
            return vec![self.name.clone()];
        }
        let within = |namespace: &String| self.name.clone().within(namespace.as_str());
        self.namespaces.iter().map(within).collect()
    }

    /// The same for those who want the same.
    fn id(&self) -> String {
        let mut namespaces = self.namespaces.clone();
        namespaces.sort();
        let mut id = self.name.to_string();
        if !namespaces.is_empty() {
            id += &format!(" in {}", namespaces.join(","));
        }
        for selector in [
            self.selection.labels.to_string(),
            self.selection.fields.to_string(),
        ] {
            if !selector.is_empty() {
                id += &format!(" where {selector}");
            }
        }
        match self.name.content {
            Content::Full(_) if self.name.content == Content::default() => id,
            Content::Full(_) => id + " with managed fields",
            Content::Metadata => id + " metadata",
        }
    }
}

struct Shared {
    collections: Arc<dyn Collections>,
    config: InformersConfig,
    /// No other lock is taken under it.
    slots: Mutex<BTreeMap<String, Slot>>,
    /// Something about the slots changed.
    changed: Notify,
}

/// One informer, as the pool knows it.
struct Slot {
    informer: Informer,
    wanted: Wanted,
    lease: Weak<Lease>,
    unused_since: Option<Instant>,
    started: bool,
    stop: CancellationToken,
    nudge: Arc<Notify>,
}

/// Keeps an informer running. The handles to it share one.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Weak<Shared>,
    id: String,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        if let Some(slot) = pool.slots().get_mut(&self.id)
            && slot.lease.strong_count() == 0
        {
            slot.unused_since = Some(Instant::now());
        }
        pool.changed.notify_one();
    }
}

impl Informers {
    /// Informers on what `collections` serves. Nothing happens before [`run`](Self::run).
    pub fn new(collections: Arc<dyn Collections>, config: InformersConfig) -> Self {
        let shared = Arc::new(Shared {
            collections,
            config,
            slots: Mutex::default(),
            changed: Notify::new(),
        });
        Self { shared }
    }

    /// The informer of what is wanted. It starts if no one had it, and goes on as long as someone has.
    pub fn informer(&self, wanted: impl Into<Wanted>) -> Informer {
        let wanted = wanted.into();
        let id = wanted.id();
        let mut slots = self.shared.slots();
        let slot = slots
            .entry(id.clone())
            .or_insert_with(|| Slot::new(&self.shared.config, &id, wanted));
        let lease = slot.lease.upgrade().unwrap_or_else(|| {
            let pool = Arc::downgrade(&self.shared);
            Arc::new(Lease { pool, id })
        });
        slot.lease = Arc::downgrade(&lease);
        slot.unused_since = None;
        let informer = slot.informer.with_lease(lease);
        drop(slots);
        self.shared.changed.notify_one();
        informer
    }

    /// What can be seen of all of them now.
    pub fn reports(&self) -> Vec<InformerReport> {
        let informers: Vec<_> = {
            let slots = self.shared.slots();
            slots.values().map(|slot| slot.informer.clone()).collect()
        };
        informers.iter().map(Informer::report).collect()
    }

    /// Runs the informers until `shutdown`; returns when all of them have stopped.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut definitions = self.shared.config.definitions.then(|| self.definitions());
        let mut tasks = JoinSet::new();
        loop {
            let wake = self.start_and_stop(&mut tasks);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.shared.changed.notified() => {}
                Some(ended) = tasks.join_next() => self.ended(ended),
                Some(told) = next_definition(&mut definitions) => self.nudge(&told),
                () = wait_until(wake) => {}
            }
        }
        for slot in self.shared.slots().values_mut() {
            slot.stop.cancel();
            slot.started = false;
            slot.stop = CancellationToken::new();
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Starts what is wanted and stops what is not; says when to look again.
    fn start_and_stop(&self, tasks: &mut JoinSet<String>) -> Option<Instant> {
        let now = Instant::now();
        let grace = self.shared.config.grace;
        let mut slots = self.shared.slots();
        slots.retain(|_, slot| {
            let unused = slot.ends_after(grace).is_some_and(|end| now >= end);
            if unused {
                slot.stop.cancel();
            }
            !unused
        });
        for (id, slot) in slots.iter_mut().filter(|(_, slot)| !slot.started) {
            slot.started = true;
            let follower = Follower::new(&self.shared, slot);
            let (id, stop) = (id.clone(), slot.stop.clone());
            tasks.spawn(async move {
                follower.run(stop).await;
                id
            });
        }
        slots.values().filter_map(|slot| slot.ends_after(grace)).min()
    }

    /// A task that panicked (in a source, say) is started again.
    fn ended(&self, ended: Result<String, tokio::task::JoinError>) {
        let Err(panicked) = ended else {
            return;
        };
        error!(%panicked, "an informer failed and is started again");
        for slot in self.shared.slots().values_mut() {
            // Which one it was the error does not say; those that run have the token in use.
            slot.started &= Arc::strong_count(&slot.nudge) > 1;
        }
    }

    fn definitions(&self) -> Subscription {
        let name = CollectionName::new("apiextensions.k8s.io", "customresourcedefinitions");
        self.informer(name.with_content(Content::Metadata)).subscribe()
    }

    /// Has the informers of a group look again at what is served, because one of its kinds changed.
    fn nudge(&self, told: &Notification) {
        let Some(ObjectKey { name, .. }) = Change::key(&told.change) else {
            return;
        };
        let group = name.split_once('.').map_or("", |(_, group)| group);
        for slot in self.shared.slots().values() {
            let follows = slot.informer.has_synced();
            let is_news = told.origin != Origin::Initial || !follows;
            if slot.wanted.name.group == group && is_news {
                slot.nudge.notify_one();
            }
        }
    }
}

async fn next_definition(definitions: &mut Option<Subscription>) -> Option<Notification> {
    match definitions {
        Some(definitions) => definitions.next().await,
        None => None,
    }
}

async fn wait_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

impl Slot {
    /// When it is stopped if nobody uses it until then. Never if that is too far away to be told.
    fn ends_after(&self, grace: Duration) -> Option<Instant> {
        self.unused_since?.checked_add(grace)
    }

    fn new(config: &InformersConfig, id: &str, wanted: Wanted) -> Self {
        let mut config = config.informer.clone();
        config.reflector.selection = wanted.selection.clone();
        Self {
            informer: Informer::new(id, config),
            wanted,
            lease: Weak::new(),
            unused_since: None,
            started: false,
            stop: CancellationToken::new(),
            nudge: Arc::default(),
        }
    }
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informers").finish_non_exhaustive()
    }
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Informers({})", self.shared.slots().len())
    }
}
