//! An HTTP endpoint that takes CloudEvents.

mod answer;
mod request;

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, Uri};
use http_body_util::Full;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use skopos_api::{ValueSource, Webhook as Spec};
use tokio::time::{Instant, timeout};

use crate::{
    Context, Destination, Event, Failure, Sent, connect::BadSink, link::Link, secrets::text, tls::Tls,
};

use self::{answer::judge, request::Form};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

type Connector = HttpsConnector<HttpConnector>;
type Connections = Client<Connector, Full<Bytes>>;

/// Sends events to an HTTP endpoint: one in binary mode, several in the batch format.
pub(crate) struct Webhook {
    connector: Connector,
    /// Over HTTP/2 requests share a connection, which stays if one of them is dropped. One without an answer may be dead:
    /// then all are made anew.
    connections: Link<Connections>,
    form: Form,
    max_batch: usize,
    /// After this the caller no longer waits.
    timeout: Duration,
}

impl Webhook {
    pub(crate) async fn new(
        spec: &Spec,
        max_batch: usize,
        timeout: Duration,
        context: Context<'_>,
    ) -> Result<Self, BadSink> {
        let uri = address(spec, context).await?;
        // A machine without authorities can still send to addresses that need none.
        let tls = match (uri.scheme_str(), &spec.tls) {
            (Some("http"), None) => Tls::trusting_nobody(),
            (_, tls) => Tls::new(tls.as_ref(), context.secrets).await?,
        };
        Ok(Self {
            connector: connector(tls),
            connections: Link::default(),
            form: Form::new(spec, uri, context).await?,
            max_batch,
            timeout,
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(), Failure> {
        let connect = async { Ok::<_, Infallible>(connections(&self.connector)) };
        let Ok(open) = self.connections.get(connect).await;
        let answer = open.request(request).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let judged = judge(answer, &self.form, SystemTime::now()).await;
        open.keep();
        judged
    }

    async fn send_one(&self, event: &Event) -> Result<(), Failure> {
        let request = self
            .form
            .one(event, SystemTime::now())
            .map_err(Failure::refused)?;
        self.exchange(request).await
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let began = Instant::now();
        let [_, _, ..] = events else {
            return self.send_each(events, began).await;
        };
        match self.exchange(self.form.batch(events, SystemTime::now())).await {
            Ok(()) => Sent::all(events),
            // One of them is not wanted, or all of them are too much: one by one shows which.
            Err(Failure::Refused(_)) => self.send_each(events, began).await,
            Err(failure) => Sent::failed(0, failure),
        }
    }

    /// Sends one by one, as far as the time of the call suffices: what arrived must be told before it is over.
    async fn send_each(&self, events: &[Event], began: Instant) -> Sent {
        for (n, event) in events.iter().enumerate() {
            let passed = began.elapsed();
            // The last one that is begun has almost half of the time for its answer.
            if n > 0 && passed >= self.timeout / 2 {
                return Sent::first(n);
            }
            let rest = match n {
                // There is nothing to tell yet: the caller may have the last word.
                0 => self.timeout,
                _ => (self.timeout - self.timeout / 10).saturating_sub(passed),
            };
            let failure = match timeout(rest, self.send_one(event)).await {
                Ok(Ok(())) => continue,
                Ok(Err(failure)) => failure,
                Err(_) => Failure::unavailable(format!("no answer from {} in time", self.form.server())),
            };
            return Sent::failed(n, failure);
        }
        Sent::all(events)
    }

    fn unreachable(&self, error: &hyper_util::client::legacy::Error) -> Failure {
        // Only the server is named: the path or the query may hold a key.
        let mut text = format!("cannot reach {}", self.form.server());
        let mut source: Option<&dyn Error> = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Failure::unavailable(self.form.shown(&text))
    }
}

impl Destination for Webhook {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("server", &self.form.server())
            .finish_non_exhaustive()
    }
}

async fn address(spec: &Spec, context: Context<'_>) -> Result<Uri, BadSink> {
    let (field, url) = match (spec.url.as_str(), &spec.url_from) {
        ("", Some(source)) => ("urlFrom", text(context.secrets, "urlFrom", source).await?.0),
        (url, None) if !url.is_empty() => ("url", url.to_owned()),
        _ => return Err(BadSink::value("url", "or urlFrom must be given, and not both")),
    };
    let shown = match field {
        "url" => format!("{url:?} "),
        _ => String::new(),
    };
    let bad = |problem: &str| BadSink::value(field, format!("{shown}{problem}"));
    let uri: Uri = url.parse().map_err(|_| bad("is not a URL"))?;
    let Some(authority) = uri.authority() else {
        return Err(bad("must be a whole URL, such as https://example.com/events"));
    };
    if authority.as_str().contains('@') {
        // Not shown: it holds a password.
        return Err(BadSink::value(
            field,
            "must not hold a user or a password: use auth",
        ));
    }
    match uri.scheme_str() {
        Some("https" | "http") => Ok(uri),
        _ => Err(bad("must begin with https:// or http://")),
    }
}

fn connector(tls: Tls) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(Arc::unwrap_or_clone(tls.config))
        .https_or_http();
    match tls.server_name {
        Some(name) => builder
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_all_versions()
            .wrap_connector(http),
        None => builder.enable_all_versions().wrap_connector(http),
    }
}

fn connections(connector: &Connector) -> Connections {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector.clone())
}

/// Whether a value is written in the spec for all to see.
fn is_public(source: &ValueSource) -> bool {
    source.value.is_some()
}
