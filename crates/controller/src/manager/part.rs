//! What runs beside the controllers.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::deaths::Deaths;

/// Something that runs beside the controllers until it is stopped, or dropped.
pub(super) struct Part<T> {
    stop: CancellationToken,
    /// At most one: a set, because that ends its tasks when it is dropped.
    task: JoinSet<Option<T>>,
}

impl<T: Send + 'static> Part<T> {
    /// Starts it, if it is there. `name` is that of its liveness check.
    pub(super) fn start<P, F>(
        name: &'static str,
        deaths: &Deaths,
        part: Option<P>,
        run: impl FnOnce(P, CancellationToken) -> F,
    ) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        if let Some(part) = part {
            let (deaths, stop, running) = (deaths.clone(), stop.clone(), run(part, stop.clone()));
            let what = format!("the task of {name}");
            task.spawn(async move { deaths.watch(name, &what, &stop, running).await });
        }
        Self { stop, task }
    }

    /// Nothing if it was not there, or panicked.
    pub(super) async fn stop(mut self) -> Option<T> {
        self.stop.cancel();
        self.task.join_next().await?.ok().flatten()
    }
}
