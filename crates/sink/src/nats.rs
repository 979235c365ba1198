//! A NATS JetStream stream.

use std::{error::Error, time::Duration};

use async_nats::{
    ConnectOptions, HeaderMap, ServerAddr,
    jetstream::{
        self,
        context::{PublishAckFuture, PublishError, PublishErrorKind},
    },
};
use futures_core::future::BoxFuture;
use skopos_api::Nats as Spec;

use crate::{
    Context, Destination, Event, Failure, Sent,
    cloud_event::attributes,
    connect::BadSink,
    link::Link,
    secrets::{Identity, identity},
    tls::Tls,
    waves::waves,
};

/// How long a message may stay without acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes events to a subject that a stream listens to. The id is the message id.
#[derive(Debug)]
pub(crate) struct Nats {
    servers: Vec<ServerAddr>,
    subject: String,
    identity: Option<Identity>,
    tls: Option<Tls>,
    max_batch: usize,
    link: Link<jetstream::Context>,
}

impl Nats {
    pub(crate) async fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        let servers = spec
            .servers
            .iter()
            .map(|server| address(server))
            .collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err(BadSink::value(
                "servers",
                "must name one server at least, such as nats://nats:4222",
            ));
        }
        let bad = |c: char| c.is_whitespace() || c == '*' || c == '>';
        if spec.subject.is_empty() || spec.subject.contains(bad) || spec.subject.split('.').any(str::is_empty)
        {
            let problem = format!(
                "{:?} is not a subject to publish to: words with dots between, no * and >",
                spec.subject
            );
            return Err(BadSink::value("subject", problem));
        }
        let speaks_tls = spec.tls.is_some() || servers.iter().any(ServerAddr::tls_required);
        Ok(Self {
            servers,
            subject: spec.subject.clone(),
            identity: identity(context.secrets, spec.auth.as_ref()).await?,
            tls: match speaks_tls {
                true => Some(Tls::new(spec.tls.as_ref(), context.secrets).await?),
                false => None,
            },
            max_batch,
            link: Link::default(),
        })
    }

    async fn connect(&self) -> Result<jetstream::Context, Failure> {
        let mut options = ConnectOptions::new()
            .name("skopos")
            .connection_timeout(CONNECT_TIMEOUT)
            .ignore_discovered_servers()
            // It tries each server once and gives up: the link connects anew, and whoever calls waits in between.
            .max_reconnects(self.servers.len())
            .reconnect_delay_callback(|_| Duration::ZERO);
        options = match &self.identity {
            Some(Identity::Password { username, password }) => {
                options.user_and_password(username.clone(), password.0.clone())
            }
            Some(Identity::Token(token)) => options.token(token.0.clone()),
            None => options,
        };
        if let Some(tls) = &self.tls {
            options = options.require_tls(true).tls_client_config((*tls.config).clone());
        }
        let client = options
            .connect(&self.servers[..])
            .await
            .map_err(|error| self.failed("connect to", &error))?;
        let mut context = jetstream::new(client);
        context.set_timeout(ACK_TIMEOUT);
        Ok(context)
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let context = match self.link.get(self.connect()).await {
            Ok(context) => context,
            Err(failure) => return Sent::failed(0, failure),
        };
        let mut n_delivered = 0;
        for wave in waves(events) {
            let (n, failure) = self.send_wave(&context, wave).await;
            n_delivered += n;
            if let Some(failure) = failure {
                if matches!(failure, Failure::Refused(_)) {
                    context.keep();
                }
                return Sent::failed(n_delivered, failure);
            }
        }
        context.keep();
        Sent::all(events)
    }

    /// Publishes events of different lanes, then waits for all acknowledgements.
    async fn send_wave(&self, context: &jetstream::Context, wave: &[Event]) -> (usize, Option<Failure>) {
        let mut acks: Vec<PublishAckFuture> = Vec::with_capacity(wave.len());
        let mut failure = None;
        for event in wave {
            let message = headers(event);
            match context
                .publish_with_headers(self.subject.clone(), message, event.data.clone())
                .await
            {
                Ok(ack) => acks.push(ack),
                Err(error) => {
                    failure = Some(self.judge(&error));
                    break;
                }
            }
        }
        let n_published = acks.len();
        for (n, ack) in acks.into_iter().enumerate() {
            if let Err(error) = ack.await {
                return (n, Some(self.judge(&error)));
            }
        }
        (n_published, failure)
    }

    fn judge(&self, error: &PublishError) -> Failure {
        let subject = &self.subject;
        match error.kind() {
            PublishErrorKind::StreamNotFound => Failure::unavailable(format!(
                "no stream listens to {subject:?}: make one that does, for example with `nats stream add`"
            )),
            PublishErrorKind::MaxPayloadExceeded => {
                Failure::refused("the message is larger than the server's max_payload".to_owned())
            }
            _ if is_too_large(error) => Failure::refused(format!(
                "the message is larger than the stream of {subject:?} takes"
            )),
            _ => self.failed("publish to", error),
        }
    }

    fn failed(&self, what: &str, error: &dyn Error) -> Failure {
        let servers: Vec<_> = self
            .servers
            .iter()
            .map(|server| format!("{}:{}", server.host(), server.port()))
            .collect();
        let mut text = format!("cannot {what} NATS at {}", servers.join(", "));
        let mut cause = Some(error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Failure::unavailable(text)
    }
}

impl Destination for Nats {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}

fn address(server: &str) -> Result<ServerAddr, BadSink> {
    let address: ServerAddr = server.parse().map_err(|_| {
        BadSink::value(
            "servers",
            format!("{server:?} is not an address such as nats://nats:4222"),
        )
    })?;
    if address.has_user_pass() {
        return Err(BadSink::value(
            "servers",
            "must not hold a user or a password: use auth",
        ));
    }
    Ok(address)
}

fn headers(event: &Event) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", one_line(&event.id));
    headers.insert("content-type", event.content_type);
    for (name, value) in attributes(event) {
        headers.insert(format!("ce-{name}"), one_line(value));
    }
    headers
}

/// Headers end with their line.
fn one_line(value: &str) -> String {
    value.replace(['\r', '\n'], " ")
}

/// The stream's own limit (`max_msg_size`), which JetStream tells as error 10054.
fn is_too_large(error: &PublishError) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<jetstream::Error>() {
            return error.error_code() == jetstream::ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM;
        }
        cause = error.source();
    }
    false
}
