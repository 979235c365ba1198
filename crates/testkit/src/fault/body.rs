//! A response body that breaks, stalls or lies on purpose.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt as _, stream};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::{
    Asked, Fault, Faults, Verb,
    lag::Lagging,
    lines::{Change, Lines, malformed_list},
};

/// The body of a response behind a [`FaultLayer`](super::FaultLayer).
pub struct FaultBody(UnsyncBoxBody<Bytes, io::Error>);

/// The most of a list that is read at once to spoil one of its items.
const MAX_LIST_BYTES: usize = 256 << 20;

impl FaultBody {
    /// One buffer.
    pub(super) fn full(bytes: impl Into<Bytes>) -> Self {
        let once = http_body_util::Full::new(bytes.into());
        Self(once.map_err(|never| match never {}).boxed_unsync())
    }

    /// The body of an answer to `asked`, as late as `faults` say and with what a fault makes of it. Breaks when `open` is
    /// cancelled.
    pub(super) fn wrap<B>(
        body: B,
        asked: &Asked,
        faults: &Faults,
        fault: Option<&Fault>,
        open: CancellationToken,
    ) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let flow = Flow {
            inner: Lagging::new(body.map_err(Into::into).boxed_unsync(), asked, faults),
            edit: Edit::of(asked, fault),
            open,
        };
        let frames = stream::unfold(Some(flow), async |flow| {
            let mut flow = flow?;
            match flow.next().await {
                None => None,
                Some(Ok(bytes)) => Some((Ok(Frame::data(bytes)), Some(flow))),
                Some(Err(error)) => Some((Err(error), None)),
            }
        });
        Self(StreamBody::new(frames.fuse()).boxed_unsync())
    }
}

/// A body on its way through an edit.
struct Flow {
    inner: Lagging,
    edit: Edit,
    open: CancellationToken,
}

enum Edit {
    None,
    /// What becomes of it after so many bytes.
    After(usize, Then),
    Lines(Lines, Begun),
    MalformedItem(usize),
    Gzip,
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Yes,
    No,
}

#[derive(Clone, Copy)]
enum Then {
    Cut,
    End,
    Stall,
}

impl Edit {
    fn of(asked: &Asked, fault: Option<&Fault>) -> Self {
        let lines = |change| Self::Lines(Lines::new(change), Begun::No);
        match fault {
            Some(Fault::Cut { after_bytes }) => Self::After(*after_bytes, Then::Cut),
            Some(Fault::End { after_bytes }) => Self::After(*after_bytes, Then::End),
            Some(Fault::Stall { after_bytes }) => Self::After(*after_bytes, Then::Stall),
            Some(Fault::ErrorEvent { after_events, status }) => lines(Change::Error {
                after_events: *after_events,
                status: status.clone(),
            }),
            Some(Fault::Malformed { nth }) if asked.verb == Verb::List => Self::MalformedItem(*nth),
            Some(Fault::Malformed { nth }) => lines(Change::Malformed { nth: *nth }),
            Some(Fault::Garbled { nth }) => lines(Change::Garbled { nth: *nth }),
            Some(Fault::DuplicateBookmarks) => lines(Change::Duplicate),
            Some(Fault::LateBookmarks) => lines(Change::Late),
            Some(Fault::GzipMembers) => Self::Gzip,
            _ => Self::None,
        }
    }
}

impl Flow {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match &mut self.edit {
                Edit::Ended => return None,
                Edit::After(0, Then::Cut) => return Some(Err(reset())),
                Edit::After(0, Then::End) => return None,
                Edit::After(0, Then::Stall) => {
                    self.open.cancelled().await;
                    return Some(Err(reset()));
                }
                Edit::Lines(lines, begun @ Begun::No) => {
                    *begun = Begun::Yes;
                    let changed = lines.begin();
                    if changed.is_end {
                        self.edit = Edit::Ended;
                        return Some(Ok(changed.bytes));
                    }
                }
                Edit::MalformedItem(nth) => {
                    let nth = *nth;
                    self.edit = Edit::Ended;
                    return Some(self.whole().await.map(|body| malformed_list(&body, nth).into()));
                }
                _ => {}
            }
            let data = match self.frame().await? {
                Ok(data) => data,
                Err(error) => return Some(Err(error)),
            };
            let sent = self.edited(data);
            if !sent.is_empty() {
                return Some(Ok(sent));
            }
        }
    }

    fn edited(&mut self, mut data: Bytes) -> Bytes {
        match &mut self.edit {
            Edit::After(left, _) => {
                data.truncate(*left);
                *left -= data.len();
                data
            }
            Edit::Lines(lines, _) => {
                let changed = lines.feed(&data);
                if changed.is_end {
                    self.edit = Edit::Ended;
                }
                changed.bytes
            }
            Edit::Gzip => member(&data),
            _ => data,
        }
    }

    /// The next data of the inner body, unless everything open is cut.
    async fn frame(&mut self) -> Option<io::Result<Bytes>> {
        tokio::select! {
            biased;
            () = self.open.cancelled() => Some(Err(reset())),
            data = self.inner.data() => data,
        }
    }

    async fn whole(&mut self) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(data) = self.frame().await {
            whole.extend_from_slice(&data?);
            if whole.len() > MAX_LIST_BYTES {
                return Err(io::Error::other("the list is too large to be spoiled"));
            }
        }
        Ok(whole)
    }
}

pub(crate) fn reset() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "connection reset by an injected fault",
    )
}

/// One gzip member.
fn member(data: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a vector cannot fail.
    let _ = io::Write::write_all(&mut encoder, data);
    encoder.finish().unwrap_or_default().into()
}

impl Body for FaultBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

impl fmt::Debug for FaultBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultBody")
    }
}
