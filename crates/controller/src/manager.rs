//! Several controllers in one process, on one client and shared caches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use skopos_client::{Client, Discovery};
use skopos_informer::{Informers, InformersConfig};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::run::{ControllerQueue, Environment};
use crate::{Controller, Fence, Metrics};

/// Runs controllers, with everything that they need around them.
pub struct Manager {
    environment: Environment,
    controllers: Vec<(Controller, ControllerQueue)>,
}

/// How a [`Manager`] behaves.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// How long running reconciles are given to finish when the process stops (default 30 s).
    pub grace: Duration,
    /// How caches behave.
    pub informers: InformersConfig,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(30),
            informers: InformersConfig::default(),
        }
    }
}

impl Manager {
    /// A manager without controllers.
    pub fn new(client: &Client, config: ManagerConfig) -> Self {
        let discovery = Discovery::new(client);
        Self {
            environment: Environment {
                client: client.clone(),
                informers: Informers::new(Arc::new(discovery.clone()), config.informers),
                discovery,
                fence: Fence::open(),
                metrics: Metrics::new(),
                grace: config.grace,
            },
            controllers: Vec::new(),
        }
    }

    /// Adds a controller; returns its queue, to look at it and at what was given up.
    pub fn add(&mut self, controller: Controller) -> ControllerQueue {
        let queue = controller.queue(&self.environment.metrics);
        self.controllers.push((controller, queue.clone()));
        queue
    }

    /// The caches that the controllers share.
    pub fn informers(&self) -> &Informers {
        &self.environment.informers
    }

    /// Lets `registry` show the metrics of controllers, queues and caches.
    pub fn register(&self, registry: &mut Registry) {
        self.environment.metrics.register(registry);
        self.environment.informers.register(registry);
    }

    /// Runs everything until `shutdown`. Then nothing new is begun, what runs is finished or cancelled in time, and
    /// the caches stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let caches = CancellationToken::new();
        let informers = tokio::spawn(self.environment.informers.clone().run(caches.clone()));
        let mut controllers = JoinSet::new();
        for (controller, queue) in self.controllers {
            controllers.spawn(controller.run(self.environment.clone(), queue, shutdown.clone()));
        }
        while let Some(ended) = controllers.join_next().await {
            if let Err(error) = ended {
                error!(%error, "a controller failed");
            }
        }
        caches.cancel();
        if let Err(error) = informers.await {
            error!(%error, "the caches failed");
        }
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.controllers.iter().map(|(controller, _)| controller.name());
        f.debug_list().entries(names).finish()
    }
}
