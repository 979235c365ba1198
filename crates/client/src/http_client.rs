//! One request, one answer: the thin layer between our verbs and [`kube::Client`].

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response, Uri, header};
use kube::client::Body;
use serde_json::Value;
use skopos_object::{HistoryId, ListWatchError, Reason, Status};
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};

use crate::body::Chunks;
use crate::call::{Call, IDENTITY};
use crate::guard::Sent;
use crate::history::HistoryOfServer;
use crate::limits::{Bucket, Limits, Retry};
use crate::requests::Requests;
use crate::warning::warnings;
use crate::{Error, Fate, WriteGuard};

/// A handle on one API server. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    server: Arc<str>,
    /// What lists are asked to be encoded as.
    list_encoding: &'static str,
    rate: Option<Arc<Bucket>>,
    retry: Retry,
    guard: Option<Arc<dyn WriteGuard>>,
    history: Arc<HistoryOfServer>,
    pub(crate) requests: Arc<Requests>,
    /// The user that requests are made as, if it is not who is connected.
    pub(crate) acting_as: Option<Arc<str>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The most that an answer other than a list or a watch may take.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// How long an answer other than a list or a watch may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What the server answered to a call that succeeded.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status, such as 200 or 201.
    pub code: u16,
    /// The body.
    pub value: Value,
    /// The texts of its `Warning` headers.
    pub warnings: Vec<String>,
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Opened {
    code: u16,
    headers: HeaderMap,
    pub(crate) chunks: Chunks,
}

impl Client {
    /// Wraps a [`kube::Client`]; `server` is what messages call it.
    ///
    /// Give it a client made over a tower service to talk to a server in this process.
    pub fn new(kube: kube::Client, server: &str) -> Self {
        Self {
            kube,
            server: server.into(),
            list_encoding: list_encoding(server),
            rate: None,
            retry: Retry::NEVER,
            guard: None,
            history: Arc::default(),
            requests: Arc::new(Requests::to(server)),
            acting_as: None,
        }
    }

    /// Keeps to limits, which clones made from here on share. Without this every request is sent once and at once.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.rate = limits.rate.map(|rate| Arc::new(Bucket::new(rate)));
        self.retry = limits.retry;
        self
    }

    /// Asks `guard` before every write of this client and its clones. The guard before it, if any, is replaced.
    ///
    /// What is sent through [`kube`](Self::kube) is not guarded.
    #[must_use]
    pub fn guarded(mut self, guard: Arc<dyn WriteGuard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// The same connection without limits and guards. Its requests are counted with those of this one.
    #[must_use]
    pub fn unlimited(&self) -> Self {
        Self {
            rate: None,
            retry: Retry::NEVER,
            guard: None,
            ..self.clone()
        }
    }

    /// Knows the server by the uid of this namespace instead of that of `kube-system`, for who may not read that one. A
    /// namespace that is deleted and made again then looks like a server that lost its data.
    #[must_use]
    pub fn known_by(mut self, namespace: &str) -> Self {
        self.history = Arc::new(HistoryOfServer::of(namespace));
        self
    }

    pub(crate) async fn history(&self) -> Result<Option<HistoryId>, ListWatchError> {
        self.history.ask(self).await
    }

    /// Returns the wrapped client, for users of typed APIs.
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// Returns the address of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the namespace that the connection's context names.
    pub fn default_namespace(&self) -> &str {
        self.kube.default_namespace()
    }

    /// Sends a request and reads its answer whole. Sends it again where [`Retry`] says so.
    pub async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let span = info_span!("request", method = call.method.as_str(), path = call.path);
        self.call_until_answered(call).instrument(span).await
    }

    async fn call_until_answered(&self, call: &Call) -> Result<Answer, Error> {
        let begin = Instant::now();
        let mut failures = 0;
        loop {
            let error = match self.call_once(call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            match self.retry.pause(call, &error, failures, begin) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    async fn call_once(&self, call: &Call) -> Result<Answer, Error> {
        let Some(guard) = self.guard.as_ref().filter(|_| call.method != Method::GET) else {
            return self.answer_before(call, Instant::now() + ANSWER_TIMEOUT).await;
        };
        let admitted = guard.admit(call).map_err(|source| Error::Withheld {
            request: call.describe(),
            source,
        })?;
        let latest = Instant::now() + ANSWER_TIMEOUT;
        let until = admitted.map_or(latest, |until| until.min(latest));
        let mut sent = Sent {
            guard: &**guard,
            call,
            fate: Fate::Unknown,
        };
        let answer = self.answer_before(call, until).await;
        match &answer {
            Ok(answer) => {
                sent.fate = Fate::Known;
                guard.written(call, answer);
            }
            // A server that fails may have begun.
            Err(error) if error.status().is_some_and(|status| status.code < 500) => sent.fate = Fate::Known,
            Err(_) => {}
        }
        answer
    }

    async fn answer_before(&self, call: &Call, until: Instant) -> Result<Answer, Error> {
        let begin = Instant::now();
        let work = async {
            let opened = self.open(call).await?;
            let code = opened.code;
            let warnings = warnings(&opened.headers);
            let bytes = read(call, opened.chunks, MAX_ANSWER_BYTES).await?;
            let value = serde_json::from_slice(&bytes).map_err(|error| Error::Unexpected {
                request: call.describe(),
                detail: error.to_string(),
            })?;
            Ok(Answer {
                code,
                value,
                warnings,
            })
        };
        before(until, work).await.unwrap_or_else(|| {
            Err(Error::TimedOut {
                request: call.describe(),
                after: until.saturating_duration_since(begin),
            })
        })
    }

    /// Sends a request and returns its answer unread, once the server has accepted it.
    pub(crate) async fn open(&self, call: &Call) -> Result<Opened, Error> {
        if let Some(rate) = &self.rate {
            rate.permission().await;
        }
        let request = call.request(self.list_encoding, self.acting_as.as_deref())?;
        let sending = self.requests.begin(&call.method);
        let sent = self.kube.send(request).await;
        let response = sent.map_err(|source| Error::Unreachable {
            server: self.server.to_string(),
            source: source.into(),
        })?;
        sending.answered(response.status().as_u16());
        let opened = Opened::new(response);
        if (200..300).contains(&opened.code) {
            return Ok(opened);
        }
        Err(refusal(call, opened).await)
    }
}

impl Opened {
    fn new(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            code: head.status.as_u16(),
            chunks: Chunks::new(&head.headers, body),
            headers: head.headers,
        }
    }
}

/// Does `work` only before `until`, at which is looked each time before it goes on: a process that was paused meanwhile
/// sends nothing more of what it had begun, although no timer has told it yet.
async fn before<T>(until: Instant, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(tokio::time::timeout_at(until, work));
    poll_fn(|cx| match Instant::now() < until {
        true => work.as_mut().poll(cx).map(Result::ok),
        false => Poll::Ready(None),
    })
    .await
}

/// Compressed lists take a fifth to a twentieth of the bytes and cost kube-apiserver no more than encrypting what they
/// save. From a server on this machine bytes cost next to nothing: docs/benchmarks.md#lists-compressed-or-not.
fn list_encoding(server: &str) -> &'static str {
    let far = server.parse::<Uri>().is_ok_and(|uri| {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let ip = host.parse::<IpAddr>();
        uri.scheme().is_some() && host != "localhost" && !ip.is_ok_and(|ip| ip.is_loopback())
    });
    if far { "gzip" } else { IDENTITY }
}

