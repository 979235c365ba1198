//! Response bodies: one buffer, or a stream of them, with what must happen when they end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::account::Account;
use super::activity::Busy;

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

    fn is_stopped(&mut self, cx: &mut Context<'_>) -> bool {
        self.stop
            .as_mut()
            .is_some_and(|stop| stop.as_mut().poll(cx).is_ready())
    }

    fn finish(&mut self) {
        self.source = Source::Ended;
        self.stop = None;
        self.account = None;
        self.busy = None;
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
        let polled = this.poll_source(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            this.finish();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
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
