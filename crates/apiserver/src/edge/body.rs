//! Response bodies: one buffer, or a stream of them, with what must happen when they end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::account::Account;
use super::activity::Busy;

/// Pieces smaller than this are joined while more are ready: HTTP/2 sends each piece as a frame of its own,
/// and a list of 50,000 small objects would be as many frames.
const JOIN_BELOW_BYTES: usize = 16 * 1024;
/// Joined pieces are sent at this size.
const JOINED_BYTES: usize = 32 * 1024;
/// Pieces joined at once, so that a stream that is always ready cannot keep the thread.
const MAX_JOINED: usize = 1024;

/// The body of a response.
///
/// Small answers are one buffer and cost nothing extra; big lists are a queue of buffers shared with the
/// store or a stream made as it is read; watches are streams.
pub struct ResponseBody {
    source: Source,
    /// Records the request and gives its slot back; done when the body ends or is dropped.
    account: Option<Box<Account>>,
    /// Ends a long-running stream when the server goes away.
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Keeps the connection from being seen as idle.
    busy: Option<Busy>,
    /// What came after data that had to go first.
    held: Option<io::Result<Frame<Bytes>>>,
}

enum Source {
    Ended,
    Full(Bytes),
    Chunks { left: VecDeque<Bytes>, bytes_left: u64 },
    Stream(UnsyncBoxBody<Bytes, io::Error>),
}

impl ResponseBody {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::from_source(Source::Ended)
    }

    /// One buffer.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            Self::empty()
        } else {
            Self::from_source(Source::Full(bytes))
        }
    }

    /// Buffers that exist already, sent in order without being joined; the length is known to the client.
    #[must_use]
    pub fn chunks(chunks: impl IntoIterator<Item = Bytes>) -> Self {
        let left: VecDeque<Bytes> = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        let bytes_left = left.iter().map(|chunk| chunk.len() as u64).sum();
        Self::from_source(Source::Chunks { left, bytes_left })
    }

    /// A body made while it is read. An error cuts the connection or resets the stream.
    #[must_use]
    pub fn stream(body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static) -> Self {
        Self::from_source(Source::Stream(body.boxed_unsync()))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            account: None,
            stop: None,
            busy: None,
            held: None,
        }
    }

    pub(super) fn with_account(mut self, account: Account) -> Self {
        self.account = Some(Box::new(account));
        self
    }

    pub(super) fn stopped_by(mut self, stop: WaitForCancellationFutureOwned) -> Self {
        self.stop = Some(Box::pin(stop));
        self
    }

    pub(super) fn keeping_busy(mut self, busy: Busy) -> Self {
        self.busy = Some(busy);
        self
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.source {
            Source::Ended => Poll::Ready(None),
            Source::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.source = Source::Ended;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Source::Chunks { left, bytes_left } => {
                let Some(chunk) = left.pop_front() else {
                    return Poll::Ready(None);
                };
                *bytes_left -= chunk.remaining() as u64;
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Source::Stream(body) => poll_caught(Pin::new(body), cx),
        }
    }

    /// The next piece, with those after it that are small and ready.
    fn poll_joined(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(Some(held));
        }
        let mut pieces = Pieces::default();
        for _ in 0..MAX_JOINED {
            let polled = self.poll_source(cx);
            let data = match polled {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(other) => return self.after(pieces, Some(Ok(other))),
                },
                Poll::Ready(end) => return self.after(pieces, end),
                Poll::Pending if pieces.n_bytes == 0 => return Poll::Pending,
                Poll::Pending => break,
            };
            pieces.push(data, self.known_to_follow());
            if pieces.n_bytes >= JOIN_BELOW_BYTES && (pieces.is_one() || pieces.n_bytes >= JOINED_BYTES) {
                break;
            }
        }
        Poll::Ready(Some(Ok(Frame::data(pieces.join()))))
    }

    /// How many bytes are still to come, as far as that is known.
    fn known_to_follow(&self) -> usize {
        match &self.source {
            Source::Ended | Source::Full(_) => 0,
            Source::Chunks { bytes_left, .. } => usize::try_from(*bytes_left).unwrap_or(usize::MAX),
            Source::Stream(_) => JOINED_BYTES,
        }
    }

    /// Data first, then what ended it.
    fn after(
        &mut self,
        pieces: Pieces,
        next: Option<io::Result<Frame<Bytes>>>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if pieces.n_bytes == 0 {
            return Poll::Ready(next);
        }
        if next.is_none() {
            self.source = Source::Ended;
        }
        self.held = next;
        Poll::Ready(Some(Ok(Frame::data(pieces.join()))))
    }

    fn is_stopped(&mut self, cx: &mut Context<'_>) -> bool {
        self.stop
            .as_mut()
            .is_some_and(|stop| stop.as_mut().poll(cx).is_ready())
    }

    fn finish(&mut self) {
        self.source = Source::Ended;
        self.held = None;
        self.stop = None;
        self.account = None;
        self.busy = None;
    }
}

