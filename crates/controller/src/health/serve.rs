//! The port behind which [`Health`] answers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::Health;

/// How many connections there may be. Further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// How long a peer may take for the head of a request, also the next one on the same connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How much a head may take.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How long a connection may last, also one whose peer does not read; scrapers come back.
const MAX_AGE: Duration = Duration::from_secs(60);
/// How long answers under way may take at the end.
const GOODBYE: Duration = Duration::from_secs(2);
/// After the kernel refused to accept, for example because there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a [`Health`] over plain HTTP. It has no secrets, but no access control either: bind it where only probes and
/// scrapers come. All the more if it shows [dead letters](crate::ManagerConfig::dead_letters).
#[derive(Debug)]
pub struct HealthServer {
    health: Health,
    listener: TcpListener,
}

impl HealthServer {
    /// Takes a port.
    ///
    /// # Errors
    /// If it cannot be had.
    pub async fn bind(health: &Health, address: SocketAddr) -> io::Result<Self> {
        Ok(Self::on(health, TcpListener::bind(address).await?))
    }

    /// Takes a port that somebody else opened.
    pub fn on(health: &Health, listener: TcpListener) -> Self {
        Self {
            health: health.clone(),
            listener,
        }
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then ends what is under way.
    pub async fn run(self, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let accepting = async {
            loop {
                let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let (health, shutdown) = (self.health.clone(), shutdown.clone());
                        connections.spawn(async move {
                            serve(stream, &health, &shutdown).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        shutdown.run_until_cancelled(accepting).await;
        connections.close();
        connections.wait().await;
    }
}

async fn serve(stream: TcpStream, health: &Health, shutdown: &CancellationToken) {
    let service = service_fn(|request| {
        let response = health.respond(&request);
        async { Ok::<_, Infallible>(response) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // Whether a peer was rude or went away is nobody's concern.
        _ = &mut connection => return,
        () = shutdown.cancelled() => {}
        () = sleep(MAX_AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GOODBYE, connection).await;
}
