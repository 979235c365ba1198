//! The sockets that the AMQP client speaks over: tokio's, with our own TLS.
//!
//! The client's own TLS brings a second set of certificate readers and takes no server name.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_rs::{
    Tokio,
    traits::{Executor, Reactor, RuntimeKit},
    util::Task,
};
use futures_core::Stream as Values;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::{
    compat::{Compat, TokioAsyncReadCompatExt as _},
    sync::{CancellationToken, WaitForCancellationFutureOwned},
};

use crate::tls::Tls;

/// Makes connections, over TLS if there is some.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    tokio: Tokio,
    tls: Option<Tls>,
    host: String,
    cut: CancellationToken,
}

/// A connection, until it is cut off.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Must be called within a runtime of tokio. With `cut` everything that is under way fails.
    pub(super) fn new(tls: Option<Tls>, host: &str, cut: CancellationToken) -> Self {
        Self {
            tokio: Tokio::current(),
            tls,
            host: host.to_owned(),
            cut,
        }
    }

    async fn open(self, address: SocketAddr) -> io::Result<Socket> {
        let cut = self.cut.clone();
        let opened = cut.run_until_cancelled(self.connect(address)).await;
        Ok(Socket {
            stream: opened.unwrap_or_else(|| Err(cut_off()))?,
            cut: Box::pin(cut.cancelled_owned()),
        })
    }

    async fn connect(self, address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls else {
            return Ok(Stream::Plain(stream));
        };
        let name = tls.name_for(&self.host).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls.config).connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

impl RuntimeKit for Wire {}

impl Executor for Wire {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, future: F) -> T {
        self.tokio.block_on(future)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        future: F,
    ) -> Task<Self::Task<T>> {
        self.tokio.spawn(future)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        work: F,
    ) -> Task<Self::Task<T>> {
        self.tokio.spawn_blocking(work)
    }
}

impl Reactor for Wire {
    type TcpStream = Compat<Socket>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl futures_util::AsyncRead + futures_util::AsyncWrite + Send + Unpin + 'static> {
        self.tokio.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.tokio.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Values<Item = Instant> + Send + 'static {
        self.tokio.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let wire = self.clone();
        // The client polls from a thread of its own: the sockets must belong to the runtime all the same.
        let opening = self.tokio.spawn(wire.open(address));
        async move { opening.await.map(Socket::compat) }
    }
}

impl Socket {
    /// The stream, unless it is cut off. Whoever waits for it hears of that too.
    fn stream(self: Pin<&mut Self>, cx: &mut Context<'_>) -> io::Result<&mut Stream> {
        let socket = self.get_mut();
        match socket.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(cut_off()),
            Poll::Pending => Ok(&mut socket.stream),
        }
    }
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "no longer waited for")
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.stream(cx)? {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.stream(cx)? {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, data),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream(cx)? {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream(cx)? {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
