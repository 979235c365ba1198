//! A thread of its own that talks to the server, so that any other may wait for it.

use std::{
    future::Future,
    io,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The thread. Files are read and written by threads that block; were the work done by the runtime that waits for
/// them, all its workers could end up waiting.
#[derive(Debug)]
pub(crate) struct Bridge {
    handle: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Bridge {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, stop) = (runtime.handle().clone(), CancellationToken::new());
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("remote".into());
        let thread = thread.spawn(move || runtime.block_on(stopped.cancelled()))?;
        Ok(Self {
            handle,
            stop,
            thread: Some(thread),
        })
    }

    /// Does some work, while the thread that asks waits.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let (done, outcome) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Whoever asked waits for it.
            let _ = done.send(work.await);
        });
        let ended = || io::Error::other("the thread that talks to the server has ended");
        outcome.recv().map_err(|_| ended())?
    }

    /// Does some work, while the task that asks waits.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        self.handle.spawn(work).await.map_err(io::Error::other)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop.cancel();
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread that talks to the server ended badly");
        }
    }
}
