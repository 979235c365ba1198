//! Watches read event by event, and a clock that stands still.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use serde_json::Value;

use crate::harness::{PATIENCE, Response, Server};

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) object: Value,
}

impl Event {
    /// `ADDED a`, for comparisons at a glance.
    pub(crate) fn brief(&self) -> String {
        format!(
            "{} {}",
            self.kind,
            self.object["metadata"]["name"].as_str().unwrap_or("")
        )
    }
}

/// A watch under way.
pub(crate) struct Watch<'a> {
    server: &'a Server,
    pub(crate) headers: HeaderMap,
    body: UnsyncBoxBody<Bytes, String>,
    pending: Vec<u8>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(server: &'a Server, response: Response) -> Watch<'a> {
        Watch {
            server,
            headers: response.headers().clone(),
            body: response.into_body(),
            pending: Vec::new(),
        }
    }

    /// The next event; there must be one.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Event> {
        let caller = std::panic::Location::caller();
        async move {
            self.try_next()
                .await
                .unwrap_or_else(|| panic!("the watch of {caller} has ended"))
        }
    }

    /// The next event, or `None` at the end of the stream.
    pub(crate) async fn try_next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                let line = self.server.inbound(line.into());
                let mut event: Value = serde_json::from_slice(&line).unwrap();
                Server::forget_managers(&mut event);
                let kind = event["type"].as_str().unwrap().to_owned();
                return Some(Event {
                    kind,
                    object: event["object"].take(),
                });
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .expect("an event in time")?;
            if let Ok(data) = frame.unwrap().into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
    }

    /// So many events, each as `KIND name`.
    #[track_caller]
    pub(crate) fn briefs(&mut self, n: usize) -> impl Future<Output = Vec<String>> {
        let caller = std::panic::Location::caller();
        async move {
            let mut found = Vec::new();
            while found.len() < n {
                let event = self.try_next().await;
                let event =
                    event.unwrap_or_else(|| panic!("the watch of {caller} has ended after {found:?}"));
                found.push(event.brief());
            }
            found
        }
    }
}

/// Stops the clock of the test: it moves only by [`Clock::advance`].
///
/// A paused clock runs ahead while nothing in the runtime has work, and the store commits on a thread of its
/// own; a blocking task that never ends keeps it from doing so.
pub(crate) struct Clock {
    _release: std::sync::mpsc::SyncSender<()>,
}

impl Clock {
    pub(crate) fn stop() -> Clock {
        let (release, wait) = std::sync::mpsc::sync_channel::<()>(0);
        tokio::task::spawn_blocking(move || wait.recv());
        tokio::time::pause();
        Clock { _release: release }
    }

    pub(crate) async fn advance(&self, by: Duration) {
        // Whoever is about to sleep gets to it first.
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(by).await;
    }
}
