//! A collection in this process that costs little: its objects are made while they are read.
//!
//! There is no network. Objects are read from their text as a client does it, managed fields dropped.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_core::{Stream, future::BoxFuture};
use skopos_object::{
    Collection, CollectionName, Collections, GroupVersionKind, ListEnd, ListItem, ListRequest, ListStream,
    ListWatch, ListWatchError, ManagedFields, Object, OpenError, WatchEvent, WatchRequest, WatchStream,
};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::shape::Template;

pub(super) const GROUP: &str = "myapps.example.com";
pub(super) const KIND: &str = "Application";
pub(super) const PLURAL: &str = "applications";

/// Versions of [`Template`] count from here.
const FIRST_VERSION: usize = 1_000_000_000;

/// One collection, which every name means. Cloning gives another handle to it.
#[derive(Clone)]
pub(super) struct Source {
    objects: Arc<Objects>,
    changes: Changes,
    /// Changes begin when this is cancelled.
    pub(super) go: CancellationToken,
    ticks: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

/// How many changes there are, and when.
#[derive(Clone, Copy)]
pub(super) enum Changes {
    /// As fast as they are read, without end.
    Flood,
    /// As fast as they are read, so many.
    Some(usize),
    /// One whenever it is told, see [`Source::paced`].
    Paced,
}

struct Objects {
    template: Template,
    n: usize,
    /// Where in each text the digit of the replicas stands: all texts have the same length.
    replicas: usize,
}

impl Source {
    pub(super) fn new(n_objects: usize, changes: Changes) -> Self {
        let template = Template::new();
        let mut text = Vec::new();
        template.write(0, 0, &mut text);
        let text = String::from_utf8_lossy(&text);
        let mark = "\"replicas\":3";
        let replicas = text.find(mark).map_or(0, |at| at + mark.len() - 1);
        Self {
            objects: Arc::new(Objects {
                template,
                n: n_objects,
                replicas,
            }),
            changes,
            go: CancellationToken::new(),
            ticks: Arc::default(),
        }
    }

    /// A collection in which an object changes for each value that is sent; room for `n` of them, so that whoever sends
    /// never waits for whoever reads.
    pub(super) fn paced(n_objects: usize, n: usize) -> (Self, mpsc::Sender<()>) {
        let (sender, receiver) = mpsc::channel(n.max(1));
        let source = Self {
            ticks: Arc::new(Mutex::new(Some(receiver))),
            ..Self::new(n_objects, Changes::Paced)
        };
        (source, sender)
    }
}

impl Objects {
    /// The object that a change is of, as it is after it. The number before the first change is that of the list.
    fn after(&self, change: Option<usize>, number: usize) -> Object {
        let version = change.map_or(0, |change| self.n + 1 + change);
        let mut text = Vec::with_capacity(self.template.size());
        self.template.write(number, version, &mut text);
        if let Some(change) = change {
            // So that a change changes something besides the version.
            text[self.replicas] = b'0' + (change / self.n % 10) as u8;
        }
        Object::parse_owned(&text, ManagedFields::Keep).expect("the template makes objects")
    }
}

impl ListWatch for Source {
    fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<ListStream, ListWatchError>> {
        let list = List {
            objects: self.objects.clone(),
            next: 0,
        };
        Box::pin(std::future::ready(Ok(Box::pin(list) as ListStream)))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        if request.initial_events {
            let refused = ListWatchError::Unsupported("initial events");
            return Box::pin(std::future::ready(Err(refused)));
        }
        let from: usize = request.from.as_str().parse().unwrap_or(0);
        let ticks = self.ticks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let watch = Watch {
            next: from.saturating_sub(FIRST_VERSION + self.objects.n),
            objects: self.objects.clone(),
            changes: self.changes,
            go: Box::pin(self.go.clone().cancelled_owned()),
            has_begun: false,
            ticks,
        };
        Box::pin(std::future::ready(Ok(Box::pin(watch) as WatchStream)))
    }
}

impl Collections for Source {
    fn open<'a>(&'a self, _: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        Box::pin(std::future::ready(Ok(Collection {
            kind: GroupVersionKind::new(GROUP, "v1", KIND),
            plural: PLURAL.into(),
            singular: String::new(),
            short_names: Vec::new(),
            namespaced: true,
            source: Arc::new(self.clone()),
        })))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

struct List {
    objects: Arc<Objects>,
    next: usize,
}

impl Stream for List {
    type Item = Result<ListItem, ListWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (next, n) = (self.next, self.objects.n);
        self.next += 1;
        let item = match next {
            next if next < n => Some(ListItem::Object(self.objects.after(None, next))),
            next if next == n => Some(ListItem::End(ListEnd {
                resource_version: Template::version(n).as_str().into(),
                ..ListEnd::default()
            })),
            _ => None,
        };
        Poll::Ready(item.map(Ok))
    }
}

struct Watch {
    objects: Arc<Objects>,
    changes: Changes,
    next: usize,
    go: Pin<Box<WaitForCancellationFutureOwned>>,
    has_begun: bool,
    ticks: Option<mpsc::Receiver<()>>,
}

impl Stream for Watch {
    type Item = Result<WatchEvent, ListWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.has_begun {
            ready!(self.go.as_mut().poll(cx));
            self.has_begun = true;
        }
        let is_due = match self.changes {
            Changes::Flood => true,
            Changes::Some(n) => self.next < n,
            Changes::Paced => match &mut self.ticks {
                Some(ticks) => ready!(ticks.poll_recv(cx)).is_some(),
                None => false,
            },
        };
        if !is_due {
            // An idle watch: nobody comes back to it.
            return Poll::Pending;
        }
        let change = self.next;
        self.next += 1;
        let object = self.objects.after(Some(change), change % self.objects.n);
        Poll::Ready(Some(Ok(WatchEvent::Modified(object))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_changes_version_and_replicas_of_its_object() {
        let source = Source::new(10, Changes::Flood);
        let seen = [None, Some(7), Some(17)].map(|change| {
            let object = source.objects.after(change, 7);
            let replicas = object.get(&["spec", "replicas"]).unwrap().to_string();
            (object.key().name, object.resource_version().to_string(), replicas)
        });
        let expected = [("1000000000", "3"), ("1000000018", "0"), ("1000000028", "1")];
        let expected =
            expected.map(|(version, replicas)| ("app-000007".into(), version.into(), replicas.into()));
        assert_eq!(seen, expected);
    }
}
