//! Accepts connections, up to a number, and ends them all at shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Ending, Streams};
use super::seam::Handler;
use super::service::Edge;

/// Pause after the system refused to accept, mostly for want of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Serves `edge` over TLS until `shutdown`, then ends watches, lets requests finish within
/// [`Limits::shutdown_grace`](super::Limits::shutdown_grace), cuts what is left, and returns when every task
/// it started has ended.
pub(crate) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    edge: Edge<H>,
    shutdown: CancellationToken,
) {
    let mut server = Server::new(tls, edge, shutdown);
    server.accept_until_shutdown(&listener).await;
    drop(listener);
    server.finish().await;
}

struct Server<H> {
    edge: Edge<H>,
    tls: TlsAcceptor,
    shutdown: CancellationToken,
    /// Cuts what did not end in time.
    cut: CancellationToken,
    /// Full means: idle connections are told to close, and the next one waits in the kernel's queue.
    places: Arc<Semaphore>,
    crowded: watch::Sender<bool>,
    connections: JoinSet<()>,
    /// The tasks of HTTP/2 streams, which hyper spawns.
    streams: TaskTracker,
}

impl<H: Handler> Server<H> {
    fn new(tls: Arc<ServerConfig>, edge: Edge<H>, shutdown: CancellationToken) -> Self {
        let max_connections = edge.shared().limits.max_connections.min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(max_connections));
        Self {
            edge,
            tls: TlsAcceptor::from(tls),
            shutdown,
            cut: CancellationToken::new(),
            places,
            crowded: watch::Sender::new(false),
            connections: JoinSet::new(),
            streams: TaskTracker::new(),
        }
    }

    async fn accept_until_shutdown(&mut self, listener: &TcpListener) {
        let shutdown = self.shutdown.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = self.accept(listener) => accepted,
            };
            while self.connections.try_join_next().is_some() {}
            match accepted {
                Ok((place, stream)) => self.start(place, stream),
                Err(error) if is_of_one_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections, closing idle ones");
                    self.crowded.send_replace(true);
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = sleep(ACCEPT_BACKOFF) => {}
                    }
                    self.crowded.send_replace(false);
                }
            }
        }
    }

    async fn accept(&self, listener: &TcpListener) -> io::Result<(OwnedSemaphorePermit, TcpStream)> {
        let place = self.place().await?;
        let (stream, _) = listener.accept().await?;
        Ok((place, stream))
    }

    async fn place(&self) -> io::Result<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        self.edge.shared().metrics.accept_waits.inc();
        self.crowded.send_replace(true);
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(io::Error::other);
        self.crowded.send_replace(false);
        place
    }

    fn start(&mut self, place: OwnedSemaphorePermit, stream: TcpStream) {
        let connection = Connection {
            edge: self.edge.clone(),
            tls: self.tls.clone(),
            ending: Ending {
                shutdown: self.shutdown.clone(),
                crowded: self.crowded.subscribe(),
            },
            streams: Streams {
                tracker: self.streams.clone(),
                cut: self.cut.clone(),
            },
        };
        let (metrics, cut) = (Arc::clone(&self.edge.shared().metrics), self.cut.clone());
        metrics.accepted.inc();
        self.connections.spawn(async move {
            metrics.connections.inc();
            cut.run_until_cancelled(connection.run(stream)).await;
            metrics.connections.dec();
            drop(place);
        });
    }

    async fn finish(mut self) {
        self.edge.drain();
        self.streams.close();
        let grace = self.edge.shared().limits.shutdown_grace;
        let ended = timeout(grace, async {
            while self.connections.join_next().await.is_some() {}
            self.streams.wait().await;
        });
        if ended.await.is_err() {
            tracing::warn!(
                n_connections = self.connections.len(),
                "cutting connections that did not end in time"
            );
        }
        self.cut.cancel();
        while self.connections.join_next().await.is_some() {}
        self.streams.wait().await;
    }
}

/// Errors that concern the connection being accepted, not the listener.
fn is_of_one_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}
