//! Keeps a local, indexed copy of one collection in step with its source, and tells of its changes.
//!
//! Start at [`Informer`]. How reports become changes: [`writer`].

mod pending;
mod report;
mod subscription;
mod writer;

use std::{
    convert::Infallible,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use skopos_object::{ListWatch, Object, ObjectKey, ResourceVersion};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span};

pub use self::{
    report::InformerReport,
    subscription::{Lag, Notification, Origin, Subscription, SyncWatch},
    writer::Quarantined,
};
use self::{
    subscription::Subscriber,
    writer::{Part, Writer},
};
use crate::{
    Compression, Reflector, ReflectorConfig, ReflectorError, Report, Store,
    machine::{is_comparable, is_older},
    pool::Lease,
};

/// A local copy of one collection, kept in step. Cloning gives another handle to the same copy.
///
/// Someone must [`run`](Self::run) it; [`Informers`](crate::Informers) does that for many at once. Read the
/// copy through [`store`](Self::store), hear of changes through [`subscribe`](Self::subscribe).
///
/// ```
/// # async fn example(source: std::sync::Arc<dyn skopos_object::ListWatch>) {
/// use skopos_informer::{Informer, InformerConfig};
/// use tokio_util::sync::CancellationToken;
///
/// let informer = Informer::new("applications", InformerConfig::default());
/// let mut changes = informer.subscribe();
/// let shutdown = CancellationToken::new();
/// let told = async {
///     while let Some(told) = changes.next().await {
///         println!("{:?} {:?}", told.change.op, told.change.key());
///     }
/// };
/// tokio::join!(informer.run(source, shutdown.clone()), told);
/// # }
/// ```
#[derive(Clone)]
pub struct Informer {
    shared: Arc<Shared>,
    /// Keeps a shared informer running.
    _lease: Option<Arc<Lease>>,
}

/// How an [`Informer`] behaves. The default keeps everything as it comes.
#[derive(Clone, Debug, Default)]
pub struct InformerConfig {
    /// How the collection is followed.
    pub reflector: ReflectorConfig,
    /// Whether objects are kept compressed.
    pub compression: Compression,
    /// What is done to each object before it is kept and told.
    pub transform: Option<Transform>,
    /// How often subscribers are told of every object although nothing happened (default: never). Costs the
    /// server nothing.
    pub resync: Option<Duration>,
}

/// Changes each object before it is kept, for example to leave out what is never read.
///
/// It must leave name, namespace, uid and version as they are. An object on which it panics is set aside as
/// one that cannot be read.
#[derive(Clone)]
pub struct Transform(Arc<dyn Fn(Object) -> Object + Send + Sync>);

