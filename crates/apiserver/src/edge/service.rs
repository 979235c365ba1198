//! The chain of filters in front of the handler, as a tower service.
//!
//! Order, outermost first: panic, audit id, deadline, authentication, impersonation, local paths, in-flight
//! limits, body, handler.

use std::convert::Infallible;
use std::fmt;
use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};
use http_body::Body;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::admission::{Admission, Kind, Slot};
use super::answer::{self, Format, Refusal};
use super::authenticate::{Authenticator, Login, Peer, admit_login};
use super::body::ResponseBody;
use super::deadline::requested_timeout;
use super::impersonate::impersonate;
use super::limits::Limits;
use super::local::{self, HealthCheck, Local, Probe};
use super::metrics::Metrics;
use super::read;
use super::seam::{Handler, Request, RequestLabels, User};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const LONGEST_AUDIT_ID: usize = 64;
const ALLOTTED: &str = "request did not complete within the allotted timeout";
const REQUESTED: &str = "request did not complete within requested timeout - context deadline exceeded";

/// What an [`Edge`] is made of.
#[derive(Debug, Default)]
pub(crate) struct EdgeConfig {
    /// Bounds and timeouts.
    pub(crate) limits: Limits,
    /// Who may ask.
    pub(crate) authenticator: Authenticator,
    /// Checks between `log` and `shutdown`.
    pub(crate) checks: Vec<HealthCheck>,
}

/// The outer edge of the API server: a cloneable service in front of a [`Handler`].
///
/// As a service it treats requests as coming from the network; [`Edge::in_process`] gives the same chain with
/// a fixed user.
pub(crate) struct Edge<H> {
    shared: Arc<Shared<H>>,
}

pub(super) struct Shared<H> {
    pub(super) handler: H,
    pub(super) limits: Limits,
    pub(super) authenticator: Authenticator,
    pub(super) metrics: Arc<Metrics>,
    admission: Admission,
    checks: Vec<HealthCheck>,
    pub(super) draining: CancellationToken,
}

impl<H: Handler> Edge<H> {
    /// Puts the chain in front of `handler`.
    pub(crate) fn new(handler: H, config: EdgeConfig) -> Self {
        let EdgeConfig {
            limits,
            authenticator,
            checks,
        } = config;
        let metrics = Arc::new(Metrics::default());
        let draining = CancellationToken::new();
        let admission = Admission::new(&limits, &metrics);
        let checks = with_own_checks(checks, draining.clone());
        Self {
            shared: Arc::new(Shared {
                handler,
                limits,
                authenticator,
                metrics,
                admission,
                checks,
                draining,
            }),
        }
    }

    /// The same chain for a client in this process, who is `user` whatever the request says.
    #[must_use]
    pub(crate) fn in_process(&self, user: User) -> EdgeService<H> {
        self.service(Peer::InProcess(Arc::new(user)))
    }

    /// Says goodbye: `/readyz` fails and every watch, in process too, ends.
    pub(crate) fn drain(&self) {
        self.shared.draining.cancel();
    }

    pub(super) fn service(&self, peer: Peer) -> EdgeService<H> {
        EdgeService {
            shared: Arc::clone(&self.shared),
            peer,
        }
    }

    pub(super) fn shared(&self) -> &Shared<H> {
        &self.shared
    }
}

fn with_own_checks(checks: Vec<HealthCheck>, draining: CancellationToken) -> Vec<HealthCheck> {
    let mut all = vec![
        HealthCheck::new("ping", || Ok(())),
        HealthCheck::new("log", || Ok(())),
    ];
    all.extend(checks);
    let shutdown = move || match draining.is_cancelled() {
        true => Err("process is shutting down".to_owned()),
        false => Ok(()),
    };
    all.push(HealthCheck::new("shutdown", shutdown).only(&[Probe::Readyz]));
    all
}

impl<H> Clone for Edge<H> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<H> fmt::Debug for Edge<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge")
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

