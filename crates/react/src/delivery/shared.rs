//! What the tasks of a reactor share.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use skopos_journal::{Log, Sampling};
use tokio::sync::Notify;

use super::{PlannedRule, PlannedSink, lanes::RouteId, metrics::Latency, store::Store};

/// How a reactor works. The defaults are right for everything but tests.
#[derive(Clone)]
pub struct Config {
    /// Tells the time of day.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Spreads the pauses after failures.
    pub seed: u64,
    /// How often what is written becomes durable (default 100 ms). After a crash, what was delivered in the last such
    /// time is delivered again.
    pub sync_every: Duration,
    /// How long to wait before trying again when there was no room on the disk (default 1 s).
    pub full_retry: Duration,
    /// How long a stop waits for requests that are under way (default 5 s).
    pub grace: Duration,
    /// Dead letters keep their changes from retention among the newest so many (default 1,000,000).
    pub letters_hold: u64,
    /// Which traces are recorded, as receivers are told (default: all).
    pub sampling: Sampling,
}

/// What the tasks of a reactor share.
pub(crate) struct Shared {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) store: Store,
    pub(crate) config: Config,
    pub(crate) bells: Bells,
    pub(crate) latency: Latency,
}

/// Who delivers where: one immutable snapshot, swapped whole.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) sinks: BTreeMap<String, Directed>,
}

/// A sink, and the rules that deliver to it.
#[derive(Clone, Debug)]
pub(crate) struct Directed {
    pub(crate) sink: PlannedSink,
    pub(crate) routes: BTreeMap<RouteId, Route>,
}

/// A rule that delivers to a sink.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) rule: u32,
    /// The name of the rule, or of the replay.
    pub(crate) name: String,
    pub(crate) planned: Arc<PlannedRule>,
}

/// Tells senders that there are new rows. One entry per route, however often it rings.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    bells: Mutex<BTreeMap<String, Arc<Bell>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Bell {
    notify: Notify,
    routes: Mutex<BTreeSet<RouteId>>,
}

impl Bells {
    pub(crate) fn ring(&self, sink: &str, route: RouteId) {
        let bell = self.of(sink);
        bell.routes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(route);
        bell.notify.notify_one();
    }

    pub(crate) fn of(&self, sink: &str) -> Arc<Bell> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(sink.to_owned()).or_default().clone()
    }
}

impl Bell {
    /// Waits until it rings, and says for which routes.
    pub(crate) async fn heard(&self) -> BTreeSet<RouteId> {
        self.notify.notified().await;
        std::mem::take(&mut *self.routes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        (self.config.now)()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            now: Arc::new(Timestamp::now),
            seed: fastrand::u64(..),
            sync_every: Duration::from_millis(100),
            full_retry: Duration::from_secs(1),
            grace: Duration::from_secs(5),
            letters_hold: 1_000_000,
            sampling: Sampling::default(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("sync_every", &self.sync_every)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
