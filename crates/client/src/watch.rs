//! One watch request: its events as they arrive, until the server ends it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;
use memchr::memchr;
use serde_json::Value;
use skopos_object::{ResourceVersion, Status, WatchEvent, raw_path};

use crate::list::object;
use crate::resource::Resource;
use crate::{Api, Call, Error};

/// The most that one event may take.
const MAX_EVENT_BYTES: usize = 16 << 20;
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
    resource: Resource,
    body: Body,
    buffer: BytesMut,
    patience: Duration,
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
        let response = api.client().open(&call).await?;
        Ok(Self {
            request: format!("watch of {}", call.path),
            resource: api.resource().clone(),
            body: response.into_body(),
            buffer: BytesMut::new(),
            patience: params.timeout + SILENCE,
        })
    }

    /// Returns the next event, or `None` when the server has ended the watch. Safe to cancel.
    ///
    /// An error event, such as for a revision that is too old, is an [`Error::Refused`].
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        loop {
            if let Some(line) = self.line() {
                return self.event(&line).map(Some);
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Err(self.unexpected(format!("an event is larger than {MAX_EVENT_BYTES} bytes")));
            }
            let Ok(frame) = tokio::time::timeout(self.patience, self.body.frame()).await else {
                return Err(Error::TimedOut {
                    request: self.request.clone(),
                    after: self.patience,
                });
            };
            match frame {
                None => return Ok(None),
                Some(Err(source)) => {
                    return Err(Error::Interrupted {
                        request: self.request.clone(),
                        source: source.into(),
                    });
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// Takes the next whole line that is not blank.
    fn line(&mut self) -> Option<Bytes> {
        loop {
            let end = memchr(b'\n', &self.buffer)?;
            let line = self.buffer.split_to(end + 1).freeze();
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    fn event(&self, line: &Bytes) -> Result<WatchEvent, Error> {
        let missing = |what: &str| self.unexpected(format!("an event without {what}"));
        let kind = raw_path(line, &["type"]).ok_or_else(|| missing("a type"))?;
        let raw = raw_path(line, &["object"]).ok_or_else(|| missing("an object"))?;
        let parse = || object(line.slice_ref(raw), &self.resource);
        let event = match kind {
            b"\"ADDED\"" => parse().map(WatchEvent::Added),
            b"\"MODIFIED\"" => parse().map(WatchEvent::Modified),
            b"\"DELETED\"" => parse().map(WatchEvent::Deleted),
            b"\"BOOKMARK\"" => bookmark(raw),
            b"\"ERROR\"" => match failure(raw) {
                Ok(status) => return Err(Error::Refused(Box::new(status))),
                Err(detail) => Err(detail),
            },
            other => Err(format!(
                "an event of unknown type {}",
                String::from_utf8_lossy(other)
            )),
        };
        event.map_err(|detail| self.unexpected(detail))
    }

    fn unexpected(&self, detail: String) -> Error {
        Error::Unexpected {
            request: self.request.clone(),
            detail,
        }
    }
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
