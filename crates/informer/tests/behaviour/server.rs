//! A small source with a history, and faults to order.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use futures_util::{FutureExt as _, future::BoxFuture, stream};
use serde_json::json;
use skopos_object::{
    HistoryId, ListEnd, ListItem, ListRequest, ListStream, ListWatch, ListWatchError, Object, Status,
    WatchEvent, WatchRequest, WatchStream,
};
use tokio::sync::watch;

/// One collection in memory.
#[derive(Clone, Debug)]
pub(crate) struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Moves with every write, and when streams are cut.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Object>,
    pub(crate) history: Vec<(u64, WatchEvent)>,
    pub(crate) revision: u64,
    /// Watches from before this version get a 410.
    pub(crate) compacted: u64,
    pub(crate) n_requests: usize,
    /// What the next requests are answered with instead.
    pub(crate) list_faults: VecDeque<Fault>,
    pub(crate) watch_faults: VecDeque<Fault>,
    /// No request is answered while this is set.
    pub(crate) away: bool,
    pub(crate) initial_events: bool,
    /// Which history it says it has.
    pub(crate) history_id: Option<HistoryId>,
    epoch: u64,
    uids: u64,
}

#[derive(Debug)]
pub(crate) enum Fault {
    Refuse(ListWatchError),
    /// These things, then the end of the stream.
    Items(Vec<ListItem>),
    /// An answer that says nothing more.
    Stall,
}

pub(crate) fn refused(status: Status) -> Fault {
    Fault::Refuse(ListWatchError::Refused(status))
}

pub(crate) fn away() -> ListWatchError {
    ListWatchError::Unavailable("connection refused".into())
}

impl Server {
    pub(crate) fn new() -> Self {
        let state = State {
            initial_events: true,
            revision: 10,
            ..State::default()
        };
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
        }))
    }

    pub(crate) fn source(&self) -> Arc<dyn ListWatch> {
        Arc::new(self.clone())
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let result = f(&mut self.0.state.lock().unwrap());
        self.0.changed.send_modify(|n| *n += 1);
        result
    }

    pub(crate) fn put(&self, name: &str, spec: u64) -> u64 {
        self.with(|state| {
            state.revision += 1;
            let known = state.objects.get(name).map(|object| object.uid().to_owned());
            let is_new = known.is_none();
            let uid = known.unwrap_or_else(|| {
                state.uids += 1;
                format!("uid-{}", state.uids)
            });
            let object = object(name, &uid, state.revision, spec);
            state.objects.insert(name.to_owned(), object.clone());
            let event = if is_new {
                WatchEvent::Added(object)
            } else {
                WatchEvent::Modified(object)
            };
            state.history.push((state.revision, event));
            state.revision
        })
    }

    pub(crate) fn delete(&self, name: &str) -> u64 {
        self.with(|state| {
            let Some(last) = state.objects.remove(name) else {
                return state.revision;
            };
            state.revision += 1;
            let spec = last.get(&["spec", "n"]).unwrap().as_u64().unwrap();
            let last = object(name, last.uid(), state.revision, spec);
            state.history.push((state.revision, WatchEvent::Deleted(last)));
            state.revision
        })
    }

    pub(crate) fn compact(&self) {
        self.with(|state| {
            state.compacted = state.revision;
            state.history.clear();
        });
    }

    /// Restarts without its objects, in a history of its own that is as long as the one before.
    pub(crate) fn lose(&self, history: &str) {
        self.with(|state| {
            state.objects.clear();
            state.history.clear();
            state.history_id = Some(HistoryId(history.to_owned()));
            state.epoch += 1;
        });
    }

    /// Ends all watches.
    pub(crate) fn cut(&self) {
        self.with(|state| state.epoch += 1);
    }

    /// Sends a bookmark of the present version to those who watch.
    pub(crate) fn bookmark(&self) {
        self.with(|state| {
            state.revision += 1;
            let event = WatchEvent::Bookmark {
                resource_version: state.revision.into(),
                initial_events_end: false,
            };
            state.history.push((state.revision, event));
        });
    }

    fn answer_list(&self, request: ListRequest) -> Result<ListStream, ListWatchError> {
        let mut state = self.0.state.lock().unwrap();
        state.n_requests += 1;
        if state.away {
            return Err(away());
        }
        match state.list_faults.pop_front() {
            None => {}
            Some(Fault::Refuse(error)) => return Err(error),
            Some(Fault::Items(items)) => return Ok(Box::pin(stream::iter(items.into_iter().map(Ok)))),
            Some(_) => return Ok(Box::pin(stream::pending())),
        }
        let after = request.continue_token.unwrap_or_default();
        let mut left = state
            .objects
            .range(after.clone()..)
            .filter(|(name, _)| **name > after);
        let limit = request.limit.unwrap_or(usize::MAX);
        let page: Vec<_> = left
            .by_ref()
            .take(limit)
            .map(|(_, object)| object.clone())
            .collect();
        let more = left.next().is_some();
        let token = page
            .last()
            .map(|object| object.name().to_owned())
            .filter(|_| more);
        let end = ListEnd {
            resource_version: state.revision.into(),
            continue_token: token,
            remaining: None,
        };
        let items = page.into_iter().map(ListItem::Object).chain([ListItem::End(end)]);
        Ok(Box::pin(stream::iter(items.map(Ok).collect::<Vec<_>>())))
    }

    fn answer_watch(&self, request: &WatchRequest) -> Result<WatchStream, ListWatchError> {
        let mut state = self.0.state.lock().unwrap();
        state.n_requests += 1;
        if state.away {
            return Err(away());
        }
        match state.watch_faults.pop_front() {
            None => {}
            Some(Fault::Refuse(error)) => return Err(error),
            Some(_) => return Ok(Box::pin(stream::pending())),
        }
        if request.initial_events && !state.initial_events {
            return Err(ListWatchError::Unsupported("initial events"));
        }
        let mut first = VecDeque::new();
        let mut from = request.from.as_str().parse().unwrap_or(0);
        if request.initial_events {
            first.extend(state.objects.values().cloned().map(WatchEvent::Added));
            first.push_back(WatchEvent::Bookmark {
                resource_version: state.revision.into(),
                initial_events_end: true,
            });
            from = state.revision;
        } else if from < state.compacted {
            return Err(ListWatchError::Refused(Status::expired(
                "too old resource version",
            )));
        }
        let cursor = Cursor {
            server: self.clone(),
            changed: self.0.changed.subscribe(),
            first,
            from,
            epoch: state.epoch,
        };
        Ok(Box::pin(stream::unfold(cursor, async |mut cursor| {
            let event = cursor.next().await?;
            Some((event, cursor))
        })))
    }
}

