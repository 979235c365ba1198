//! Watches of a [`ModelSource`].

use std::{collections::VecDeque, time::Duration};

use futures_util::stream;
use skopos_object::{ListWatchError, Object, Op, Status, WatchEvent, WatchRequest, WatchStream};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    BOOKMARK_EVERY, LAST_BOOKMARK, ModelSource,
    collection::{Past, number},
    disturbance::{Budget, Spent, garbled, spoiled},
    is_selected, unavailable,
};
use crate::Fault;

/// Watches without a timeout end after this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

impl ModelSource {
    pub(super) fn follow(
        &self,
        request: WatchRequest,
        fault: Option<Fault>,
    ) -> Result<WatchStream, ListWatchError> {
        let following = Following::start(self, request, fault).map_err(ListWatchError::Refused)?;
        let events = stream::unfold(Some(following), async |following| {
            let mut following = following?;
            match following.next().await? {
                Ok(event) => Some((Ok(event), Some(following))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(events))
    }
}

/// One watch under way.
struct Following {
    source: ModelSource,
    request: WatchRequest,
    /// Everything up to here was told.
    cursor: u64,
    /// To be told before anything else.
    ready: VecDeque<WatchEvent>,
    /// A bookmark that comes late.
    held: Option<WatchEvent>,
    n_events: usize,
    fault: Option<Fault>,
    budget: Budget,
    next_bookmark: Instant,
    deadline: Instant,
    bell: watch::Receiver<u64>,
    open: CancellationToken,
}

impl Following {
    fn start(source: &ModelSource, request: WatchRequest, fault: Option<Fault>) -> Result<Self, Status> {
        let asked = number(&request.from)?;
        let (mut cursor, mut ready) = (asked, VecDeque::new());
        let collection = source.collection();
        if request.initial_events && asked > collection.version {
            return Err(Status::too_large_resource_version(asked, collection.version, 1));
        }
        if request.initial_events || asked == 0 {
            cursor = collection.version;
            let chosen = collection.objects.values();
            let chosen = chosen.filter(|object| is_selected(object, &request.labels, &request.fields));
            ready.extend(chosen.cloned().map(WatchEvent::Added));
        }
        if request.initial_events {
            ready.push_back(WatchEvent::Bookmark {
                resource_version: cursor.into(),
                initial_events_end: true,
            });
        }
        drop(collection);
        let now = Instant::now();
        let deadline = now + request.timeout.unwrap_or(DEFAULT_TIMEOUT);
        Ok(Self {
            bell: source.shared.bell.subscribe(),
            open: source.faults().open(),
            budget: Budget::of(fault.as_ref()),
            next_bookmark: (now + BOOKMARK_EVERY).min(last_bookmark(deadline).max(now)),
            source: source.clone(),
            held: None,
            n_events: 0,
            request,
            cursor,
            ready,
            fault,
            deadline,
        })
    }

    /// The next event through the fault; `None` at the end.
    async fn next(&mut self) -> Option<Result<WatchEvent, ListWatchError>> {
        if let Some(Fault::ErrorEvent { after_events, status }) = &self.fault
            && self.n_events == *after_events
        {
            return Some(Err(ListWatchError::Refused(status.clone())));
        }
        if let Some(spent) = self.budget.at_once() {
            return self.broken(spent).await;
        }
        let event = match self.undisturbed().await? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        match self.budget.spend(size(&event)) {
            Spent::Fine => {}
            spent => return self.broken(spent).await,
        }
        let nth = self.n_events;
        self.n_events += 1;
        Some(Ok(self.disturbed(event, nth)))
    }

    async fn broken(&mut self, spent: Spent) -> Option<Result<WatchEvent, ListWatchError>> {
        match spent {
            Spent::Fine | Spent::Ended => return None,
            Spent::Cut => {}
            Spent::Stalled => self.open.cancelled().await,
        }
        Some(Err(unavailable("connection reset")))
    }

    fn disturbed(&mut self, event: WatchEvent, nth: usize) -> WatchEvent {
        let is_bookmark = matches!(event, WatchEvent::Bookmark { .. });
        match &self.fault {
            Some(Fault::Malformed { nth: n }) if nth == *n => malformed(event),
            Some(Fault::Garbled { nth: n }) if nth == *n && !is_bookmark => WatchEvent::Malformed {
                op: Op::Updated,
                object: garbled(),
            },
            Some(Fault::DuplicateBookmarks) if is_bookmark && self.held.is_none() => {
                self.ready.push_front(event.clone());
                // What stands in `ready` now is the second of the two.
                self.held = Some(event.clone());
                event
            }
            Some(Fault::DuplicateBookmarks) => {
                self.held = None;
                event
            }
            _ => event,
        }
    }

    /// The next event as the source has it.
    async fn undisturbed(&mut self) -> Option<Result<WatchEvent, ListWatchError>> {
        let is_late = self.fault == Some(Fault::LateBookmarks);
        loop {
            self.bell.borrow_and_update();
            if self.open.is_cancelled() {
                return Some(Err(unavailable("connection reset")));
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match self.change() {
                Ok(Some(event)) => {
                    self.ready.extend(self.held.take().filter(|_| is_late));
                    return Some(Ok(event));
                }
                Ok(None) => {}
                Err(status) => return Some(Err(ListWatchError::Refused(status))),
            }
            tokio::select! {
                biased;
                () = self.open.cancelled() => {}
                _ = self.bell.changed() => {}
                () = sleep_until(self.deadline) => return None,
                () = sleep_until(self.next_bookmark), if self.request.bookmarks => {
                    match self.bookmark() {
                        Some(bookmark) if !is_late => return Some(Ok(bookmark)),
                        bookmark => self.held = bookmark,
                    }
                }
            }
        }
    }

    /// How far the watch is; nothing if it is from a version still to come, as API servers do.
    fn bookmark(&mut self) -> Option<WatchEvent> {
        let now = Instant::now();
        let last = last_bookmark(self.deadline);
        self.next_bookmark = match now < last {
            true => (now + BOOKMARK_EVERY).min(last),
            false => self.deadline + BOOKMARK_EVERY,
        };
        let is_ahead = self.cursor > self.source.version();
        (!is_ahead).then(|| WatchEvent::Bookmark {
            resource_version: self.cursor.into(),
            initial_events_end: false,
        })
    }

    /// The next change that this watch wants to see, if it happened already.
    fn change(&mut self) -> Result<Option<WatchEvent>, Status> {
        let source = self.source.clone();
        let collection = source.collection();
        // A version that is still to come is waited for, as API servers do.
        while let Some(past) = collection.after(self.cursor)? {
            self.cursor = past.version;
            if let Some(event) = self.event(past) {
                return Ok(Some(event));
            }
        }
        self.cursor = self.cursor.max(collection.version);
        Ok(None)
    }

    fn event(&self, past: &Past) -> Option<WatchEvent> {
        let selects = |object: &Option<Object>| {
            object
                .as_ref()
                .is_some_and(|object| is_selected(object, &self.request.labels, &self.request.fields))
        };
        match (selects(&past.before), selects(&past.after)) {
            (false, true) => Some(WatchEvent::Added(past.shown.clone())),
            (true, true) => Some(WatchEvent::Modified(past.shown.clone())),
            (true, false) if past.after.is_none() => Some(WatchEvent::Deleted(past.shown.clone())),
            (true, false) => past.departed().map(WatchEvent::Deleted),
            (false, false) => None,
        }
    }
}

fn last_bookmark(deadline: Instant) -> Instant {
    deadline.checked_sub(LAST_BOOKMARK).unwrap_or(deadline)
}

fn size(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.bytes().len()
        }
        _ => 1,
    }
}

fn malformed(event: WatchEvent) -> WatchEvent {
    let (op, object) = match &event {
        WatchEvent::Added(object) => (Op::Created, object),
        WatchEvent::Modified(object) => (Op::Updated, object),
        WatchEvent::Deleted(object) => (Op::Deleted, object),
        _ => return event,
    };
    let object = spoiled(object);
    WatchEvent::Malformed { op, object }
}