/// The chain for requests of one peer.
pub struct EdgeService<H> {
    shared: Arc<Shared<H>>,
    peer: Peer,
}

impl<H> Clone for EdgeService<H> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            peer: self.peer.clone(),
        }
    }
}

impl<H> fmt::Debug for EdgeService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeService")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl<H> EdgeService<H> {
    /// Whether the answer, if it is not a refusal, has no end of its own.
    pub(super) fn is_long_running<B>(&self, request: &http::Request<B>) -> bool
    where
        H: Handler,
    {
        self.shared
            .handler
            .is_long_running(request.method(), request.uri())
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

impl<H, B> tower::Service<http::Request<B>> for EdgeService<H>
where
    H: Handler,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (shared, peer) = (Arc::clone(&self.shared), self.peer.clone());
        Box::pin(async move { Ok(shared.answer(peer, request).await) })
    }
}

impl<H, B> tower::Service<http::Request<B>> for Edge<H>
where
    H: Handler,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        self.service(Peer::Network { certificate: None }).call(request)
    }
}

/// What the inner part of the chain came to.
struct Outcome {
    response: Response<ResponseBody>,
    slot: Option<Slot>,
}

impl From<Response<ResponseBody>> for Outcome {
    fn from(response: Response<ResponseBody>) -> Self {
        Self { response, slot: None }
    }
}

impl<H: Handler> Shared<H> {
    async fn answer<B>(&self, peer: Peer, request: http::Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Display,
    {
        let received = Instant::now();
        let (mut parts, body) = request.into_parts();
        let audit_id = audit_id(&mut parts);
        let is_long_running = self.handler.is_long_running(&parts.method, &parts.uri);
        let named = (parts.method.clone(), parts.uri.clone());
        let inner = AssertUnwindSafe(self.within_deadline(peer, parts, body, received, is_long_running));
        let outcome = match inner.catch_unwind().await {
            Ok(outcome) => outcome,
            Err(panic) => self.panicked(&named, &audit_id, panic.as_ref()).into(),
        };
        let Outcome { mut response, slot } = outcome;
        let headers = response.headers_mut();
        headers.insert(AUDIT_ID, audit_id);
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-cache, private"));
        let is_stream = is_long_running && response.status().is_success();
        let account = Account {
            metrics: Arc::clone(&self.metrics),
            labels: response
                .extensions_mut()
                .remove()
                .unwrap_or_else(|| labels_of(&named)),
            code: response.status().as_u16(),
            received,
            due: (!is_stream).then(|| Instant::now() + self.limits.request_timeout),
            slot,
        };
        response.map(|body| {
            let body = body.with_account(account.open());
            if is_stream {
                body.stopped_by(self.draining.clone().cancelled_owned())
            } else {
                body
            }
        })
    }

    /// Runs the rest of the chain under the request's deadline, and words what it refuses.
    async fn within_deadline<B>(
        &self,
        peer: Peer,
        parts: Parts,
        body: B,
        received: Instant,
        is_long_running: bool,
    ) -> Outcome
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Display,
    {
        let format = Format::of(&parts.headers, &parts.uri);
        let result = match self.deadline(&parts, received, is_long_running) {
            Err(refusal) => Err(refusal),
            Ok(None) => self.dispatch(peer, parts, body, is_long_running).await,
            Ok(Some((deadline, late))) => {
                let inner = self.dispatch(peer, parts, body, is_long_running);
                timeout_at(deadline, inner)
                    .await
                    .unwrap_or(Err(Refusal::Timeout(late)))
            }
        };
        result.unwrap_or_else(|refusal| {
            let response = refusal.respond(format);
            self.metrics.terminated(response.status().as_u16());
            response.into()
        })
    }

    /// When the request must be done, and what to say when it is not.
    fn deadline(
        &self,
        parts: &Parts,
        received: Instant,
        is_long_running: bool,
    ) -> Result<Option<(Instant, &'static str)>, Refusal> {
        if is_long_running {
            return Ok(None);
        }
        let requested = requested_timeout(&parts.uri).map_err(Refusal::BadRequest)?;
        let (own, late) = match Kind::of(&parts.method) {
            Kind::ReadOnly => (self.limits.request_timeout, ALLOTTED),
            Kind::Mutating => (
                self.limits.write_timeout.min(self.limits.request_timeout),
                REQUESTED,
            ),
        };
        let (limit, late) = match requested {
            Some(requested) if requested < own => (requested, ALLOTTED),
            _ => (own, late),
        };
        Ok(Some((received + limit, late)))
    }

    async fn dispatch<B>(
        &self,
        peer: Peer,
        mut parts: Parts,
        body: B,
        is_long_running: bool,
    ) -> Result<Outcome, Refusal>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Display,
    {
        let user = self.log_in(&peer, &mut parts)?;
        if let Some(local) = Local::of(parts.uri.path()) {
            return Ok(self.local(local, &parts).into());
        }
        let slot = match is_long_running {
            true => None,
            false => Some(
                self.admission
                    .admit(Kind::of(&parts.method), &user)
                    .ok_or(Refusal::Busy)?,
            ),
        };
        let held = read::read(body, &parts.method, &parts.headers, &self.limits, &self.admission).await?;
        let request = Request {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body: held.bytes.clone(),
            user,
        };
        let response = self.handler.handle(request).await;
        drop(held);
        Ok(Outcome { response, slot })
    }

    fn log_in(&self, peer: &Peer, parts: &mut Parts) -> Result<Arc<User>, Refusal> {
        let login = self.authenticator.authenticate(peer, &mut parts.headers);
        self.metrics.login(match login {
            Login::User(_) => "success",
            Login::Nobody => "anonymous",
            Login::Wrong(_) => "failure",
        });
        let user = admit_login(login, &parts.method, parts.uri.path())?;
        impersonate(user, &mut parts.headers)
    }

    fn local(&self, local: Local<'_>, parts: &Parts) -> Response<ResponseBody> {
        match local {
            Local::Health { probe, check } => local::health(&self.checks, probe, check, &parts.uri),
            Local::Version => local::version(&parts.method, Format::of(&parts.headers, &parts.uri)),
            Local::Index => local::index(&self.checks, self.handler.index_paths()),
            Local::Metrics => self.scrape(),
        }
    }

    fn scrape(&self) -> Response<ResponseBody> {
        let Ok(text) = self.metrics.encode(self.handler.samples()) else {
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written\n");
        };
        let mut response = Response::new(ResponseBody::full(text));
        let open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(open_metrics));
        response
    }