impl Transform {
    /// Changes objects by a function.
    pub fn new(change: impl Fn(Object) -> Object + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    fn apply(&self, object: Object) -> Object {
        (self.0)(object)
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

/// What the handles share.
pub(crate) struct Shared {
    name: String,
    config: InformerConfig,
    store: Store,
    /// First in the order of locks: writer, then store, then a subscriber.
    writer: Mutex<Writer>,
    /// Nothing is locked while this is, but the store for reading.
    progress: Mutex<Progress>,
    /// Wakes those who wait for progress, in the order in which they came: so a simulation can be replayed.
    moved: Notify,
}

/// How far the copy is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Of each part. Made known only after the store shows it.
    versions: Vec<ResourceVersion>,
    /// The namespace that a part is confined to, of each.
    namespaces: Vec<Option<String>>,
    synced: bool,
    closed: bool,
    /// Counts everything that changed the store.
    round: u64,
}

/// The informer stopped before what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct Stopped;

impl Informer {
    /// A copy that is empty until it runs. The name is for logs and metrics.
    pub fn new(name: impl Into<String>, config: InformerConfig) -> Self {
        let shared = Shared {
            name: name.into(),
            store: Store::new(config.compression),
            config,
            writer: Mutex::default(),
            progress: Mutex::default(),
            moved: Notify::new(),
        };
        let shared = Arc::new(shared);
        Self { shared, _lease: None }
    }

    pub(crate) fn with_lease(&self, lease: Arc<Lease>) -> Self {
        Self {
            shared: self.shared.clone(),
            _lease: Some(lease),
        }
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The copy, for reading.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Follows `source` until `shutdown`; then the subscriptions end, once all is told. May be called again
    /// after it returned.
    pub async fn run(&self, source: Arc<dyn ListWatch>, shutdown: CancellationToken) {
        self.run_parts(vec![source], shutdown).await;
    }

    /// Follows several sources as one collection, for example some of the namespaces. No object may be in
    /// more than one of them.
    pub async fn run_parts(&self, sources: Vec<Arc<dyn ListWatch>>, shutdown: CancellationToken) {
        let shared = &self.shared;
        shared.open(vec![None; sources.len()]);
        shutdown.run_until_cancelled(self.follow(sources, |_| {})).await;
        shared.close();
    }

    /// Follows sources for ever. `on_trouble` hears of every failure.
    pub(crate) async fn follow(
        &self,
        sources: Vec<Arc<dyn ListWatch>>,
        on_trouble: impl Fn(&ReflectorError),
    ) -> Infallible {
        let shared = &self.shared;
        let parts = (0u16..).zip(sources).map(async |(part, source)| {
            let mut reflector = Reflector::new(source.clone(), shared.config.reflector.clone());
            if shared.is_part_synced(part) {
                reflector.reopen(source);
            }
            let following = async {
                loop {
                    let reports = reflector.next().await;
                    for report in &reports {
                        if let Report::Trouble { error, .. } = report {
                            on_trouble(error);
                        }
                    }
                    shared.take(part, reports, reflector.position());
                    // A source that always has more must not keep subscribers from their turn.
                    tokio::task::yield_now().await;
                }
            };
            let span = info_span!("follow", informer = shared.name, part);
            following.instrument(span).await
        });
        let resync = async {
            let Some(period) = shared.config.resync else {
                return;
            };
            loop {
                tokio::time::sleep(period).await;
                shared.resync();
            }
        };
        tokio::join!(join_all(parts), resync);
        // Only without any source.
        std::future::pending().await
    }

    /// Begins to hear of changes. What is there already comes first, as created.
    pub fn subscribe(&self) -> Subscription {
        let mut writer = self.shared.writer();
        let (hasher, present) = {
            let content = self.shared.store.read();
            (content.table.hasher().clone(), content.table.snapshot())
        };
        let synced = self.has_synced();
        let subscriber = Arc::new(Subscriber::new(hasher, &present, synced, writer.closed));
        writer.subscribers.push(subscriber.clone());
        Subscription::new(subscriber, self.clone())
    }

    fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let mut writer = self.shared.writer();
        writer.subscribers.retain(|other| !Arc::ptr_eq(other, subscriber));
    }

    /// Whether the first list is complete.
    pub fn has_synced(&self) -> bool {
        self.shared.progress().synced
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) -> Result<(), Stopped> {
        self.until(|progress| progress.synced).await
    }

    /// Up to where the copy shows everything; empty before the first list is complete. Of several parts, the
    /// one that is furthest behind.
    pub fn version(&self) -> ResourceVersion {
        let progress = self.shared.progress();
        progress.versions.iter().min().cloned().unwrap_or_default()
    }

    /// Waits until the copy shows a version, such as the one that a write answered with: then
    /// get, list and indexes show that write, or something newer. Idle collections get there by bookmarks,
    /// which API servers send every minute.
    ///
    /// A version that is no number cannot be compared and is not waited for. Give it a timeout
    /// (`tokio::time::timeout`): a server that lost its history may never get there.
    pub async fn seen(&self, version: &ResourceVersion) -> Result<(), Stopped> {
        if !is_comparable(version) {
            return Ok(());
        }
        self.until(|progress| progress.has_seen(version)).await
    }

    /// As [`seen`](Self::seen), but only as far as objects of one namespace are concerned: if it is among several that
    /// are followed one by one, the others are not waited for; if it is not, nothing is.
    pub async fn seen_in(&self, namespace: &str, version: &ResourceVersion) -> Result<(), Stopped> {
        if !is_comparable(version) {
            return Ok(());
        }
        self.until(|progress| progress.has_seen_in(namespace, version))
            .await
    }

    /// Waits until the copy no longer shows the object of this key and UID. For a delete that was
    /// answered without a version. Wait for the object's creation first, if that may still be under way.
    pub async fn gone(&self, key: &ObjectKey, uid: &str) -> Result<(), Stopped> {
        self.until(|_| self.store().get_key(key).is_none_or(|object| object.uid() != uid))
            .await
    }

    async fn until(&self, mut reached: impl FnMut(&Progress) -> bool) -> Result<(), Stopped> {
        loop {
            let mut moved = pin!(self.shared.moved.notified());
            moved.as_mut().enable();
            {
                let progress = self.shared.progress();
                if reached(&progress) {
                    return Ok(());
                }
                if progress.closed {
                    return Err(Stopped);
                }
            }
            moved.await;
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    /// Gets ready for sources that are confined to these namespaces, or to none.
    pub(crate) fn open(&self, namespaces: Vec<Option<String>>) {
        let n_parts = namespaces.len();
        let mut writer = self.writer();
        writer.closed = false;
        writer.parts.resize_with(n_parts, Part::default);
        for subscriber in &writer.subscribers {
            subscriber.set_closed(false);
        }
        self.advance(|progress| {
            progress.versions.resize(n_parts, ResourceVersion::default());
            progress.namespaces = namespaces;
            progress.closed = false;
        });
    }

    /// Ends the subscriptions, once all is told.
    pub(crate) fn close(&self) {
        let mut writer = self.writer();
        writer.closed = true;
        for part in &mut writer.parts {
            part.watching = None;
        }
        for subscriber in &writer.subscribers {
            subscriber.set_closed(true);
        }
        self.advance(|progress| progress.closed = true);
    }

    /// Says why there is nothing to follow, or that there is.
    pub(crate) fn set_not_served(&self, why: Option<String>) {
        self.writer().not_served = why;
    }

    fn is_part_synced(&self, part: u16) -> bool {
        self.writer().parts[usize::from(part)].synced
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
        self.moved.notify_waiters();
    }

    fn publish(&self, part: u16, position: &ResourceVersion, synced: bool) {
        self.advance(|progress| {
            let version = &mut progress.versions[usize::from(part)];
            if version != position {
                version.clone_from(position);
            }
            progress.synced = synced;
            progress.round += 1;
        });
    }

    fn publish_round(&self) {
        self.advance(|progress| progress.round += 1);
    }
}

impl Progress {
    fn has_seen(&self, version: &ResourceVersion) -> bool {
        self.synced && self.versions.iter().all(|ours| is_past(ours, version))
    }

    fn has_seen_in(&self, namespace: &str, version: &ResourceVersion) -> bool {
        let is_there = |within: &Option<String>| within.as_ref().is_none_or(|within| within == namespace);
        let mut parts = self.namespaces.iter().zip(&self.versions);
        parts.all(|(within, ours)| !is_there(within) || (self.synced && is_past(ours, version)))
    }
}

/// Whether a part that is at `ours` shows a version.
fn is_past(ours: &ResourceVersion, version: &ResourceVersion) -> bool {
    !ours.is_empty() && !is_older(ours, version)
}

impl fmt::Debug for Informer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Informer({}, {} objects)",
            self.shared.name,
            self.shared.store.len()
        )
    }
}
