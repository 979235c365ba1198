//! Watch: what there is, then every change, until the client, the clock or the history says stop.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use skopos_object::Status;
use skopos_store::{Compacted, Entry, Event, EventOp, Range, Revision, Watcher};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::Filter;
use super::list::prefix_of;
use crate::call::{Answer, Call};
use crate::edge::ResponseBody;
use crate::options::ListOptions;
use crate::present::{self, Purpose, Wanted};
use crate::registry::{Registry, Resource};
use crate::state::Shared;
use crate::versions;
use crate::write::ObjectExt as _;

/// How long before its deadline a watch gets its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// No watch is longer, whatever the client asks for.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many initial objects are put into one buffer.
const INITIAL_BATCH: usize = 64;

pub(crate) async fn watch(shared: &Shared, call: &Call) -> Result<Answer, Status> {
    let wanted = Wanted::negotiate(&call.headers, &call.query, &call.resource, Purpose::Watch)?;
    let mut options = ListOptions::parse(&call.query, true)?;
    if !call.target.name.is_empty() {
        options.fields = skopos_object::FieldSelector::parse(&format!("metadata.name={}", call.target.name))
            .map_err(|e| Status::bad_request(e.to_string()))?;
    }
    let filter = Filter::new(&call.resource, &options)?;
    let view = View {
        resource: Arc::clone(&call.resource),
        registry: Arc::clone(&shared.registry),
        serial: 0,
        filter,
        wanted: wanted.clone(),
        sent_any: false,
    };
    // Initial events must not be older than the version that was asked for.
    let at_least = options
        .resource_version
        .filter(|_| options.send_initial_events == Some(true));
    let waited = super::wait_for_version(shared, at_least.unwrap_or(0)).await;
    let mut started = Stream::start(shared, call, &options, view);
    if let Err(status) = waited {
        started.phase = Phase::Failing(status);
    }
    let events = stream::unfold(started, |mut stream| async move {
        let frame = stream.next_frame().await?;
        Some((Ok::<_, io::Error>(Frame::data(frame)), stream))
    });
    let response = http::Response::builder()
        .header(CONTENT_TYPE, wanted.watch_content_type())
        .body(ResponseBody::stream(StreamBody::new(events)))
        .expect("the headers are constants");
    Ok(Answer::Response(Box::new(response)))
}

/// How changes look to one watching client.
struct View {
    /// As of the last event: a definition may change while its objects are watched.
    resource: Arc<Resource>,
    registry: Arc<ArcSwap<Registry>>,
    serial: u64,
    filter: Filter,
    wanted: Wanted,
    sent_any: bool,
}

/// One watch under way.
struct Stream {
    view: View,
    phase: Phase,
    deadline: Instant,
    bookmarks: Option<Bookmarks>,
    /// Cancelled when the definition of what is watched is gone.
    gone: CancellationToken,
    /// Rings for the next bookmark or the end; kept, because setting one anew for every event is costly.
    alarm: Pin<Box<Sleep>>,
}

enum Phase {
    /// What existed at the start, still to be sent, then the changes after it.
    Initial {
        items: std::vec::IntoIter<Arc<Entry>>,
        revision: Revision,
        mark_end: bool,
        watcher: Watcher,
    },
    Live(Watcher),
    /// One last error, then the end.
    Failing(Status),
    Ended,
}

struct Bookmarks {
    every: Duration,
    next: Instant,
}

impl Stream {
    fn start(shared: &Shared, call: &Call, options: &ListOptions, view: View) -> Stream {
        let now = Instant::now();
        let timeout = options
            .timeout
            .unwrap_or_else(|| shared.settings.default_watch_timeout())
            .min(MAX_TIMEOUT);
        let every = shared.settings.bookmark_interval;
        // A watch too short for a last bookmark gets none.
        let last = timeout
            .checked_sub(LAST_BOOKMARK)
            .filter(|rest| !rest.is_zero())
            .map(|rest| now + rest);
        let next = last.map_or(now + every, |last| last.min(now + every));
        let bookmarks = options.allow_bookmarks.then_some(Bookmarks { every, next });
        let phase = Phase::start(shared, call, options, &view);
        let custom = call.resource.custom();
        Stream {
            gone: custom.map(|custom| custom.gone.clone()).unwrap_or_default(),
            view,
            phase,
            deadline: now + timeout,
            bookmarks,
            alarm: Box::pin(tokio::time::sleep_until(now + timeout)),
        }
    }

