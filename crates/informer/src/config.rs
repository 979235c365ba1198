//! What can be chosen about how a collection is followed and kept.

use std::time::Duration;

use skopos_object::{FieldSelector, LabelSelector};

/// Which objects of a collection to follow. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only objects whose labels it selects.
    pub labels: LabelSelector,
    /// Only objects whose fields it selects.
    pub fields: FieldSelector,
}

/// How a [`Reflector`](crate::Reflector) behaves. The defaults suit an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectorConfig {
    /// Which objects to follow.
    pub selection: Selection,
    /// How current the first list must be.
    pub first_list: FirstList,
    /// Objects per page where lists are read in pages (default 500).
    pub page_size: usize,
    /// Whether to ask for the first objects through the watch (default: yes, falling back to a list).
    pub initial_events: bool,
    /// How long a source that cannot do [`initial_events`](Self::initial_events) is not asked again
    /// (default 30 min).
    pub initial_events_retry: Duration,
    /// How long a watch is asked to last: a random time between this and twice this (default 5 min).
    pub watch_timeout: Duration,
    /// How long after its time a watch is given up that does not end (default 30 s).
    pub watch_grace: Duration,
    /// How long a watch may say nothing before its peer counts as dead (default 70 s). API servers send
    /// bookmarks every minute; a source that sends none is watched anew each time, without harm.
    pub silence: Duration,
    /// How long a request may go unanswered, and a list may stall (default 2 min).
    pub patience: Duration,
    /// The first wait after a failure; each further one is twice as long (default 800 ms). Waits are
    /// drawn between this and twice this.
    pub backoff_first: Duration,
    /// No wait is longer than this (default 30 s), except as the server asks.
    pub backoff_longest: Duration,
    /// After this time without a failure waits start over (default 2 min).
    pub backoff_reset: Duration,
    /// How long a watch that fails inside the server is tried again from the same version before the
    /// collection is listed anew (default 1 min).
    pub broken_watch: Duration,
    /// Seed of everything random here; nothing draws one.
    pub seed: Option<u64>,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            first_list: FirstList::default(),
            page_size: 500,
            initial_events: true,
            initial_events_retry: Duration::from_secs(30 * 60),
            watch_timeout: Duration::from_secs(5 * 60),
            watch_grace: Duration::from_secs(30),
            silence: Duration::from_secs(70),
            patience: Duration::from_secs(120),
            backoff_first: Duration::from_millis(800),
            backoff_longest: Duration::from_secs(30),
            backoff_reset: Duration::from_secs(120),
            broken_watch: Duration::from_secs(60),
            seed: None,
        }
    }
}

/// How current the first list must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstList {
    /// The latest state. A restarted program never sees the past.
    #[default]
    Latest,
    /// Any state the server has at hand: cheaper for it, may be older than what was seen before.
    Any,
}
