//! One connection: handshake, protocol, and when it ends.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use super::activity::Activity;
use super::body::ResponseBody;
use super::gather::{Gather, Gathered};
use super::limits::Limits;
use super::seam::Handler;
use super::service::{Edge, EdgeService};
use super::stall::Stall;
use super::websocket::{self, Wish};

/// What Go's server sends to a client that forgot the s in https.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// How long a peer that was told to go may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// How much is read of what a plain HTTP client still sends, so that it sees our answer and no reset.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024;

pub(super) struct Connection<H> {
    pub(super) edge: Edge<H>,
    pub(super) tls: TlsAcceptor,
    pub(super) ending: Ending,
    pub(super) streams: Streams,
}

/// The reasons for a connection to end that are not its own.
pub(super) struct Ending {
    pub(super) shutdown: CancellationToken,
    /// True while there is no place for new connections: idle ones go.
    pub(super) crowded: watch::Receiver<bool>,
}

/// Runs the tasks that hyper starts for HTTP/2 streams, so that the server can wait for them and cut them.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) tracker: TaskTracker,
    pub(super) cut: CancellationToken,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            cut.run_until_cancelled(stream).await;
        });
    }
}

impl<H: Handler> Connection<H> {
    pub(super) async fn run(self, stream: TcpStream) {
        let metrics = std::sync::Arc::clone(&self.edge.shared().metrics);
        let limits = self.edge.shared().limits.clone();
        let shutdown = self.ending.shutdown.clone();
        let handshake = timeout(limits.handshake_timeout, self.handshake(stream, &limits));
        let handshake = shutdown.run_until_cancelled(handshake).await;
        match handshake {
            None | Some(Ok(Ok(None))) => {}
            Some(Ok(Ok(Some(stream)))) => self.serve(stream, &limits).await,
            Some(Ok(Err(error))) => {
                metrics.handshake_errors.inc();
                tracing::debug!(%error, "TLS handshake failed");
            }
            Some(Err(_)) => {
                metrics.handshake_errors.inc();
                tracing::debug!("TLS handshake took too long");
            }
        }
    }

    /// `None` when the peer was answered and sent away.
    async fn handshake(
        &self,
        stream: TcpStream,
        limits: &Limits,
    ) -> io::Result<Option<TlsStream<Stall<TcpStream>>>> {
        stream.set_nodelay(true)?;
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Ok(None);
        }
        // TLS records start with a small number, HTTP methods with a capital.
        if first[0].is_ascii_uppercase() {
            turn_away(stream).await?;
            return Ok(None);
        }
        self.tls
            .accept(Stall::new(stream, limits.write_stall_timeout))
            .await
            .map(Some)
    }

    async fn serve(self, stream: TlsStream<Stall<TcpStream>>, limits: &Limits) {
        let tls = stream.get_ref().1;
        let peer = self.edge.shared().authenticator.peer(tls.peer_certificates());
        // The peer's choice in the handshake decides, so that no time is spent waiting for a preface.
        let is_http2 = tls.alpn_protocol() == Some(b"h2");
        let service = self.edge.service(peer);
        let activity = Activity::default();
        let builder = builder(limits, is_http2, self.streams);
        let counted = activity.clone();
        // A connection changes its protocol once.
        let (switch, mut switched) = mpsc::channel(1);
        let service =
            service_fn(move |request| answer(service.clone(), counted.clone(), switch.clone(), request));
        let stream = match is_http2 {
            true => Gather::gathering(stream),
            false => Gather::through(stream),
        };
        let handle = stream.handle();
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        drive(connection, handle, self.ending, &activity, limits.idle_timeout).await;
        if let Ok(watch) = switched.try_recv() {
            watch.run().await;
        }
    }
}

async fn answer<H: Handler>(
    mut service: EdgeService<H>,
    activity: Activity,
    switch: mpsc::Sender<websocket::Watch>,
    mut request: http::Request<Incoming>,
) -> Result<http::Response<ResponseBody>, Infallible> {
    let busy = activity.begin();
    let wish = match service.is_long_running(&request) {
        true => Wish::of(&mut request),
        false => None,
    };
    let response = service.call(request).await?;
    let response = response.map(|body| body.keeping_busy(busy));
    let Some(wish) = wish.filter(|_| websocket::can_carry(&response)) else {
        return Ok(response);
    };
    let (response, watch) = wish.grant(response);
    // Full means that the protocol has changed already, and that there are no more requests.
    let _ = switch.try_send(watch);
    Ok(response)
}

fn builder(limits: &Limits, is_http2: bool, streams: Streams) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .max_buf_size(limits.max_header_bytes.max(8 * 1024) as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_concurrent_streams)
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .max_send_buf_size(limits.max_send_buffer_bytes)
        .max_header_list_size(limits.max_header_bytes)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    if is_http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}

type Stream = Gather<TlsStream<Stall<TcpStream>>>;
type HttpConnection<'a, S> = auto::UpgradeableConnection<'a, TokioIo<Stream>, S, Streams>;

/// Runs the connection until it ends by itself, is idle for too long, is in the way, or the server stops.
async fn drive<S>(
    connection: HttpConnection<'_, S>,
    stream: Stream,
    mut ending: Ending,
    activity: &Activity,
    idle_timeout: Duration,
) where
    S: hyper::service::Service<
            http::Request<Incoming>,
            Response = http::Response<ResponseBody>,
            Error = Infallible,
        >,
    S::Future: Send + 'static,
{
    let connection = pin!(connection);
    let mut connection = Gathered::new(connection, stream, activity.clone());
    let mut timer = pin!(sleep(idle_timeout));
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(error, "connection ended");
                }
                return;
            }
            () = ending.shutdown.cancelled() => break,
            () = activity.became_idle() => {
                timer.as_mut().reset(Instant::now() + idle_timeout);
                if *ending.crowded.borrow() && activity.is_idle() { break }
            }
            Ok(()) = ending.crowded.changed() => {
                if *ending.crowded.borrow_and_update() && activity.is_idle() { break }
            }
            () = timer.as_mut() => {
                if activity.is_idle() { break }
                timer.as_mut().reset(Instant::now() + idle_timeout);
            }
        }
    }
    connection.get_mut().as_mut().graceful_shutdown();
    // An idle peer that does not answer the goodbye is cut; open requests go on to their own end.
    loop {
        match timeout(GOODBYE, &mut connection).await {
            Err(_) if !activity.is_idle() => {}
            _ => return,
        }
    }
}

async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN_HTTP).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(MAX_DISCARDED_BYTES);
    // Its errors are of no interest: the answer is out.
    let _ = timeout(
        Duration::from_secs(1),
        tokio::io::copy(&mut rest, &mut tokio::io::sink()),
    )
    .await;
    Ok(())
}