    /// The next piece of the stream; `None` at its end.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            match &mut self.phase {
                Phase::Initial { .. } => {
                    if let Some(frame) = self.next_initial() {
                        return Some(frame);
                    }
                }
                Phase::Live(watcher) => {
                    let bookmark_at = self.bookmarks.as_ref().map(|b| b.next);
                    let wake_at = bookmark_at.map_or(self.deadline, |at| at.min(self.deadline));
                    if self.alarm.deadline() != wake_at {
                        self.alarm.as_mut().reset(wake_at);
                    }
                    tokio::select! {
                        biased;
                        events = watcher.next() => match events {
                            Ok(_) if !self.view.is_served() => return None,
                            Ok(events) => {
                                let frame = self.view.changes(&events);
                                if !frame.is_empty() {
                                    return Some(frame);
                                }
                            }
                            Err(compacted) => self.phase = Phase::Failing(too_old(&compacted)),
                        },
                        // All that the definition left behind has been told above.
                        () = self.gone.cancelled() => return None,
                        () = self.alarm.as_mut() => {
                            if Instant::now() >= self.deadline {
                                return None;
                            }
                            if let Some(bookmark) = self.bookmark() {
                                return Some(bookmark);
                            }
                        }
                    }
                }
                Phase::Failing(status) => {
                    let frame = self.view.event("ERROR", &status.to_json());
                    self.phase = Phase::Ended;
                    return Some(frame);
                }
                Phase::Ended => return None,
            }
        }
    }

    fn next_initial(&mut self) -> Option<Bytes> {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let Phase::Initial {
            mut items,
            revision,
            mark_end,
            watcher,
        } = phase
        else {
            self.phase = phase;
            return None;
        };
        let mut frame = BytesMut::new();
        for entry in items.by_ref().take(INITIAL_BATCH) {
            self.view.push_entry(&mut frame, "ADDED", &entry);
        }
        if frame.is_empty() && items.len() == 0 {
            self.phase = Phase::Live(watcher);
            return mark_end.then(|| self.view.bookmark(revision, true));
        }
        self.phase = Phase::Initial {
            items,
            revision,
            mark_end,
            watcher,
        };
        Some(frame.freeze())
    }

    /// How far the watch is. One from a version still to come hears nothing: a client that brings it from another
    /// server must not be told that all is well.
    fn bookmark(&mut self) -> Option<Bytes> {
        if let Some(bookmarks) = &mut self.bookmarks {
            let last = self.deadline.checked_sub(LAST_BOOKMARK).unwrap_or(self.deadline);
            let next = Instant::now() + bookmarks.every;
            bookmarks.next = if Instant::now() >= last {
                self.deadline
            } else {
                next.min(last)
            };
        }
        match &self.phase {
            Phase::Live(watcher) if !watcher.is_ahead() => {
                Some(self.view.bookmark(watcher.progress(), false))
            }
            _ => None,
        }
    }
}

impl Phase {
    fn start(shared: &Shared, call: &Call, options: &ListOptions, view: &View) -> Phase {
        let space = &call.resource.space;
        let prefix = match view.filter.exact_name() {
            Some(name) if !call.target.namespace.is_empty() || !call.resource.namespaced => {
                call.resource.key(&call.target.namespace, name)
            }
            _ => prefix_of(call),
        };
        let version = options.resource_version.unwrap_or(0);
        let wants_initial = options.send_initial_events.unwrap_or(version == 0);
        if !wants_initial {
            let after = if version == 0 {
                shared.store.revision()
            } else {
                Revision(version)
            };
            return match shared.store.watch(space, &prefix, after) {
                Ok(watcher) => Phase::Live(watcher),
                Err(compacted) => Phase::Failing(too_old(&compacted)),
            };
        }
        // The watch begins at the revision of the list, so nothing can fall between them.
        let range = Range {
            prefix: prefix.clone(),
            ..Range::default()
        };
        let listed = shared.store.list(space, &range);
        let started = listed.and_then(|page| Ok((shared.store.watch(space, &prefix, page.revision)?, page)));
        match started {
            Err(compacted) => Phase::Failing(too_old(&compacted)),
            Ok((watcher, mut page)) => {
                page.items
                    .retain(|entry| view.filter.matches(&view.resource, entry));
                Phase::Initial {
                    items: page.items.into_iter(),
                    revision: page.revision,
                    mark_end: options.allow_bookmarks,
                    watcher,
                }
            }
        }
    }
}

