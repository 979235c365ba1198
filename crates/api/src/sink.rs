//! Where deliveries go.

use std::{collections::BTreeMap, time::Duration};

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Span};

/// A place that changes are delivered to, with its credentials and how to deliver. Exactly one of the destinations is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[kube(
    group = "skopos.dev",
    version = "v1alpha1",
    kind = "Sink",
    plural = "sinks",
    category = "skopos",
    namespaced,
    status = "SinkStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Delivered","type":"integer","jsonPath":".status.delivered"}"#,
    printcolumn = r#"{"name":"Pending","type":"integer","jsonPath":".status.pending"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(
        kube_core = "::kube_core",
        k8s_openapi = "::k8s_openapi",
        schemars = "::schemars",
        serde = "::serde",
        serde_json = "::serde_json"
    )
)]
pub struct SinkSpec {
    /// An HTTP endpoint, as CloudEvents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// A NATS JetStream stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<Nats>,
    /// A Kafka topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<Kafka>,
    /// A RabbitMQ exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<Rabbitmq>,
    /// A PostgreSQL table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<Postgres>,
    /// A file of JSON lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<File>,
    /// The standard output of Skopos, as JSON lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Stdout>,
    /// A command that gets the event on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
    /// An object that is made or changed: the template of the rule's action is the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesAction>,
    /// How to deliver.
    #[serde(default)]
    pub delivery: Delivery,
}

/// The names of the destinations, of which a sink has exactly one.
pub(crate) const DESTINATIONS: [&str; 9] = [
    "webhook",
    "nats",
    "kafka",
    "rabbitmq",
    "postgres",
    "file",
    "stdout",
    "exec",
    "kubernetes",
];

impl SinkSpec {
    /// The names of the destinations that are given. A sink that can be used has exactly one.
    pub fn destinations(&self) -> Vec<&'static str> {
        let given = [
            self.webhook.is_some(),
            self.nats.is_some(),
            self.kafka.is_some(),
            self.rabbitmq.is_some(),
            self.postgres.is_some(),
            self.file.is_some(),
            self.stdout.is_some(),
            self.exec.is_some(),
            self.kubernetes.is_some(),
        ];
        let named = DESTINATIONS.into_iter().zip(given);
        named.filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// How to deliver. For commands `concurrencyPolicy` decides what keeps its order: those of one object wait for each
    /// other, or do not.
    pub fn delivery_in_force(&self) -> Delivery {
        let order_by = match self.exec.as_ref().map(|exec| exec.concurrency_policy) {
            None => self.delivery.order_by,
            Some(ConcurrencyPolicy::Forbid) => OrderBy::Object,
            Some(ConcurrencyPolicy::Allow) => OrderBy::None,
        };
        Delivery {
            order_by,
            ..self.delivery.clone()
        }
    }
}

/// How to deliver. The defaults: at least once, in order per object, for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delivery {
    /// After so many failed attempts a delivery becomes a dead letter; never unless given. What the destination refuses for
    /// good (a 400, say) becomes one at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_attempts: Option<u32>,
    /// How long to wait between attempts.
    #[serde(default)]
    pub backoff: Backoff,
    /// What keeps its order. For commands `exec.concurrencyPolicy` says it instead.
    #[serde(default)]
    pub order_by: OrderBy,
    /// How many requests at once (default 8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: Option<u32>,
    /// Several events in one request, where the destination can (default 100, but 1 for webhooks).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// How long one attempt may take (default 30s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// At most so many events a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_per_second: Option<u32>,
    /// The largest payload in bytes; what is larger becomes a dead letter (default 1 MiB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
}

impl Delivery {
    /// The first wait between attempts unless given.
    pub const BACKOFF_INITIAL: Span = Span(Duration::from_millis(500));
    /// The longest wait between attempts unless given.
    pub const BACKOFF_MAX: Span = Span(Duration::from_secs(180));
}

/// Waits between attempts, each about twice as long as the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// The first (default 500ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Span>,
    /// The longest (default 3m).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
}

/// Events in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Batch {
    /// At most so many.
    #[schemars(range(min = 1, max = 500))]
    pub max_events: u32,
}

/// What keeps its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    /// The events of one object.
    #[default]
    Object,
    /// Nothing.
    None,
}