struct Cursor {
    server: Server,
    changed: watch::Receiver<u64>,
    first: VecDeque<WatchEvent>,
    from: u64,
    epoch: u64,
}

impl Cursor {
    async fn next(&mut self) -> Option<Result<WatchEvent, ListWatchError>> {
        loop {
            self.changed.mark_unchanged();
            {
                let state = self.server.0.state.lock().unwrap();
                if state.epoch != self.epoch {
                    return None;
                }
                if let Some(event) = self.first.pop_front() {
                    return Some(Ok(event));
                }
                if self.from < state.compacted {
                    return Some(Err(ListWatchError::Refused(Status::expired("compacted"))));
                }
                let start = state
                    .history
                    .partition_point(|(revision, _)| *revision <= self.from);
                if let Some((revision, event)) = state.history.get(start) {
                    self.from = *revision;
                    return Some(Ok(event.clone()));
                }
            }
            self.changed.changed().await.ok()?;
        }
    }
}

impl ListWatch for Server {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>> {
        async move { self.answer_list(request) }.boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        async move { self.answer_watch(&request) }.boxed()
    }

    fn history(&self) -> BoxFuture<'_, Result<Option<HistoryId>, ListWatchError>> {
        async move {
            let mut state = self.0.state.lock().unwrap();
            state.n_requests += 1;
            match state.away {
                true => Err(away()),
                false => Ok(state.history_id.clone()),
            }
        }
        .boxed()
    }
}

pub(crate) fn object(name: &str, uid: &str, version: u64, n: u64) -> Object {
    let value = json!({
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {
            "name": name, "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
            "labels": {"parity": if n.is_multiple_of(2) { "even" } else { "odd" }},
        },
        "spec": {"n": n},
    });
    Object::from_value(&value).unwrap()
}
