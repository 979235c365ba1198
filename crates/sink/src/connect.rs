//! From the spec of a Sink to its destination.

use std::{ffi::OsString, fmt, sync::Arc, time::Duration};

use skopos_api::SinkSpec;
use skopos_client::Client;

use crate::{
    Destination, SecretError, Secrets, exec::Exec, file::File, kafka::Kafka, kubernetes::Kubernetes,
    nats::Nats, postgres::Postgres, rabbitmq::Rabbitmq, stdout::Stdout, webhook::Webhook,
};

/// What surrounds a sink.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The namespace of the sink: of its Secrets, and of objects that name none.
    pub namespace: &'a str,
    /// Where the values that the spec names are found.
    pub secrets: &'a dyn Secrets,
    /// What this sink may do on the machine.
    pub allowed: Allowed,
    /// The `PATH` that commands inherit.
    pub search_path: Option<&'a OsString>,
    /// The cluster that a `kubernetes` sink writes to, as whom it writes.
    pub client: Option<&'a Client>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("namespace", &self.namespace)
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

/// What a sink may do on the machine that Skopos runs on. Nothing unless said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Run commands.
    pub exec: bool,
    /// Write files.
    pub file: bool,
}

/// Why there is no destination: what is wrong with the spec, and where. Only [`BadSink::Secret`] may pass by itself.
#[derive(Debug, thiserror::Error)]
pub enum BadSink {
    /// No destination is given.
    #[error(
        "the sink has no destination: give one of webhook, nats, kafka, rabbitmq, postgres, file, stdout, exec and kubernetes"
    )]
    None,
    /// More than one destination is given.
    #[error("the sink has more than one destination ({}): make one sink of each", .0.join(", "))]
    Several(Vec<&'static str>),
    /// The caller does not allow this destination.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// A field has a value that cannot be right.
    #[error("{field} {problem}")]
    Value {
        /// Where in the destination.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A value that the spec names is not to be had.
    #[error("{field}: no value from {place}")]
    Secret {
        /// Where in the destination.
        field: &'static str,
        /// What it names.
        place: String,
        /// Why there is none.
        #[source]
        source: SecretError,
    },
}

impl BadSink {
    pub(crate) fn value(field: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::Value { field, problem }
    }
}

/// Makes the destination that a spec describes. Talks to the givers of secrets, but not to the destination: that it is
/// down, or refuses us, shows when something is sent.
pub async fn connect(spec: &SinkSpec, context: Context<'_>) -> Result<Arc<dyn Destination>, BadSink> {
    match spec.destinations() {
        none if none.is_empty() => return Err(BadSink::None),
        one if one.len() == 1 => {}
        several => return Err(BadSink::Several(several)),
    }
    // Destinations that take several events at once do so without being asked, but for the webhook, whose form changes.
    let max_batch = spec
        .delivery
        .batch
        .as_ref()
        .map(|batch| batch.max_events as usize);
    let many = max_batch.unwrap_or(DEFAULT_BATCH);
    let timeout = spec.delivery.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0);
    if max_batch == Some(0) {
        return Err(BadSink::value("delivery.batch.maxEvents", "must be at least 1"));
    }
    Ok(match spec {
        SinkSpec {
            webhook: Some(to), ..
        } => Arc::new(Webhook::new(to, max_batch.unwrap_or(1), timeout, context).await?),
        SinkSpec { nats: Some(to), .. } => Arc::new(Nats::new(to, many, context).await?),
        SinkSpec { kafka: Some(to), .. } => Arc::new(Kafka::new(to, many, context).await?),
        SinkSpec {
            rabbitmq: Some(to), ..
        } => Arc::new(Rabbitmq::new(to, many, context).await?),
        SinkSpec {
            postgres: Some(to), ..
        } => Arc::new(Postgres::new(to, many, context).await?),
        SinkSpec { file: Some(to), .. } => Arc::new(File::new(to, many, context)?),
        SinkSpec { stdout: Some(_), .. } => Arc::new(Stdout::new(many)),
        SinkSpec { exec: Some(to), .. } => Arc::new(Exec::new(to, context).await?),
        SinkSpec {
            kubernetes: Some(to), ..
        } => Arc::new(Kubernetes::new(to, context)?),
        _ => return Err(BadSink::None),
    })
}

/// How long a call may take unless the spec says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Events in one request unless the spec says otherwise.
const DEFAULT_BATCH: usize = 100;
