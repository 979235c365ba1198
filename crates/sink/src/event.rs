//! What is delivered, and what a destination must do with it.

use std::{error::Error, fmt, time::Duration};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use skopos_api::Event as What;
use skopos_client::ServiceAccount;

/// One thing to deliver: the attributes of a CloudEvent 1.0 and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The same for each attempt, after each restart and in each replay: by it a receiver tells repetitions.
    pub id: String,
    /// What happened.
    pub what: What,
    /// Where: the cluster and the kind, such as `/clusters/prod/apps/deployments`.
    pub source: String,
    /// Which object, as `namespace/name` or `name`.
    pub subject: String,
    /// Which rule, as `namespace/name`.
    pub rule: String,
    /// When it was observed, as RFC 3339.
    pub time: String,
    /// Events of the same lane are delivered in order: the source and the name of the object, such as
    /// `/clusters/prod/apps/deployments/shop/web`.
    pub lane: String,
    /// The type of the data, `application/json` or `text/plain`.
    pub content_type: &'static str,
    /// The data.
    pub data: Bytes,
    /// The trace that the delivery belongs to, as the trace context of the W3C has it; nothing if there is none.
    pub traceparent: Option<String>,
    /// As whom a destination in the cluster acts, if not as Skopos itself. Not sent.
    pub account: Option<ServiceAccount>,
}

impl Event {
    /// The `type` of the CloudEvent, such as `dev.skopos.created`.
    pub fn cloud_event_type(&self) -> &'static str {
        match self.what {
            What::Created => "dev.skopos.created",
            What::Updated => "dev.skopos.updated",
            What::Deleted => "dev.skopos.deleted",
        }
    }
}

/// A place that events are delivered to.
///
/// `send` is called for several groups at a time, never for two groups with events of one lane. It may be dropped at
/// any point (a timeout, a shutdown); what it was about counts as not delivered.
pub trait Destination: Send + Sync + fmt::Debug {
    /// Delivers events in their order, and stops at the first that fails. Whoever cannot do with all of them in the time
    /// that `delivery.timeout` gives says so with [`Sent::first`] before it is over: of a call that is dropped nothing is known.
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent>;

    /// How many events one call takes at most.
    fn max_batch(&self) -> usize {
        1
    }
}

/// What became of a call.
#[derive(Debug)]
pub struct Sent {
    /// So many events, from the first on, are with the destination for certain.
    pub n_delivered: usize,
    /// Why the next one is not. Nothing if all are, or if the others were not tried.
    pub failure: Option<Failure>,
}

/// Why an event was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The destination cannot be reached or has trouble: later it may work.
    #[error("destination is not available")]
    Unavailable {
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
        /// What went wrong.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The destination will never take this event, whatever is tried.
    #[error("destination refused the event")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
}

impl Sent {
    /// Everything arrived.
    pub fn all(events: &[Event]) -> Self {
        Self {
            n_delivered: events.len(),
            failure: None,
        }
    }

    /// The first `n_delivered` arrived, at least one; there was no time for the others, and nothing is wrong with them.
    pub fn first(n_delivered: usize) -> Self {
        Self {
            n_delivered,
            failure: None,
        }
    }

    /// The first `n_delivered` arrived, the next one did not.
    pub fn failed(n_delivered: usize, failure: Failure) -> Self {
        Self {
            n_delivered,
            failure: Some(failure),
        }
    }
}

impl Failure {
    /// Trouble that may pass.
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable {
            retry_after: None,
            source: source.into(),
        }
    }

    /// Trouble that may pass, after a time the destination asks for.
    pub fn retry_after(self, after: Option<Duration>) -> Self {
        match self {
            Self::Unavailable { source, .. } => Self::Unavailable {
                retry_after: after,
                source,
            },
            refused @ Self::Refused(_) => refused,
        }
    }

    /// An event that is not wanted.
    pub fn refused(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(source.into())
    }
}