async fn refusal(call: &Call, opened: Opened) -> Error {
    const MAX_STATUS_BYTES: usize = 1 << 20;
    let bytes = match read(call, opened.chunks, MAX_STATUS_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) => return error,
    };
    let parsed: Option<Status> = serde_json::from_slice::<Value>(&bytes)
        .ok()
        .and_then(|value| Status::parse(&value));
    let mut status = parsed.unwrap_or_else(|| plain_status(opened.code, &bytes));
    if status.retry_after_seconds().is_none()
        && let Some(seconds) = retry_after(&opened.headers)
    {
        status.details.get_or_insert_default().retry_after_seconds = seconds;
    }
    Error::Refused(Box::new(status))
}

/// Reads the header in seconds. Its other form, a date, is not in use among API servers.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Reads a body, but no more of it than `limit`.
async fn read(call: &Call, mut chunks: Chunks, limit: usize) -> Result<Bytes, Error> {
    let mut all = BytesMut::new();
    loop {
        let chunk = chunks.next().await.map_err(|source| Error::Interrupted {
            request: call.describe(),
            source,
        })?;
        let Some(chunk) = chunk else {
            return Ok(all.freeze());
        };
        if all.len() + chunk.len() > limit {
            let detail = format!("it is larger than {limit} bytes");
            return Err(Error::Unexpected {
                request: call.describe(),
                detail,
            });
        }
        all.extend_from_slice(&chunk);
    }
}

/// Makes a status of an error that did not come as one, such as a proxy's.
fn plain_status(code: u16, body: &[u8]) -> Status {
    const SHOWN: usize = 300;
    let text: String = String::from_utf8_lossy(body).trim().chars().take(SHOWN).collect();
    let message = if text.is_empty() {
        format!("the server answered {code}")
    } else {
        text
    };
    let mut status = Status::internal(&message);
    status.code = code;
    status.message = message;
    status.reason = match code {
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        404 => Reason::NotFound,
        410 => Reason::Gone,
        429 => Reason::TooManyRequests,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        _ => Reason::Unknown,
    };
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_from_other_machines_are_asked_for_compressed() {
        for (server, encoding) in [
            ("https://10.0.0.1:6443", "gzip"),
            ("https://api.example.com", "gzip"),
            ("https://127.0.0.1:6443", IDENTITY),
            ("https://localhost", IDENTITY),
            ("https://[::1]:6443", IDENTITY),
            ("in-process", IDENTITY),
            ("in process", IDENTITY),
        ] {
            assert_eq!(list_encoding(server), encoding, "{server}");
        }
    }
}
