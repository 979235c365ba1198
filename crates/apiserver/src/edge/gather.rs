//! Puts what the streams of one connection have to say into few writes.
//!
//! HTTP/2 writes and flushes every frame by itself. Where a thousand watches of ten connections are told of one event,
//! that would be a thousand TLS records, and as many calls of the system. So flushes of the protocol only mean that
//! it has no more to say for now, and [`Gathered`], which runs the connection, flushes once the connection waits.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;

/// What is gathered at most before it is written; a TLS record holds half of it.
const MAX_GATHERED_BYTES: usize = 32 * 1024;
/// With so many open streams the connection lets others have their turn first: some of them may be its own.
const MANY_STREAMS: usize = 8;

/// A stream that keeps what is written until [`Gathered`] or its own bound flushes it.
pub(super) struct Gather<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

struct Shared<T> {
    io: T,
    /// Written by the protocol, not yet by us; `None` hands everything on at once.
    waiting: Option<Vec<u8>>,
    /// How much of it the stream below has taken.
    n_taken: usize,
}

impl<T> Gather<T> {
    /// Hands everything on at once.
    pub(super) fn through(io: T) -> Self {
        Self::new(io, None)
    }

    /// Gathers, and must be run by [`Gathered`].
    pub(super) fn gathering(io: T) -> Self {
        Self::new(io, Some(Vec::new()))
    }

    fn new(io: T, waiting: Option<Vec<u8>>) -> Self {
        let shared = Shared {
            io,
            waiting,
            n_taken: 0,
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// The same stream.
    pub(super) fn handle(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }

    // Only the task of the connection uses it, so nobody ever waits here.
    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncWrite + Unpin> Shared<T> {
    /// Hands on what was gathered.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        while self.n_taken < waiting.len() {
            let n = ready!(Pin::new(&mut self.io).poll_write(cx, &waiting[self.n_taken..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.n_taken += n;
        }
        // Given back, because most connections are quiet for most of the time.
        *waiting = Vec::new();
        self.n_taken = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gather<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().io).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gather<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.lock();
        let Some(waiting) = &shared.waiting else {
            return Pin::new(&mut shared.io).poll_write_vectored(cx, slices);
        };
        let n_bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if waiting.len() + n_bytes > MAX_GATHERED_BYTES {
            ready!(shared.poll_drain(cx))?;
        }
        if n_bytes > MAX_GATHERED_BYTES {
            return Pin::new(&mut shared.io).poll_write_vectored(cx, slices);
        }
        let waiting = shared.waiting.get_or_insert_default();
        for slice in slices {
            waiting.extend_from_slice(slice);
        }
        Poll::Ready(Ok(n_bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.lock();
        match shared.waiting {
            Some(_) => Poll::Ready(Ok(())),
            None => shared.poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.lock();
        ready!(shared.poll_drain(cx))?;
        Pin::new(&mut shared.io).poll_shutdown(cx)
    }
}

/// Runs a connection, and flushes what it wrote when it waits.
pub(super) struct Gathered<C, T> {
    connection: C,
    stream: Gather<T>,
    activity: Activity,
    /// Whether others are to have their turn before the connection next has its own.
    stands_back: bool,
}

impl<C, T> Gathered<C, T> {
    pub(super) fn new(connection: C, stream: Gather<T>, activity: Activity) -> Self {
        Self {
            connection,
            stream,
            activity,
            stands_back: true,
        }
    }

    pub(super) fn get_mut(&mut self) -> &mut C {
        &mut self.connection
    }
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl<C, T> Future for Gathered<C, T>
where
    C: Future<Output = Ended> + Unpin,
    T: AsyncWrite + Unpin,
{
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = &mut *self;
        if this.stands_back && this.activity.n_active() >= MANY_STREAMS {
            // Back in the queue behind the tasks that were woken for the same reason.
            this.stands_back = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.stands_back = true;
        if let Poll::Ready(ended) = Pin::new(&mut this.connection).poll(cx) {
            return Poll::Ready(ended);
        }
        match this.stream.lock().poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// Runs a protocol that writes and flushes each of `pieces`, then waits; returns what arrives in one read each.
    async fn arrivals(pieces: &'static [&'static [u8]], n_streams: usize) -> Vec<Vec<u8>> {
        let (ours, mut theirs) = duplex(1 << 20);
        let stream = Gather::gathering(ours);
        let activity = Activity::default();
        let busy: Vec<_> = (0..n_streams).map(|_| activity.begin()).collect();
        let protocol = Box::pin(protocol(stream.handle(), pieces));
        let run = tokio::spawn(Gathered::new(protocol, stream, activity));
        let expected: usize = pieces.iter().map(|piece| piece.len()).sum();
        let (mut arrived, mut n_bytes) = (Vec::new(), 0);
        while n_bytes < expected {
            let mut buffer = vec![0; 1 << 20];
            let n = theirs.read(&mut buffer).await.unwrap();
            buffer.truncate(n);
            n_bytes += n;
            arrived.push(buffer);
        }
        run.abort();
        drop(busy);
        arrived
    }

    async fn protocol(mut io: Gather<DuplexStream>, pieces: &'static [&'static [u8]]) -> Ended {
        for piece in pieces {
            io.write_all(piece).await?;
            io.flush().await?;
        }
        std::future::pending().await
    }

    #[tokio::test]
    async fn what_is_written_in_one_turn_goes_out_together() {
        assert_eq!(arrivals(&[b"one", b"two"], 1).await, [b"onetwo".to_vec()]);
        assert_eq!(arrivals(&[b"one", b"two"], 100).await, [b"onetwo".to_vec()]);
    }

    #[tokio::test]
    async fn no_more_is_held_back_than_the_bound() {
        const LARGE: &[u8] = &[b'x'; MAX_GATHERED_BYTES - 1];
        let arrived = arrivals(&[b"one", LARGE, LARGE, LARGE, LARGE], 1).await;
        assert_eq!(arrived.concat().len(), 3 + 4 * LARGE.len());
    }

    #[tokio::test]
    async fn an_error_below_ends_the_connection() {
        let (ours, theirs) = duplex(8);
        let stream = Gather::gathering(ours);
        let protocol = Box::pin(protocol(stream.handle(), &[b"longer than fits"]));
        drop(theirs);
        let ended = Gathered::new(protocol, stream, Activity::default()).await;
        assert!(ended.is_err());
    }

    #[tokio::test]
    async fn a_shutdown_takes_what_was_gathered_with_it() {
        let (ours, mut theirs) = duplex(64);
        let mut stream = Gather::gathering(ours);
        stream.write_all(b"goodbye").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut arrived = String::new();
        theirs.read_to_string(&mut arrived).await.unwrap();
        assert_eq!(arrived, "goodbye");
    }
}
