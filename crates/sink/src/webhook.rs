//! An HTTP endpoint that takes CloudEvents.

mod answer;
mod request;

use std::{
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

use crate::{Context, Destination, Event, Failure, Sent, connect::BadSink, secrets::text, tls::Tls};

use self::{answer::judge, request::Form};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends events to an HTTP endpoint: one in binary mode, several in the batch format.
pub(crate) struct Webhook {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    form: Form,
    max_batch: usize,
}

impl Webhook {
    pub(crate) async fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        let uri = address(spec, context).await?;
        // A machine without authorities can still send to addresses that need none.
        let tls = match (uri.scheme_str(), &spec.tls) {
            (Some("http"), None) => Tls::trusting_nobody(),
            (_, tls) => Tls::new(tls.as_ref(), context.secrets).await?,
        };
        Ok(Self {
            client: client(tls),
            form: Form::new(spec, uri, context).await?,
            max_batch,
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(), Failure> {
        let answer = self
            .client
            .request(request)
            .await
            .map_err(|error| self.unreachable(&error))?;
        judge(answer, &self.form, SystemTime::now()).await
    }

    async fn send_one(&self, event: &Event) -> Result<(), Failure> {
        let request = self
            .form
            .one(event, SystemTime::now())
            .map_err(Failure::refused)?;
        self.exchange(request).await
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let [_, _, ..] = events else {
            return self.send_each(events).await;
        };
        match self.exchange(self.form.batch(events, SystemTime::now())).await {
            Ok(()) => Sent::all(events),
            // One of them is not wanted, or all of them are too much: one by one shows which.
            Err(Failure::Refused(_)) => self.send_each(events).await,
            Err(failure) => Sent::failed(0, failure),
        }
    }

    async fn send_each(&self, events: &[Event]) -> Sent {
        for (n, event) in events.iter().enumerate() {
            if let Err(failure) = self.send_one(event).await {
                return Sent::failed(n, failure);
            }
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

fn client(tls: Tls) -> Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(Arc::unwrap_or_clone(tls.config))
        .https_or_http();
    let connector = match tls.server_name {
        Some(name) => builder
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_all_versions()
            .wrap_connector(http),
        None => builder.enable_all_versions().wrap_connector(http),
    };
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector)
}

/// Whether a value is written in the spec for all to see.
fn is_public(source: &ValueSource) -> bool {
    source.value.is_some()
}