/// A value, or where it is found. Exactly one is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValueSource {
    /// The value itself; not for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// A key of a Secret in the sink's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretKey>,
    /// An environment variable of Skopos. Only for sinks from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A file. Only for sinks from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKey {
    /// The Secret.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

/// How to prove who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Auth {
    /// A user name, with `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<ValueSource>,
    /// A bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<ValueSource>,
}

/// Whom to trust, and our own certificate, all in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// Authorities to trust instead of those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<ValueSource>,
    /// Our certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<ValueSource>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ValueSource>,
    /// The name that the server's certificate must have, if not the one in its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// An HTTP endpoint. It gets CloudEvents 1.0: binary mode for one event, the batch format for several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhook {
    /// Where, with `https` or, in networks that are trusted, `http`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Where, if the address is itself a secret, as those of chat services are. Either this or `url` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_from: Option<ValueSource>,
    /// More headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// How to prove who we are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Sign each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac: Option<Hmac>,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// A header of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: ValueSource,
}

/// A signature over time and body: `Skopos-Signature: t=<seconds>,v1=<hex of HMAC-SHA256 over "t.body">`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hmac {
    /// The shared secret.
    pub secret: ValueSource,
}

/// A NATS JetStream stream. The id of the event is the message id, by which the stream drops repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Nats {
    /// Servers, such as `nats://127.0.0.1:4222` or `tls://…`.
    pub servers: Vec<String>,
    /// The subject; a stream must listen to it.
    pub subject: String,
    /// How to prove who we are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// A Kafka topic. The object is the key, so that its events stay in one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kafka {
    /// Servers to begin with, as `host:port`.
    pub brokers: Vec<String>,
    /// The topic; it must exist.
    pub topic: String,
    /// User and password (SASL PLAIN).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Speak TLS, and whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// A RabbitMQ exchange. A delivery is done when the broker has confirmed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rabbitmq {
    /// The server, such as `amqp://127.0.0.1:5672/%2f` or `amqps://…`, without user and password.
    pub url: String,
    /// The exchange; empty for the default one.
    #[serde(default)]
    pub exchange: String,
    /// The routing key; for the default exchange the name of a queue.
    pub routing_key: String,
    /// User and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// A PostgreSQL table with the id as primary key, made if it is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Postgres {
    /// How to connect, such as `postgres://skopos@127.0.0.1:5432/audit?sslmode=require`, without password.
    pub url: String,
    /// The table, with its schema if it is not in the search path.
    pub table: String,
    /// The password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<ValueSource>,
    /// Whom to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// A file of JSON lines, one CloudEvent each, synced before a delivery counts as done. Only for sinks from files, or
/// with `--allow-file`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// Where.
    pub path: String,
    /// Begin a new file when this one has so many bytes (default 100 MiB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
    /// Keep so many old files, as `path.1` and so on (default 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u32>,
}

/// The standard output of Skopos.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stdout {}

/// A command. It gets the event as JSON on its standard input; exit code 0 means done, 65 (bad data) means never to try again.
/// Only for sinks from files, or where Skopos was started with `--allow-exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exec {
    /// The program and its arguments; no shell.
    pub command: Vec<String>,
    /// Its environment. It inherits nothing but `PATH`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, ValueSource>,
    /// Its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// What happens when an event of the same object comes while the command runs. How many run at once for different
    /// objects is `delivery.concurrency`.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
}

/// What happens when an event of the same object comes while the command runs for the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// It waits, and so the events of an object keep their order.
    #[default]
    Forbid,
    /// Both run; nothing keeps its order.
    Allow,
}

/// An object of a cluster that is made or changed. The template of the rule's action is the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesAction {
    /// What is done with it.
    #[serde(default)]
    pub verb: KubernetesVerb,
}

/// What is done with an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KubernetesVerb {
    /// Made or changed to have these fields (server-side apply).
    #[default]
    Apply,
    /// Made, unless it is there: right for Jobs. A name is made from the event's id if there is none.
    Create,
    /// Changed, by a merge patch; it must be there.
    Patch,
    /// Deleted, if it is there.
    Delete,
}

/// How a [`Sink`] is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SinkStatus {
    /// Of which generation this is said.
    #[serde(default)]
    pub observed_generation: i64,
    /// `Ready` and `Delivering`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// How many deliveries were acknowledged.
    #[serde(default)]
    pub delivered: u64,
    /// How many deliveries wait.
    #[serde(default)]
    pub pending: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
}
