//! Hears SIGINT and SIGTERM.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::{Code, Failure};
use crate::terminal;

/// Returns a token that is cancelled by the first SIGINT or SIGTERM. A second one ends the process at once.
pub(crate) fn shutdown() -> Result<CancellationToken, Failure> {
    let cannot = |error| Failure::new(Code::NoStart, format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let mut next = async || tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} };
        next().await;
        cancel.cancel();
        next().await;
        terminal::note("stopped before everything was closed");
        std::process::exit(130);
    });
    Ok(token)
}
