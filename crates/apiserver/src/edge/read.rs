//! Reads request bodies: no longer than the limit, no slower than the timeout, no more together than there is room for.

use std::fmt::Display;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::admission::Admission;
use super::answer::Refusal;
use super::limits::Limits;

const TOO_SLOW: Refusal = Refusal::Timeout("request did not complete within the allotted timeout");

/// A body and the room it takes among all bodies.
pub(super) struct Held {
    pub(super) bytes: Bytes,
    pub(super) _room: Option<OwnedSemaphorePermit>,
}

/// Reads the body of a request that may have one.
pub(super) async fn read<B>(
    body: B,
    method: &Method,
    headers: &HeaderMap,
    limits: &Limits,
    admission: &Admission,
) -> Result<Held, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Display,
{
    if method.is_safe() || body.is_end_stream() {
        return Ok(Held {
            bytes: Bytes::new(),
            _room: None,
        });
    }
    let limit = limits.max_body_bytes;
    let announced = announced_length(&body, headers);
    // Far too long: not worth reading to its end, the connection closes after the answer.
    if announced.is_some_and(|length| length > 2 * limit as u64) {
        return Err(Refusal::TooLarge(limit));
    }
    let room = announced.map_or(limit, |length| {
        usize::try_from(length).unwrap_or(limit).min(limit)
    });
    let room = admission.room_for_body(room).await;
    match timeout(limits.body_read_timeout, collect(body, limit, announced)).await {
        Ok(read) => read.map(|bytes| Held { bytes, _room: room }),
        Err(_) => Err(TOO_SLOW),
    }
}

fn announced_length(body: &impl Body, headers: &HeaderMap) -> Option<u64> {
    let header = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    header.or_else(|| body.size_hint().exact())
}

/// Collects the body. One that is somewhat too long is read on and thrown away, so that a client still
/// sending on HTTP/1.1 gets to see the answer instead of a reset.
async fn collect<B>(body: B, limit: usize, announced: Option<u64>) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Display,
{
    let mut body = pin!(body);
    let mut first: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    let mut n_read = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Refusal::BadRequest(format!("reading the request body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        n_read = n_read.saturating_add(data.len());
        if n_read > 2 * limit {
            return Err(Refusal::TooLarge(limit));
        }
        if n_read > limit || data.is_empty() {
            continue;
        }
        match first.take() {
            // Most bodies are one frame: no copy.
            None if joined.is_empty() => first = Some(data),
            None => joined.extend_from_slice(&data),
            Some(earlier) => {
                joined.reserve(room_for(announced, limit, earlier.len() + data.len()));
                joined.extend_from_slice(&earlier);
                joined.extend_from_slice(&data);
            }
        }
    }
    if n_read > limit {
        return Err(Refusal::TooLarge(limit));
    }
    Ok(first.unwrap_or_else(|| joined.freeze()))
}

/// What to allocate: the announced length if it is believable.
fn room_for(announced: Option<u64>, limit: usize, at_least: usize) -> usize {
    let announced = announced
        .and_then(|length| usize::try_from(length).ok())
        .unwrap_or(0);
    announced.min(limit).max(at_least)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::super::metrics::Metrics;
    use super::*;

    fn chunks(lengths: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + use<> {
        let frames: Vec<_> = lengths
            .iter()
            .map(|n| Ok(Frame::data(Bytes::from(vec![b'x'; *n]))))
            .collect();
        StreamBody::new(stream::iter(frames))
    }

    async fn read_chunks(lengths: &[usize]) -> Result<usize, Refusal> {
        let limits = Limits {
            max_body_bytes: 10,
            ..Limits::default()
        };
        let admission = Admission::new(&limits, &Metrics::default());
        let held = read(
            chunks(lengths),
            &Method::POST,
            &HeaderMap::new(),
            &limits,
            &admission,
        )
        .await;
        held.map(|held| held.bytes.len())
    }

    #[tokio::test]
    async fn reads_bodies_up_to_the_limit() {
        assert_eq!(read_chunks(&[]).await, Ok(0));
        assert_eq!(read_chunks(&[10]).await, Ok(10));
        assert_eq!(read_chunks(&[3, 0, 3, 4]).await, Ok(10));
        assert_eq!(read_chunks(&[11]).await, Err(Refusal::TooLarge(10)));
        assert_eq!(read_chunks(&[5, 5, 5]).await, Err(Refusal::TooLarge(10)));
        assert_eq!(read_chunks(&[500; 1000]).await, Err(Refusal::TooLarge(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_on_a_sender_that_stalls() {
        let limits = Limits {
            body_read_timeout: Duration::from_secs(30),
            ..Limits::default()
        };
        let admission = Admission::new(&limits, &Metrics::default());
        let stalled = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let read = read(stalled, &Method::POST, &HeaderMap::new(), &limits, &admission).await;
        assert_eq!(read.map(|held| held.bytes).err(), Some(TOO_SLOW));
    }
}
