//! One watch request: its events as they arrive, until the server ends it.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde_json::Value;
use skopos_object::{Malformed, Object, ObjectReader, Op, ResourceVersion, Status, WatchEvent, raw_path};
use tokio::time::{Instant, Sleep};

use crate::body::Chunks;
use crate::call::Reading;
use crate::lines::{Line, Lines, MAX_LINE_BYTES};
use crate::malformed::{malformed, named, read};
use crate::sips::Sips;
use crate::{Api, Call, Error};

/// How long a server may be silent beyond the time it was asked to keep the watch open.
const SILENCE: Duration = Duration::from_secs(15);

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchParams {
    /// Only objects with these labels; empty for all.
    pub label_selector: String,
    /// Only objects with these fields; empty for all.
    pub field_selector: String,
    /// Events after this revision; empty to begin with the present state.
    pub resource_version: String,
    /// Begin with the present state as added objects, then a bookmark that ends them.
    pub initial_events: bool,
    /// How long the server is asked to keep the watch open.
    pub timeout: Duration,
}

impl Default for WatchParams {
    /// Everything from now on, for just under five minutes.
    fn default() -> Self {
        Self {
            label_selector: String::new(),
            field_selector: String::new(),
            resource_version: String::new(),
            initial_events: false,
            timeout: Duration::from_secs(290),
        }
    }
}

/// The events of one watch.
#[derive(Debug)]
pub struct WatchStream {
    request: String,
    reader: ObjectReader,
    chunks: Chunks,
    lines: Lines,
    /// While the initial events come.
    sips: Option<Sips>,
    patience: Duration,
    heard: Instant,
    /// Whether something came since. The clock is read only when there is nothing more.
    is_heard: bool,
    /// Made when there is first something to wait for, and set anew only when it goes off.
    timer: Option<Pin<Box<Sleep>>>,
}

impl WatchStream {
    pub(crate) async fn open(api: &Api, params: &WatchParams) -> Result<Self, Error> {
        let call = Call::get(api.path())
            .query("watch", "true")
            .query("allowWatchBookmarks", "true")
            .query("timeoutSeconds", &params.timeout.as_secs().to_string())
            .query_if("labelSelector", &params.label_selector)
            .query_if("fieldSelector", &params.field_selector)
            .query_if("resourceVersion", &params.resource_version)
            .query_if(
                "sendInitialEvents",
                if params.initial_events { "true" } else { "" },
            )
            .query_if(
                "resourceVersionMatch",
                if params.initial_events { "NotOlderThan" } else { "" },
            );
        let call = call.accept(api.object_media_type()).reading(Reading::Watch);
        let answer = api.client().open(&call).await?;
        Ok(Self {
            request: format!("watch of {}", call.path),
            reader: api.reader(),
            chunks: answer.chunks,
            lines: Lines::new(MAX_LINE_BYTES),
            sips: params.initial_events.then(Sips::default),
            patience: params.timeout + SILENCE,
            heard: Instant::now(),
            is_heard: false,
            timer: None,
        })
    }

    /// Returns the next event, or `None` when the server has ended the watch. Safe to cancel.
    ///
    /// An error event, such as for a revision that is too old, is an [`Error::Refused`].
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<WatchEvent>, Error>> {
        loop {
            let reader = &self.reader;
            if let Some(event) = self.lines.next(|line| event(reader, line)) {
                if ends_initial_events(&event) {
                    self.sips = None;
                }
                return Poll::Ready(event.map(Some).map_err(|failure| self.failed(failure)));
            }
            if let Some(sips) = &mut self.sips {
                ready!(sips.poll_pause(cx));
            }
            match self.chunks.poll_next(cx) {
                Poll::Ready(Ok(Some(chunk))) => {
                    if let Some(sips) = &mut self.sips {
                        sips.took(chunk.len());
                    }
                    self.lines.push(chunk);
                }
                Poll::Ready(Ok(None)) => return Poll::Ready(self.end()),
                Poll::Ready(Err(source)) => return Poll::Ready(Err(self.interrupted(source))),
                Poll::Pending => {
                    if let Some(sips) = &mut self.sips {
                        sips.emptied();
                    }
                    return self.poll_silence(cx).map(Err);
                }
            }
            self.is_heard = true;
        }
    }

