//! A request with a connection of its own, which is driven by whoever reads the answer.
//!
//! Usually a task of its own reads from a connection and hands each chunk over to the one who wants it. A watch takes
//! a whole HTTP/1.1 connection anyway, and the hand-over costs more than everything else that is done with an event.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderValue, Request, Response, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use kube::client::Body;
use tokio::sync::OwnedSemaphorePermit;

use super::streams::Shared;
use super::{BoxError, Stream};

/// The body of an answer.
#[derive(Debug)]
pub(super) enum AnswerBody {
    /// Read by the task of a connection that goes on to other requests.
    Pooled(Incoming),
    /// One of the streams of a connection, which it keeps open.
    Stream(
        Incoming,
        #[expect(dead_code, reason = "kept while the stream is read")] Arc<Shared>,
    ),
    /// Read by the one who asks for it.
    Own(Box<OwnBody>),
}

#[derive(Debug)]
pub(super) struct OwnBody {
    body: Incoming,
    /// Until it has ended.
    connection: Option<http1::Connection<Stream, Body>>,
    /// A connection closes when nobody can send any more.
    _sender: http1::SendRequest<Body>,
    /// Counts among the connections that are not shared though they might be.
    _right: Option<OwnedSemaphorePermit>,
}

/// Sends a request and waits for the head of its answer.
pub(super) async fn send(
    stream: Stream,
    mut request: Request<Body>,
    right: Option<OwnedSemaphorePermit>,
) -> Result<Response<AnswerBody>, BoxError> {
    let (mut sender, mut connection) = http1::handshake(stream).await?;
    address(&mut request)?;
    let mut answer = std::pin::pin!(sender.send_request(request));
    let answer = poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(answer.map_err(BoxError::from));
        }
        match Pin::new(&mut connection).poll(cx) {
            // The answer may have come together with the end.
            Poll::Ready(ended) => match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(answer.map_err(BoxError::from)),
                Poll::Pending => Poll::Ready(Err(closed(ended))),
            },
            Poll::Pending => answer.as_mut().poll(cx).map_err(BoxError::from),
        }
    })
    .await?;
    Ok(answer.map(|body| {
        AnswerBody::Own(Box::new(OwnBody {
            body,
            connection: Some(connection),
            _sender: sender,
            _right: right,
        }))
    }))
}

fn closed(ended: hyper::Result<()>) -> BoxError {
    match ended {
        Ok(()) => "the server closed the connection".into(),
        Err(error) => error.into(),
    }
}

/// Names the server in a header, as HTTP/1.1 does, instead of in the address.
fn address(request: &mut Request<Body>) -> Result<(), BoxError> {
    let uri = request.uri();
    let authority = uri.authority().ok_or("a request without a server")?.as_str();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = HeaderValue::from_str(host)?;
    let path = uri
        .path_and_query()
        .cloned()
        .unwrap_or(PathAndQuery::from_static("/"));
    request.headers_mut().entry(header::HOST).or_insert(host);
    *request.uri_mut() = Uri::from(path);
    Ok(())
}

impl OwnBody {
    /// Reads what is there; else lets the connection read and looks again.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(ended) = Pin::new(connection).poll(cx)
        {
            self.connection = None;
            if let Err(error) = ended {
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)))
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Pooled(body) | Self::Stream(body, _) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)))
            }
            Self::Own(own) => own.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pooled(body) | Self::Stream(body, _) => body.is_end_stream(),
            Self::Own(own) => own.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pooled(body) | Self::Stream(body, _) => body.size_hint(),
            Self::Own(own) => own.body.size_hint(),
        }
    }
}