/// Data on its way into one frame. The first piece is kept as it is: most bodies have no second.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    joined: BytesMut,
    n_bytes: usize,
}

impl Pieces {
    /// Takes a piece; `to_follow` is how much room the next ones may need.
    fn push(&mut self, data: Bytes, to_follow: usize) {
        self.n_bytes += data.len();
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            // No more than is needed: most answers are one object and a newline.
            let room = self.n_bytes.saturating_add(to_follow);
            self.joined.reserve(room.min(JOINED_BYTES + JOIN_BELOW_BYTES));
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&data);
    }

    fn is_one(&self) -> bool {
        self.joined.is_empty()
    }

    fn join(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        }
    }
}

/// A panic while a body is made must not take the connection's task with it.
fn poll_caught(
    body: Pin<&mut UnsyncBoxBody<Bytes, io::Error>>,
    cx: &mut Context<'_>,
) -> Poll<Option<io::Result<Frame<Bytes>>>> {
    match catch_unwind(AssertUnwindSafe(|| body.poll_frame(cx))) {
        Ok(polled) => polled,
        Err(_) => Poll::Ready(Some(Err(io::Error::other("panic while the response was made")))),
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.is_stopped(cx) {
            this.finish();
            return Poll::Ready(None);
        }
        if this.account.as_ref().is_some_and(|account| account.is_overdue()) {
            this.finish();
            let late = io::Error::new(
                io::ErrorKind::TimedOut,
                "response not taken within the request timeout",
            );
            return Poll::Ready(Some(Err(late)));
        }
        let polled = this.poll_joined(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            this.finish();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        if self.held.is_some() {
            return false;
        }
        match &self.source {
            Source::Ended => true,
            Source::Full(_) => false,
            Source::Chunks { left, .. } => left.is_empty(),
            Source::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Ended => SizeHint::with_exact(0),
            Source::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Chunks { bytes_left, .. } => SizeHint::with_exact(*bytes_left),
            Source::Stream(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("size", &self.size_hint())
            .finish_non_exhaustive()
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::full(bytes)
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        Self::full(text)
    }
}

impl From<&'static str> for ResponseBody {
    fn from(text: &'static str) -> Self {
        Self::full(text)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;

    use super::*;

    /// The lengths of the frames that a body comes out in.
    async fn frames(mut body: ResponseBody) -> Vec<Result<usize, String>> {
        let mut lengths = Vec::new();
        while let Some(frame) = body.frame().await {
            lengths.push(
                frame
                    .map(|f| f.into_data().unwrap().len())
                    .map_err(|error| error.to_string()),
            );
        }
        lengths
    }

    fn pieces(lengths: &[usize]) -> Vec<Bytes> {
        lengths.iter().map(|n| Bytes::from(vec![b'x'; *n])).collect()
    }

    #[tokio::test]
    async fn joins_small_pieces_and_leaves_large_ones() {
        let check = async |lengths: &[usize], expect: &[usize]| {
            let body = ResponseBody::chunks(pieces(lengths));
            assert_eq!(
                body.size_hint().exact(),
                Some(lengths.iter().sum::<usize>() as u64)
            );
            let expect: Vec<_> = expect.iter().map(|n| Ok(*n)).collect();
            assert_eq!(frames(body).await, expect, "{lengths:?}");
        };
        check(&[], &[]).await;
        check(&[5], &[5]).await;
        check(&[1, 2, 3], &[6]).await;
        check(&[20_000, 20_000], &[20_000, 20_000]).await;
        check(&[10_000, 10_000, 10_000, 10_000, 10_000], &[40_000, 10_000]).await;
    }

    #[tokio::test]
    async fn an_error_comes_after_the_data_before_it() {
        let data = stream::iter(pieces(&[1, 2])).map(|bytes| Ok(Frame::data(bytes)));
        let failing = data.chain(stream::once(async { Err(io::Error::other("late")) }));
        let body = ResponseBody::stream(StreamBody::new(failing));
        assert_eq!(frames(body).await, [Ok(3), Err("late".to_owned())]);
    }

    #[tokio::test]
    async fn does_not_wait_for_more_when_some_is_there() {
        let data = stream::iter(pieces(&[1, 2])).map(|bytes| Ok(Frame::data(bytes)));
        let mut body = ResponseBody::stream(StreamBody::new(data.chain(stream::pending())));
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap().len(), 3);
    }
}
