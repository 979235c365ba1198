//! Which rules and sinks there are: one immutable snapshot, swapped whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use skopos_api::{Delivery, Existing, Limits, OrderBy};
use skopos_sink::{DEFAULT_TIMEOUT, Destination};

use super::Evaluator;

/// The rules and sinks that are in force.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Rules by name, as `namespace/name`.
    pub rules: BTreeMap<String, PlannedRule>,
    /// Sinks by name, as `namespace/name`.
    pub sinks: BTreeMap<String, PlannedSink>,
    /// Rules that are there and not in force, by name: they stand still, and what is kept of them stays.
    pub set_aside: BTreeSet<String>,
    /// Whether these are all: then what is kept for other rules, and for sinks that a rule no longer names, is
    /// removed. While the rules are still being read this is false, and those not named here stand still.
    pub complete: bool,
}

/// A rule that is in force.
#[derive(Clone, Debug)]
pub struct PlannedRule {
    /// The generation of its specification.
    pub generation: i64,
    /// Tells it from another rule of the same name, made after this one was deleted; empty if nothing does.
    pub uid: String,
    /// Since when it is there; if that is not known, since it was first seen. Of objects that the first list of their
    /// kind shows, those made later are news.
    pub since: Option<Timestamp>,
    /// Decides and renders.
    pub evaluator: Arc<dyn Evaluator>,
    /// What the kept edge states mean, such as a hash of the expression: if it differs from what it was, they and
    /// their timers are forgotten.
    pub edges: u64,
    /// The sink of each action, by name.
    pub actions: Vec<String>,
    /// What becomes of objects that were there before the rule.
    pub existing: Existing,
    /// How much it may do.
    pub limits: Option<Limits>,
    /// Match and count, but deliver nothing.
    pub dry_run: bool,
    /// Stand still: look at nothing, send nothing.
    pub suspend: bool,
    /// Whether one of its sinks writes objects: then it is watched for reacting to its own writes, and suspended.
    pub writes_objects: bool,
}

/// A sink that is in force.
#[derive(Clone, Debug)]
pub struct PlannedSink {
    /// Where events go.
    pub destination: Arc<dyn Destination>,
    /// How.
    pub delivery: Delivery,
}

/// How to deliver, with the defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff_initial: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) order_by: OrderBy,
    pub(crate) concurrency: usize,
    pub(crate) max_batch: usize,
    pub(crate) timeout: Duration,
    pub(crate) max_per_second: Option<NonZeroU32>,
    pub(crate) max_bytes: usize,
}

impl PlannedRule {
    /// A rule with the defaults of the kind.
    pub fn new(evaluator: Arc<dyn Evaluator>, sinks: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            generation: 1,
            uid: String::new(),
            since: None,
            evaluator,
            edges: 0,
            actions: sinks.into_iter().map(Into::into).collect(),
            existing: Existing::Ignore,
            limits: None,
            dry_run: false,
            suspend: false,
            writes_objects: false,
        }
    }

    /// Lets all actions deliver to another sink.
    pub(crate) fn redirect(&mut self, sink: &str) {
        self.actions.fill(sink.to_owned());
    }

    /// The action that a delivery to `sink` was made for: the same one, or after an edit of the rule the first to
    /// that sink.
    pub(crate) fn action(&self, sink: &str, action: usize) -> Option<usize> {
        match self.actions.get(action) {
            Some(name) if name == sink => Some(action),
            _ => self.actions.iter().position(|name| name == sink),
        }
    }
}

impl Settings {
    pub(crate) fn new(delivery: &Delivery, destination: &dyn Destination) -> Self {
        let wanted = delivery.batch.as_ref().map(|batch| size(batch.max_events));
        let max_batch = destination.max_batch().clamp(1, MAX_BATCH);
        let initial = delivery.backoff.initial.unwrap_or(Delivery::BACKOFF_INITIAL).0;
        let max = delivery.backoff.max.unwrap_or(Delivery::BACKOFF_MAX).0;
        Self {
            max_attempts: delivery.max_attempts,
            backoff_initial: initial.max(Duration::from_millis(1)),
            backoff_max: max.max(Duration::from_millis(1)),
            order_by: delivery.order_by,
            concurrency: size(delivery.concurrency.unwrap_or(8)).max(1),
            max_batch: wanted.map_or(max_batch, |wanted| wanted.clamp(1, max_batch)),
            timeout: delivery.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            max_per_second: delivery.max_per_second.and_then(NonZeroU32::new),
            max_bytes: delivery
                .max_bytes
                .map_or(1 << 20, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        }
    }
}

/// No call gets more events than this, whatever it says it takes: they are all in memory at once.
const MAX_BATCH: usize = 500;

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
