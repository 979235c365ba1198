//! How the writer's answer is waited for.

use tokio::sync::oneshot;

/// Waits for an answer.
#[cfg(not(test))]
pub(crate) async fn wait<T: Send + 'static>(
    answer: oneshot::Receiver<T>,
) -> Result<T, oneshot::error::RecvError> {
    answer.await
}

/// Waits for an answer in a way that a paused clock notices: it must not run on while the disk is at work.
#[cfg(test)]
pub(crate) async fn wait<T: Send + 'static>(
    answer: oneshot::Receiver<T>,
) -> Result<T, oneshot::error::RecvError> {
    let waiting = tokio::task::spawn_blocking(|| answer.blocking_recv());
    waiting.await.expect("waiting does not panic")
}
