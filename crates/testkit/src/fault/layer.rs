//! Faults as a tower layer, in front of any server.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use skopos_object::Status;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use super::{Asked, Fault, FaultBody, Faults, body::reset, no_streaming_lists};

/// Puts [`Faults`] in front of a service that answers HTTP requests.
#[derive(Clone, Debug)]
pub struct FaultLayer {
    faults: Faults,
}

impl FaultLayer {
    /// The layer that does what `faults` says.
    pub fn new(faults: &Faults) -> Self {
        Self {
            faults: faults.clone(),
        }
    }
}

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService {
            inner,
            faults: self.faults.clone(),
        }
    }
}

/// A server with [`Faults`] in front.
#[derive(Clone, Debug)]
pub struct FaultService<S> {
    inner: S,
    faults: Faults,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<FaultBody>, BoxError>> + Send>>;

impl<S, Q, B> Service<Request<Q>> for FaultService<S>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    Q: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<FaultBody>;
    type Error = BoxError;
    type Future = Answer;

    // The inner service is asked once it is known whether the request reaches it.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Answer {
        Box::pin(answer(self.inner.clone(), self.faults.clone(), request))
    }
}

async fn answer<S, Q, B>(
    inner: S,
    faults: Faults,
    request: Request<Q>,
) -> Result<Response<FaultBody>, BoxError>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let asked = Asked::read(&parts);
    let request = Request::from_parts(parts, body);
    let open = faults.open();
    let fault = faults.decide(&asked);
    match &fault {
        Some(Fault::Refused) => return Err(refused().into()),
        Some(Fault::Answer(status)) => return Ok(refusal(status)),
        Some(Fault::NoStreamingLists) => return Ok(refusal(&no_streaming_lists())),
        Some(Fault::Slow(delay)) => tokio::time::sleep(*delay).await,
        _ => {}
    }
    let response = tokio::select! {
        biased;
        () = open.cancelled() => return Err(reset().into()),
        response = inner.oneshot(request) => response.map_err(Into::into)?,
    };
    if fault == Some(Fault::LostAnswer) {
        return Err(lost(response.into_body()).await);
    }
    let (mut parts, body) = response.into_parts();
    // What an error says is not worth spoiling.
    let is_packed = parts.headers.contains_key(header::CONTENT_ENCODING);
    let is_twice = |fault: &Fault| *fault == Fault::GzipMembers && is_packed;
    let fault = fault.filter(|fault| parts.status.is_success() && !is_twice(fault));
    if fault.is_some() {
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    if fault == Some(Fault::GzipMembers) {
        let gzip = HeaderValue::from_static("gzip");
        parts.headers.insert(header::CONTENT_ENCODING, gzip);
    }
    let body = FaultBody::wrap(body, &asked, &faults, fault.as_ref(), open);
    Ok(Response::from_parts(parts, body))
}

/// Reads the first of an answer, so that the server has done its work, and throws it away.
async fn lost<B>(body: B) -> BoxError
where
    B: Body<Data = Bytes> + Send + 'static,
{
    let mut body = body.boxed_unsync();
    let _ = body.frame().await;
    reset().into()
}

pub(crate) fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionRefused,
        "connection refused by an injected fault",
    )
}

fn refusal(status: &Status) -> Response<FaultBody> {
    let mut response = Response::new(FaultBody::full(status.to_json().to_string()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = status.retry_after_seconds() {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
