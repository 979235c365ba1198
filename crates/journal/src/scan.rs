//! Reads the records of a segment one after the other, past damage.

use std::io;

use crate::{
    bytes::Malformed,
    record::{Head, RECORD_HEADER, RECORD_MAGIC},
    segment::Segment,
};

/// So much is read at once.
const CHUNK: usize = 128 << 10;

/// Reads records from an offset on.
pub(crate) struct Scan<'a> {
    segment: &'a Segment,
    end: u64,
    /// Where the next record begins.
    at: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
}

/// What a scan meets.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Record {
        offset: u64,
        head: Head,
        body: &'a [u8],
    },
    /// Bytes that are no records. They end where the scan goes on.
    Damage {
        offset: u64,
        what: Malformed,
    },
}

impl<'a> Scan<'a> {
    pub(crate) fn new(segment: &'a Segment, at: u64, end: u64) -> Self {
        Self {
            segment,
            end,
            at,
            buffer: Vec::new(),
            buffer_start: at,
        }
    }

    /// Where the next record begins.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Item<'_>>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let offset = self.at;
        match self.record_at(offset)? {
            Ok(head) => {
                let start = (offset - self.buffer_start) as usize + RECORD_HEADER;
                self.at = offset + (RECORD_HEADER + head.len) as u64;
                let body = &self.buffer[start..start + head.len];
                Ok(Some(Item::Record { offset, head, body }))
            }
            Err(what) => {
                self.at = self.next_good(offset + 1)?;
                Ok(Some(Item::Damage { offset, what }))
            }
        }
    }

    /// Checks the record that begins at an offset, and has it in the buffer.
    fn record_at(&mut self, offset: u64) -> io::Result<Result<Head, Malformed>> {
        let Some(header) = self.bytes(offset, RECORD_HEADER)? else {
            return Ok(Err(Malformed("record header: the file ends in it")));
        };
        let header = header.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let head = match Head::parse(header) {
            Ok(head) => head,
            Err(what) => return Ok(Err(what)),
        };
        let Some(record) = self.bytes(offset, RECORD_HEADER + head.len)? else {
            return Ok(Err(Malformed("record: the file ends in it")));
        };
        Ok(head.check(&record[RECORD_HEADER..]).map(|()| head))
    }

    /// Where the next sound record begins, or the end.
    fn next_good(&mut self, mut offset: u64) -> io::Result<u64> {
        while offset < self.end {
            let n = CHUNK.min((self.end - offset) as usize);
            let bytes = self.bytes(offset, n)?.unwrap_or_default();
            let found = bytes.windows(2).position(|pair| pair == RECORD_MAGIC);
            match found {
                Some(skip) => {
                    offset += skip as u64;
                    if self.record_at(offset)?.is_ok() {
                        return Ok(offset);
                    }
                    offset += 1;
                }
                // The magic may stand across the border of two chunks.
                None => offset += n.saturating_sub(1).max(1) as u64,
            }
        }
        Ok(self.end)
    }

    /// So many bytes from an offset on; nothing if the file ends before.
    fn bytes(&mut self, offset: u64, n: usize) -> io::Result<Option<&[u8]>> {
        if offset + n as u64 > self.end {
            return Ok(None);
        }
        let buffered_end = self.buffer_start + self.buffer.len() as u64;
        if offset < self.buffer_start || offset + n as u64 > buffered_end {
            let len = n.max(CHUNK).min((self.end - offset) as usize);
            self.buffer.resize(len, 0);
            self.buffer_start = offset;
            self.segment.read_exact_at(&mut self.buffer, offset)?;
        }
        let start = (offset - self.buffer_start) as usize;
        Ok(Some(&self.buffer[start..start + n]))
    }
}
