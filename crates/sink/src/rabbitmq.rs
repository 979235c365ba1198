//! A RabbitMQ exchange.

mod wire;

use std::time::Duration;

use async_rs::Runtime;
use futures_core::future::BoxFuture;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Error as AmqpError,
    PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
    uri::{AMQPScheme, AMQPUri, AMQPUserInfo},
};
use skopos_api::Rabbitmq as Spec;
use tokio::{runtime::Handle, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Context, Destination, Event, Failure, Sent,
    cloud_event::attributes,
    connect::BadSink,
    link::Link,
    secrets::{Hidden, user},
    tls::Tls,
    waves::waves,
};

use self::wire::Wire;

/// Messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Seconds between signs of life.
const HEARTBEAT: u16 = 20;
/// How long a connection that is no longer wanted may take to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes events to an exchange. Done when the broker has confirmed them; nothing that reaches no queue counts.
#[derive(Debug)]
pub(crate) struct Rabbitmq {
    /// Without the password.
    uri: AMQPUri,
    user: Option<(String, Hidden)>,
    tls: Option<Tls>,
    exchange: String,
    routing_key: String,
    max_batch: usize,
    link: Link<Open>,
}

#[derive(Debug)]
struct Open {
    channel: Channel,
    /// The channel lives as long as its connection.
    _connection: Connection,
    _closing: Closing,
}

/// Cuts a connection off that does not end by itself when it is dropped: it waits for the broker's goodbye, and does not
/// mind that there are no more signs of life.
#[derive(Debug)]
struct Closing(Option<DropGuard>);

impl Drop for Closing {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let cut = self.0.take();
        // It ends by itself, soon; and if it is dropped before, the connection is cut off at once.
        runtime.spawn(async move {
            sleep(CLOSE_TIMEOUT).await;
            drop(cut);
        });
    }
}