    /// Nothing is there: waits for so long as a server may be silent.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        if std::mem::take(&mut self.is_heard) {
            self.heard = Instant::now();
        }
        let deadline = self.heard + self.patience;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if deadline <= Instant::now() {
                return Poll::Ready(Error::TimedOut {
                    request: self.request.clone(),
                    after: self.patience,
                });
            }
            timer.as_mut().reset(deadline);
        }
    }

    /// The body is over. A last event may lack its line end; one that lacks more was cut off.
    fn end(&mut self) -> Result<Option<WatchEvent>, Error> {
        let Some(line) = self.lines.last() else {
            return Ok(None);
        };
        let whole = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        let last = whole.then(|| event(&self.reader, Line::Whole(line)));
        self.lines = Lines::new(MAX_LINE_BYTES);
        match last {
            Some(event) => event.map(Some).map_err(|failure| self.failed(failure)),
            None => Err(self.interrupted("it ends within an event".into())),
        }
    }

    fn interrupted(&self, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
        Error::Interrupted {
            request: self.request.clone(),
            source,
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::Refused(status) => Error::Refused(Box::new(status)),
            Failure::Unreadable(detail) => Error::Unexpected {
                request: self.request.clone(),
                detail,
            },
        }
    }
}

fn ends_initial_events(event: &Result<WatchEvent, Failure>) -> bool {
    matches!(
        event,
        Ok(WatchEvent::Bookmark {
            initial_events_end: true,
            ..
        })
    )
}

/// Why a line is the end of a watch.
#[derive(Debug)]
enum Failure {
    Refused(Status),
    Unreadable(String),
}

/// Reads one line. Only what is wrong with the line itself, not with the object in it, ends the watch.
fn event(reader: &ObjectReader, line: Line<'_>) -> Result<WatchEvent, Failure> {
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLarge(beginning) => return too_large(beginning),
    };
    if let Some((op, rest)) = usual_beginning(line)
        && let Ok(Some((object, end))) = reader.read_prefix(rest)
        && rest[end..].trim_ascii() == b"}"
    {
        return Ok(change(op, named(object)));
    }
    let kind = raw_path(line, &["type"]).ok_or_else(|| unreadable("an event without a type"))?;
    let object = raw_path(line, &["object"]).unwrap_or_default();
    match kind {
        b"\"BOOKMARK\"" => bookmark(object).map_err(Failure::Unreadable),
        b"\"ERROR\"" => Err(failure(object).map_or_else(Failure::Unreadable, Failure::Refused)),
        _ => Ok(change(op(kind)?, read(reader, object))),
    }
}

/// The operation and what follows it, if a line begins as servers write them. Saves a search through the line.
fn usual_beginning(line: &[u8]) -> Option<(Op, &[u8])> {
    for (beginning, op) in [
        (&br#"{"type":"MODIFIED","object":"#[..], Op::Updated),
        (br#"{"type":"ADDED","object":"#, Op::Created),
        (br#"{"type":"DELETED","object":"#, Op::Deleted),
    ] {
        if let Some(rest) = line.strip_prefix(beginning) {
            return Some((op, rest));
        }
    }
    None
}

fn op(kind: &[u8]) -> Result<Op, Failure> {
    match kind {
        b"\"ADDED\"" => Ok(Op::Created),
        b"\"MODIFIED\"" => Ok(Op::Updated),
        b"\"DELETED\"" => Ok(Op::Deleted),
        other => {
            let shown = String::from_utf8_lossy(&other[..other.len().min(40)]).into_owned();
            Err(unreadable(&format!("an event of unknown type {shown}")))
        }
    }
}

fn change(op: Op, object: Result<Object, Malformed>) -> WatchEvent {
    match (object, op) {
        (Ok(object), Op::Created) => WatchEvent::Added(object),
        (Ok(object), Op::Updated) => WatchEvent::Modified(object),
        (Ok(object), Op::Deleted) => WatchEvent::Deleted(object),
        (Err(object), op) => WatchEvent::Malformed { op, object },
    }
}

fn too_large(beginning: &[u8]) -> Result<WatchEvent, Failure> {
    let reason = format!("its event is larger than {MAX_LINE_BYTES} bytes");
    let kind = raw_path(beginning, &["type"]).ok_or_else(|| unreadable(&reason))?;
    let object = raw_path(beginning, &["object"]).unwrap_or_default();
    Ok(change(op(kind)?, Err(malformed(object, reason))))
}

fn unreadable(detail: &str) -> Failure {
    Failure::Unreadable(detail.to_owned())
}

/// Reads the revision of a bookmark, and whether it ends the initial events.
fn bookmark(raw: &[u8]) -> Result<WatchEvent, String> {
    let version =
        raw_path(raw, &["metadata", "resourceVersion"]).ok_or("a bookmark without resourceVersion")?;
    let version: String = serde_json::from_slice(version).map_err(|error| error.to_string())?;
    let end = raw_path(raw, &["metadata", "annotations", "k8s.io/initial-events-end"]);
    Ok(WatchEvent::Bookmark {
        resource_version: ResourceVersion::new(version),
        initial_events_end: end == Some(b"\"true\""),
    })
}

fn failure(raw: &[u8]) -> Result<Status, String> {
    let value: Value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
    Status::parse(&value).ok_or_else(|| "an error event without a status".to_owned())
}
