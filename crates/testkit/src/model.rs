//! A collection in memory that behaves as an API server's does, without HTTP.

mod collection;
mod disturbance;
mod reading;
mod watching;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use skopos_object::{
    FieldSelector, HistoryId, LabelSelector, ListRequest, ListStream, ListWatch, ListWatchError, Object,
    ObjectKey, WatchRequest, WatchStream,
};
use tokio::sync::watch;

use self::{
    collection::Collection,
    disturbance::{Budget, Spent},
};
use crate::{Asked, Fault, Faults, Verb};

/// What becomes of the objects of a server that restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// They are still there, and versions go on.
    Kept,
    /// They are gone, and versions begin anew.
    Lost,
}

/// A collection of objects with versions, history and [`Faults`], behind [`ListWatch`]. Cheap to clone.
///
/// It keeps to what API servers do: lists in pages at one version, streaming lists, watches that resume,
/// bookmarks every minute and before a watch ends, 410 after [`compact`](Self::compact). Nothing happens on
/// its own but by tokio's clock, so a test with a paused clock does the same every time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::StreamExt as _;
/// use skopos_object::{ListWatch as _, WatchEvent, WatchRequest};
/// use skopos_testkit::{ModelSource, object};
///
/// let source = ModelSource::new();
/// let first = source.put(&object("{kind: Widget, metadata: {name: a, namespace: home}}"));
/// let request = WatchRequest { from: first.resource_version(), ..WatchRequest::default() };
/// let mut events = source.watch(request).await?;
/// source.delete("home", "a");
/// assert!(matches!(events.next().await, Some(Ok(WatchEvent::Deleted(_)))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ModelSource {
    shared: Arc<Shared>,
}

struct Shared {
    collection: Mutex<Collection>,
    // Rings at every change, compaction and restart.
    bell: watch::Sender<u64>,
    faults: Faults,
}

/// How often a watch gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch gets its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

impl ModelSource {
    /// An empty collection at version 1, without faults.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a source is started, it has no default"
    )]
    pub fn new() -> Self {
        Self::with_faults(Faults::seeded(0))
    }

    /// An empty collection with faults in front.
    #[must_use]
    pub fn with_faults(faults: Faults) -> Self {
        Self {
            shared: Arc::new(Shared {
                collection: Mutex::new(Collection::new()),
                bell: watch::Sender::new(0),
                faults,
            }),
        }
    }

    /// The faults between this source and whoever reads it.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Creates an object or replaces it. Gives it a version, and a uid if it is new.
    pub fn put(&self, object: &Object) -> Object {
        let stored = self.collection().put(object);
        self.ring();
        stored
    }

    /// Deletes an object; returns its last state, at the version of the deletion.
    pub fn delete(&self, namespace: &str, name: &str) -> Option<Object> {
        let gone = self.collection().delete(&ObjectKey::namespaced(namespace, name));
        self.ring();
        gone
    }

    /// Forgets the history: who asks from a version before now gets 410.
    pub fn compact(&self) {
        self.collection().compact();
        self.ring();
    }

    /// Breaks everything that is open, and perhaps forgets all there was.
    pub fn restart(&self, data: Data) {
        if data == Data::Lost {
            self.collection().lose();
        }
        self.shared.faults.cut_open_streams();
        self.ring();
    }

    /// What is there now, past all faults.
    pub fn objects(&self) -> BTreeMap<ObjectKey, Object> {
        self.collection().objects.clone()
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.collection().version
    }

    fn collection(&self) -> MutexGuard<'_, Collection> {
        self.shared
            .collection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.shared.bell.send_modify(|n| *n += 1);
    }

    /// Decides about a request, and does the part of the fault that comes before the answer.
    async fn meet(&self, asked: &Asked) -> Result<Option<Fault>, ListWatchError> {
        let open = self.shared.faults.open();
        let fault = self.shared.faults.decide(asked);
        match &fault {
            Some(Fault::Refused | Fault::LostAnswer) => return Err(unavailable("connection refused")),
            Some(Fault::Answer(status)) => return Err(ListWatchError::Refused(status.clone())),
            Some(Fault::NoStreamingLists) => return Err(ListWatchError::Unsupported("streaming lists")),
            Some(Fault::Slow(delay)) => {
                tokio::select! {
                    biased;
                    () = open.cancelled() => return Err(unavailable("connection reset")),
                    () = tokio::time::sleep(*delay) => {}
                }
            }
            _ => {}
        }
        Ok(fault)
    }
}

impl ListWatch for ModelSource {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>> {
        Box::pin(async move {
            let fault = self.meet(&Asked::new(Verb::List, "")).await?;
            self.read(&request, fault.as_ref())
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        Box::pin(async move {
            let mut asked = Asked::new(Verb::Watch, "");
            asked.initial_events = request.initial_events;
            let fault = self.meet(&asked).await?;
            self.follow(request, fault)
        })
    }

    fn history(&self) -> BoxFuture<'_, Result<Option<HistoryId>, ListWatchError>> {
        Box::pin(async move {
            let fault = self.meet(&Asked::new(Verb::Get, "")).await?;
            match Budget::of(fault.as_ref()).at_once() {
                Some(Spent::Stalled) => std::future::pending().await,
                Some(_) => Err(unavailable("connection reset")),
                None => Ok(Some(HistoryId(self.collection().n_lost.to_string()))),
            }
        })
    }
}

fn unavailable(why: &'static str) -> ListWatchError {
    ListWatchError::Unavailable(why.into())
}

/// Whether a request wants to see an object.
fn is_selected(object: &Object, labels: &LabelSelector, fields: &FieldSelector) -> bool {
    let field = |path: &str| match path {
        "metadata.name" => Some(object.name().to_owned()),
        "metadata.namespace" => Some(object.namespace().to_owned()),
        _ => None,
    };
    object.is_selected_by(labels) && (fields.is_everything() || fields.matches(field))
}

impl fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSource")
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