impl Rabbitmq {
    pub(crate) async fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        let (uri, speaks_tls) = address(&spec.url)?;
        if spec.exchange.is_empty() && spec.routing_key.is_empty() {
            return Err(BadSink::value(
                "routingKey",
                "is empty: without an exchange it names the queue",
            ));
        }
        for (field, value) in [("exchange", &spec.exchange), ("routingKey", &spec.routing_key)] {
            if value.len() > 255 {
                return Err(BadSink::value(field, "is longer than 255 bytes"));
            }
        }
        if spec.tls.is_some() && !speaks_tls {
            return Err(BadSink::value(
                "url",
                "must begin with amqps:// when tls is given",
            ));
        }
        Ok(Self {
            uri,
            user: user(context.secrets, spec.auth.as_ref()).await?,
            tls: match speaks_tls {
                true => Some(Tls::new(spec.tls.as_ref(), context.secrets).await?),
                false => None,
            },
            exchange: spec.exchange.clone(),
            routing_key: spec.routing_key.clone(),
            max_batch,
            link: Link::default(),
        })
    }

    async fn connect(&self) -> Result<Open, Failure> {
        let mut uri = self.uri.clone();
        if let Some((username, password)) = &self.user {
            uri.authority.userinfo = AMQPUserInfo {
                username: username.clone(),
                password: password.0.clone(),
            };
        }
        let properties = ConnectionProperties::default().with_connection_name("skopos".into());
        let cut = CancellationToken::new();
        let runtime = Runtime::new(Wire::new(self.tls.clone(), &self.uri.authority.host, cut.clone()));
        // The client goes on, with a thread and a socket, although nobody waits for it any more.
        let cut = cut.drop_guard();
        let connection = Connection::connect_uri_with_runtime(uri, properties, runtime)
            .await
            .map_err(|error| self.failed("connect to", &error))?;
        let channel = connection
            .create_channel()
            .await
            .map_err(|error| self.failed("open a channel at", &error))?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .map_err(|error| self.failed("ask for confirms at", &error))?;
        Ok(Open {
            channel,
            _connection: connection,
            _closing: Closing(Some(cut)),
        })
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let open = match self.link.get(self.connect()).await {
            Ok(open) => open,
            Err(failure) => return Sent::failed(0, failure),
        };
        let mut n_delivered = 0;
        for wave in waves(events) {
            let (n, failure) = self.send_wave(&open.channel, wave).await;
            n_delivered += n;
            if let Some(failure) = failure {
                // A channel with an error is closed by the broker, and one with messages under way is of no use.
                return Sent::failed(n_delivered, failure);
            }
        }
        open.keep();
        Sent::all(events)
    }

    /// Publishes events of different lanes, then waits for all confirms.
    async fn send_wave(&self, channel: &Channel, wave: &[Event]) -> (usize, Option<Failure>) {
        let mut confirms: Vec<PublisherConfirm> = Vec::with_capacity(wave.len());
        let mut failure = None;
        for event in wave {
            match self.publish(channel, event).await {
                Ok(confirm) => confirms.push(confirm),
                Err(error) => {
                    failure = Some(self.judge(&error, wave));
                    break;
                }
            }
        }
        let n_published = confirms.len();
        for (n, confirm) in confirms.into_iter().enumerate() {
            let confirmed = match confirm.await {
                Ok(confirmation) => self.confirmed(confirmation),
                Err(error) => Err(self.judge(&error, wave)),
            };
            if let Err(failure) = confirmed {
                return (n, Some(failure));
            }
        }
        (n_published, failure)
    }

    async fn publish(&self, channel: &Channel, event: &Event) -> Result<PublisherConfirm, AmqpError> {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let (exchange, key) = (self.exchange.as_str().into(), self.routing_key.as_str().into());
        channel
            .basic_publish(exchange, key, options, &event.data, properties(event))
            .await
    }

    fn confirmed(&self, confirmation: Confirmation) -> Result<(), Failure> {
        match confirmation {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
                Err(Failure::unavailable(format!(
                    "RabbitMQ at {} returned the message ({}): no queue is bound to exchange {:?} with routing key {:?}; \
                     make the queue or the binding",
                    self.server(),
                    returned.reply_text,
                    self.exchange,
                    self.routing_key
                )))
            }
            Confirmation::Nack(None) => Err(Failure::unavailable(format!(
                "RabbitMQ at {} did not take the message: a queue is full, or has trouble",
                self.server()
            ))),
            Confirmation::NotRequested => {
                Err(Failure::unavailable("the channel does not confirm".to_owned()))
            }
        }
    }

    fn judge(&self, error: &AmqpError, wave: &[Event]) -> Failure {
        let text = error.to_string();
        // The broker closes the channel for a message over its limit; with several under way it does not say which.
        if wave.len() == 1 && text.contains("message size") && text.contains("larger than") {
            return Failure::refused(text);
        }
        self.failed("publish to", error)
    }

    fn failed(&self, what: &str, error: &AmqpError) -> Failure {
        Failure::unavailable(format!("cannot {what} RabbitMQ at {}: {error}", self.server()))
    }

    fn server(&self) -> String {
        let authority = &self.uri.authority;
        format!("{}:{}", authority.host, authority.port)
    }
}

impl Destination for Rabbitmq {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}

/// Reads an address; the second answer is whether it speaks TLS, which [`Wire`] then does.
fn address(url: &str) -> Result<(AMQPUri, bool), BadSink> {
    if url.contains('@') {
        return Err(BadSink::value(
            "url",
            "must not hold a user or a password: use auth",
        ));
    }
    let mut uri: AMQPUri = url.parse().map_err(|problem: String| {
        BadSink::value(
            "url",
            format!("{url:?} is not an address such as amqps://rabbitmq:5671/%2f: {problem}"),
        )
    })?;
    let speaks_tls = uri.scheme == AMQPScheme::AMQPS;
    uri.scheme = AMQPScheme::AMQP;
    uri.query.heartbeat = uri.query.heartbeat.or(Some(HEARTBEAT));
    Ok((uri, speaks_tls))
}

/// The binary mode of CloudEvents for AMQP: attributes are headers with `cloudEvents:` before the name.
fn properties(event: &Event) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in attributes(event) {
        headers.insert(
            format!("cloudEvents:{name}").into(),
            AMQPValue::LongString(value.into()),
        );
    }
    let properties = BasicProperties::default()
        .with_content_type(event.content_type.into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers);
    // A short string has at most 255 bytes; the header has the whole id in any case.
    match event.id.len() {
        0..=255 => properties.with_message_id(event.id.as_str().into()),
        _ => properties,
    }
}
