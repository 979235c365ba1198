//! A list on its way out: stored buffers joined into larger ones while they are sent, never held whole.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body, Frame, SizeHint};
use skopos_store::Entry;

use crate::present::ListFrame;

/// How much is joined before it is handed to the connection.
const CHUNK_BYTES: usize = 128 * 1024;

/// The body of a plain JSON list.
pub(super) struct ListBody {
    prefix: Option<String>,
    suffix: Option<String>,
    items: std::vec::IntoIter<Arc<Entry>>,
    is_first: bool,
    bytes_left: u64,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

impl ListBody {
    pub(super) fn new(frame: ListFrame, items: Vec<Arc<Entry>>) -> ListBody {
        let commas = items.len().saturating_sub(1);
        let content: usize = items.iter().map(|entry| entry.value.len()).sum();
        let bytes_left = frame.prefix.len() + content + commas + frame.suffix.len() + 1;
        ListBody {
            prefix: Some(frame.prefix),
            suffix: Some(frame.suffix),
            items: items.into_iter(),
            is_first: true,
            bytes_left: bytes_left as u64,
            gzip: None,
        }
    }

    /// How large the list is before any compression.
    pub(super) fn len(&self) -> u64 {
        self.bytes_left
    }

    pub(super) fn compressed(mut self) -> ListBody {
        self.gzip = Some(GzEncoder::new(
            Vec::with_capacity(CHUNK_BYTES),
            Compression::fast(),
        ));
        self
    }

    /// The next piece of plain JSON; empty at the end.
    fn next_chunk(&mut self) -> Vec<u8> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES.min(self.bytes_left as usize) + 4096);
        if let Some(prefix) = self.prefix.take() {
            chunk.extend_from_slice(prefix.as_bytes());
        }
        while chunk.len() < CHUNK_BYTES {
            let Some(entry) = self.items.next() else {
                if let Some(suffix) = self.suffix.take() {
                    chunk.extend_from_slice(suffix.as_bytes());
                    chunk.push(b'\n');
                }
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                chunk.push(b',');
            }
            chunk.extend_from_slice(&entry.value);
        }
        self.bytes_left = self.bytes_left.saturating_sub(chunk.len() as u64);
        chunk
    }

    fn next_packed(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let chunk = self.next_chunk();
            if chunk.is_empty() {
                return self.gzip.take().map_or(Ok(Vec::new()), GzEncoder::finish);
            }
            let Some(gzip) = &mut self.gzip else {
                return Ok(chunk);
            };
            gzip.write_all(&chunk)?;
            let packed = std::mem::take(gzip.get_mut());
            if !packed.is_empty() {
                return Ok(packed);
            }
        }
    }
}

impl Body for ListBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut().next_packed() {
            Ok(chunk) if chunk.is_empty() => Poll::Ready(None),
            Ok(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk.into())))),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.gzip {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.bytes_left),
        }
    }
}
