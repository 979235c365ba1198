//! The body of an answer as it arrives, decompressed if the server compressed it unasked.

use std::future::poll_fn;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};
use http_body::Body as _;
use kube::client::Body;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How much is decompressed at once, so that a small chunk cannot become a huge one: gzip shrinks at most a
/// thousandfold.
const COMPRESSED_STEP: usize = 4 << 10;

/// Chunks of a body.
#[derive(Debug)]
pub(crate) struct Chunks {
    body: Body,
    gzip: Option<Gzip>,
}

/// Decodes any number of gzip members: servers begin a new one with every event of a watch.
#[derive(Debug)]
struct Gzip {
    compressed: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
}

impl Chunks {
    pub(crate) fn new(headers: &HeaderMap, body: Body) -> Self {
        let encoding = headers
            .get(header::CONTENT_ENCODING)
            .map(http::HeaderValue::as_bytes);
        let gzip = encoding
            .filter(|encoding| encoding.eq_ignore_ascii_case(b"gzip"))
            .map(|_| Gzip {
                compressed: Bytes::new(),
                decoder: MultiGzDecoder::new(Vec::new()),
            });
        Self { body, gzip }
    }

    /// Returns the next chunk, or `None` at the end. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        loop {
            if let Some(chunk) = self.gzip.as_mut().map(Gzip::step).transpose()?.flatten() {
                return Poll::Ready(Ok(Some(chunk)));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                return Poll::Ready(self.end().map(|()| None));
            };
            let Ok(data) = frame?.into_data() else { continue };
            match &mut self.gzip {
                Some(gzip) => gzip.compressed = data,
                None => return Poll::Ready(Ok(Some(data))),
            }
        }
    }

    /// A compressed body that ends within a member was cut off.
    fn end(&mut self) -> Result<(), BoxError> {
        match &mut self.gzip {
            Some(gzip) => Ok(gzip.decoder.try_finish()?),
            None => Ok(()),
        }
    }
}

impl Gzip {
    /// Decompresses a little, if there is anything left.
    fn step(&mut self) -> Result<Option<Bytes>, BoxError> {
        while !self.compressed.is_empty() {
            let piece = self
                .compressed
                .split_to(self.compressed.len().min(COMPRESSED_STEP));
            self.decoder.write_all(&piece)?;
            self.decoder.flush()?;
            let plain = std::mem::take(self.decoder.get_mut());
            if !plain.is_empty() {
                return Ok(Some(plain.into()));
            }
        }
        Ok(None)
    }
}