impl View {
    /// Takes up changes of the definition; false when the version that is watched is served no more.
    fn is_served(&mut self) -> bool {
        let registry = self.registry.load();
        if registry.serial() == self.serial {
            return true;
        }
        self.serial = registry.serial();
        let Resource {
            group,
            version,
            plural,
            ..
        } = &*self.resource;
        if let Some(resource) = registry.find(group, version, plural) {
            self.resource = Arc::clone(resource);
            return true;
        }
        // What a definition leaves behind when it goes is still told.
        let definition = self.resource.custom().map(|custom| &custom.definition);
        definition.is_none_or(|name| registry.definition(name).is_none())
    }

    /// The changes of a batch as this client sees them; may be empty.
    fn changes(&mut self, events: &[Arc<Event>]) -> Bytes {
        let mut frame = BytesMut::new();
        for event in events {
            self.push_change(&mut frame, event);
        }
        frame.freeze()
    }

    fn push_change(&mut self, frame: &mut BytesMut, event: &Event) {
        let filter = &self.filter;
        let all = filter.is_everything();
        let matches = |entry: &Arc<Entry>| all || filter.matches(&self.resource, entry);
        let was_in = event.previous.as_ref().is_some_and(matches);
        let is_in = event.op == EventOp::Put && matches(&event.entry);
        match (was_in, is_in) {
            (false, true) => self.push_entry(frame, "ADDED", &event.entry),
            (true, true) => self.push_entry(frame, "MODIFIED", &event.entry),
            (true, false) if event.op == EventOp::Delete => self.push_entry(frame, "DELETED", &event.entry),
            (true, false) => self.push_departed(frame, event),
            (false, false) => {}
        }
    }

    /// The object has left the selection: its last state inside, at the version of the change.
    fn push_departed(&mut self, frame: &mut BytesMut, event: &Event) {
        let Some(previous) = &event.previous else { return };
        let Ok(mut object) = versions::from_entry(&self.resource, previous) else {
            return;
        };
        object.set_meta("resourceVersion", event.revision().to_string());
        let line = self.event("DELETED", &object);
        frame.extend_from_slice(&line);
    }

    fn push_entry(&mut self, frame: &mut BytesMut, kind: &str, entry: &Entry) {
        if self.wanted.is_plain_json() && versions::is_servable_as_stored(&self.resource, entry) {
            self.sent_any = true;
            frame.reserve(entry.value.len() + 40);
            for part in [
                br#"{"type":""#,
                kind.as_bytes(),
                br#"","object":"#,
                &entry.value,
                b"}\n",
            ] {
                frame.extend_from_slice(part);
            }
            return;
        }
        match versions::from_entry(&self.resource, entry) {
            Ok(object) => {
                let line = self.event(kind, &object);
                frame.extend_from_slice(&line);
            }
            Err(status) => tracing::error!(key = %entry.key, error = %status.message, "left out of a watch"),
        }
    }

    fn event(&mut self, kind: &str, object: &Value) -> Bytes {
        let first = !std::mem::replace(&mut self.sent_any, true);
        let now = jiff::Timestamp::now().as_second();
        present::watch_event(&self.wanted, &self.resource, kind, object, first, now)
    }

    fn bookmark(&mut self, revision: Revision, ends_initial: bool) -> Bytes {
        let mut object = json!({
            "apiVersion": self.resource.api_version(),
            "kind": self.resource.kind,
            "metadata": {"resourceVersion": revision.to_string()},
        });
        if ends_initial {
            object.set_meta("annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        self.event("BOOKMARK", &object)
    }
}

fn too_old(compacted: &Compacted) -> Status {
    Status::expired(compacted.to_string())
}