    fn panicked(
        &self,
        (method, uri): &(Method, Uri),
        audit_id: &HeaderValue,
        panic: &(dyn std::any::Any + Send),
    ) -> Response<ResponseBody> {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let reason = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        tracing::error!(%method, path = uri.path(), ?audit_id, reason, "request caused a panic");
        self.metrics.panics.inc();
        let text = "This request caused apiserver to panic. Look in the logs for details.\n";
        answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

/// The client's audit id if it sent a sound one, else a new one. The handler finds it in the headers.
fn audit_id(parts: &mut Parts) -> HeaderValue {
    let sent = parts
        .headers
        .get(AUDIT_ID)
        .filter(|id| !id.is_empty() && id.len() <= LONGEST_AUDIT_ID)
        .cloned();
    let id = sent.unwrap_or_else(|| {
        let id = uuid::Uuid::new_v4().to_string();
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("unknown"))
    });
    parts.headers.insert(AUDIT_ID, id.clone());
    id
}

/// Labels of a request that the handler does not label.
fn labels_of((method, uri): &(Method, Uri)) -> RequestLabels {
    let verb = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let subresource = Local::of(uri.path())
        .map(|local| local.label().into())
        .unwrap_or_default();
    RequestLabels {
        verb,
        subresource,
        ..RequestLabels::default()
    }
}
