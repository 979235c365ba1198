//! Whether a controller can still do something.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Shared;

impl Shared {
    /// Has `/healthz` fail if one of the controller's tasks has ended unasked, or all of its workers are blocked, and
    /// `/readyz` if it leads and cannot begin to work.
    pub(super) fn add_checks(self: &Arc<Self>) {
        let (check, deaths) = (self.check_name(), self.environment.deaths.clone());
        let shared = Arc::downgrade(self);
        self.environment.health.add_liveness(&self.check_name(), move || {
            deaths.check(&check)?;
            shared.upgrade().map_or(Ok(()), |shared| shared.check_workers())
        });
        let shared = Arc::downgrade(self);
        self.environment
            .health
            .add_readiness(&self.check_name(), move || {
                shared.upgrade().map_or(Ok(()), |shared| {
                    shared.holdup.check(shared.environment.fence.epoch())
                })
            });
    }

    /// Runs one of the controller's tasks to its end.
    pub(super) async fn watch<T>(
        &self,
        what: &str,
        stop: &CancellationToken,
        task: impl Future<Output = T>,
    ) -> Option<T> {
        let deaths = &self.environment.deaths;
        deaths.watch(&self.check_name(), what, stop, task).await
    }

    fn check_name(&self) -> String {
        format!("controller-{}", self.controller.name)
    }

    /// A reconcile is cancelled when its time is over, unless it blocks its thread. One worker less is slower; none at
    /// all is an end.
    fn check_workers(&self) -> Result<(), String> {
        const NAMED: usize = 8;
        let config = &self.controller.config;
        let limit = config.timeout.saturating_add(self.environment.cancel_grace);
        let mut blocked = self.in_hand.held_for(limit);
        if blocked.len() < config.concurrency {
            return Ok(());
        }
        blocked.truncate(NAMED);
        let names: Vec<String> = blocked.iter().map(ToString::to_string).collect();
        Err(format!(
            "every worker is blocked by a reconcile that cannot be cancelled: {}",
            names.join(", ")
        ))
    }
}
