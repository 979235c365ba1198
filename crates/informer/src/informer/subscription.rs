//! One who is told of changes, at its own pace.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use skopos_object::Change;
use tokio::{sync::watch, time::Instant};

use super::{Informer, pending::Pending};
use crate::store::{Changes, KeyHasher, Snapshot};

/// A change, and how the subscriber came to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What happened since this subscriber was last told about the object.
    pub change: Change,
    /// How it came.
    pub origin: Origin,
}

/// How a [`Notification`] came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The object was there when the subscriber came, or when the informer first listed, and nothing happened since.
    Initial,
    /// Something happened, perhaps to an object that the subscriber was not told of yet.
    Live,
    /// Nothing happened; it is told again, as [`InformerConfig::resync`](crate::InformerConfig::resync) asks.
    Resync,
}

/// The changes of an [`Informer`], for one subscriber. Dropping it ends the subscription.
///
/// First everything that is there comes as created, then what happens. A subscriber that is slower than the
/// changes gets them coalesced per object: what it saw last, and what there is now. Deletions of what it saw
/// are never lost, and a deletion followed by a creation stays two changes. It can be as slow as it likes:
/// what waits for it is bounded by the number of objects, and no one else waits.
///
/// It is also a [`Stream`].
#[derive(Debug)]
pub struct Subscription {
    subscriber: Arc<Subscriber>,
    // Keeps a shared informer alive.
    informer: Informer,
}

/// What the informer knows of a subscriber.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// Third in the order of locks.
    state: Mutex<State>,
    synced: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    pending: Pending,
    /// Who waits in [`Subscription::next`].
    waker: Option<std::task::Waker>,
    informer_synced: bool,
    /// Something was handed out, and the subscriber has not come back yet.
    busy: bool,
    closed: bool,
}

impl Subscriber {
    pub(super) fn new(hasher: KeyHasher, present: &Snapshot, informer_synced: bool, closed: bool) -> Self {
        let mut pending = Pending::new(hasher);
        pending.fill(present, Origin::Initial, Instant::now());
        let state = State {
            pending,
            waker: None,
            informer_synced,
            busy: false,
            closed,
        };
        Self {
            synced: watch::Sender::new(state.is_synced()),
            state: Mutex::new(state),
        }
    }

    /// Adds changes, and wakes the subscriber once for all of them.
    pub(super) fn deliver(&self, changes: &Changes, origin: Origin) {
        let now = Instant::now();
        let waker = {
            let mut state = self.lock();
            if let Some(appeared) = &changes.appeared {
                state.pending.fill(appeared, origin, now);
            }
            for delta in &changes.deltas {
                state.pending.push(delta, origin, now);
            }
            self.note_sync(&state);
            state.waker.take()
        };
        wake(waker);
    }

    /// Says that the first list is complete.
    pub(super) fn informer_synced(&self) {
        let mut state = self.lock();
        state.informer_synced = true;
        self.note_sync(&state);
    }

    pub(super) fn set_closed(&self, closed: bool) {
        let waker = {
            let mut state = self.lock();
            state.closed = closed;
            state.waker.take()
        };
        wake(waker);
    }

    pub(super) fn lag(&self) -> Lag {
        let state = self.lock();
        Lag {
            keys: state.pending.len(),
            age: state
                .pending
                .oldest()
                .map_or(Duration::ZERO, |since| since.elapsed()),
        }
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        let mut state = self.lock();
        state.busy = false;
        while state.pending.len() > 0 {
            if let Some(notification) = state.pending.pop() {
                state.busy = true;
                return Poll::Ready(Some(notification));
            }
        }
        self.note_sync(&state);
        if state.closed {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn note_sync(&self, state: &State) {
        if state.is_synced() {
            self.synced
                .send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: Option<std::task::Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl State {
    fn is_synced(&self) -> bool {
        self.informer_synced && !self.busy && !self.pending.has_initial()
    }
}

/// How far a subscriber is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// How many objects have changes it has not seen.
    pub keys: usize,
    /// How long the oldest of them waits.
    pub age: Duration,
}

impl Subscription {
    pub(super) fn new(subscriber: Arc<Subscriber>, informer: Informer) -> Self {
        Self { subscriber, informer }
    }

    /// Waits for the next change; nothing once the informer has stopped and all is told. Nothing is lost if
    /// the future is dropped.
    pub async fn next(&mut self) -> Option<Notification> {
        std::future::poll_fn(|cx| self.subscriber.poll_next(cx)).await
    }

    /// The next change if there is one, without waiting.
    pub fn try_next(&mut self) -> Option<Notification> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match self.subscriber.poll_next(&mut cx) {
            Poll::Ready(notification) => notification,
            Poll::Pending => None,
        }
    }

    /// Calls `handle` with each change, one after the other, until the informer stops.
    pub async fn for_each(mut self, mut handle: impl AsyncFnMut(Notification)) {
        while let Some(notification) = self.next().await {
            handle(notification).await;
        }
    }

    /// Whether the subscriber is done with everything that was there at first: the informer has its first
    /// list, all of it was handed out, and the subscriber came back for more.
    pub fn has_synced(&self) -> bool {
        *self.subscriber.synced.borrow()
    }

    /// Tells others when this subscriber [`has_synced`](Self::has_synced), while it is busy in its own task.
    pub fn sync_watch(&self) -> SyncWatch {
        SyncWatch(self.subscriber.synced.subscribe())
    }

    /// How far it is behind.
    pub fn lag(&self) -> Lag {
        self.subscriber.lag()
    }

    /// Whose changes these are.
    pub fn informer(&self) -> &Informer {
        &self.informer
    }
}

impl Stream for Subscription {
    type Item = Notification;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.subscriber.poll_next(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.informer.unsubscribe(&self.subscriber);
    }
}

/// Tells when a [`Subscription`] has synced.
#[derive(Clone, Debug)]
pub struct SyncWatch(watch::Receiver<bool>);

impl SyncWatch {
    /// Whether it has.
    pub fn has_synced(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it has; false if the subscription ended before.
    pub async fn synced(&mut self) -> bool {
        self.0.wait_for(|synced| *synced).await.is_ok()
    }
}
