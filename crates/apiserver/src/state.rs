//! What all requests and controllers share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use skopos_store::Store;

use crate::chance::Chance;
use crate::controllers::{Garbage, Namespaces};
use crate::definition::{Definitions, built_in_resources};
use crate::edge::TokenTable;
use crate::published::Published;
use crate::registry::{Registry, Resource};

/// The shared state of one server.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    pub(crate) built_in: Vec<Arc<Resource>>,
    pub(crate) published: Published,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) garbage: Arc<Garbage>,
    /// Written only while the registry is swapped, read by writes of custom resources: each is stored in the
    /// shape of one registry.
    pub(crate) swap: Arc<tokio::sync::RwLock<()>>,
    /// Held while a service is given addresses and ports that nobody else may be given.
    pub(crate) allocation: tokio::sync::Mutex<()>,
    /// Whose token is whose, for reviews; logins are the edge's.
    pub(crate) tokens: TokenTable,
    pub(crate) chance: Chance,
    pub(crate) settings: Settings,
}

/// The clocks and limits of the server, documented on [`crate::Config`].
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) bookmark_interval: Duration,
    pub(crate) min_watch_timeout: Duration,
    pub(crate) future_version_wait: Duration,
    pub(crate) event_ttl: Duration,
    pub(crate) seed: Option<u64>,
    /// PEM of the authority that signs the serving certificate, for `kube-root-ca.crt`.
    pub(crate) root_ca: String,
}

impl Shared {
    pub(crate) fn new(store: Store, tokens: TokenTable, settings: Settings) -> Shared {
        let built_in = built_in_resources();
        let registry = Registry::new(built_in.clone(), std::collections::BTreeMap::new(), 0);
        Shared {
            store,
            registry: Arc::new(ArcSwap::from_pointee(registry)),
            built_in,
            published: Published::default(),
            definitions: Arc::new(Definitions::new()),
            namespaces: Arc::new(Namespaces::new()),
            garbage: Arc::new(Garbage::new()),
            swap: Arc::default(),
            allocation: tokio::sync::Mutex::new(()),
            tokens,
            chance: Chance::new(settings.seed),
            settings,
        }
    }

    /// A built-in resource by group and plural, in its stored version.
    pub(crate) fn built_in(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.built_in
            .iter()
            .find(|r| r.is(group, plural) && r.is_served_as_stored())
    }
}

impl Settings {
    /// Spread over one to two times the minimum, so that watches do not all end together.
    pub(crate) fn default_watch_timeout(&self) -> Duration {
        let random = uuid::Uuid::new_v4().as_bytes()[0];
        self.min_watch_timeout.mul_f64(1.0 + f64::from(random) / 256.0)
    }
}
