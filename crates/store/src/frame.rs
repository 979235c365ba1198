//! The on-disk encoding: file headers, frames, records. No IO of its own.
//!
//! A file is one header and then frames. A frame is what one sync made durable: a header with its own
//! checksum, then the records of the group. So at most the last frame of the last log file can be torn,
//! and what follows a damaged frame tells a torn tail from damage in the middle. A log file may end in
//! zeros, which are room for frames to come: no frame begins with a zero.

use std::io::{self, Read};

use crate::entry::Revision;

/// What kind of file it is; the first eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Log,
    Snapshot,
}

impl FileKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Log => b"SKOPLOG\n",
            Self::Snapshot => b"SKOPSNP\n",
        }
    }
}

pub(crate) const FORMAT_VERSION: u32 = 1;
pub(crate) const FILE_HEADER: usize = 24;
pub(crate) const FRAME_HEADER: usize = 24;
/// No frame is larger; a length beyond it is damage and not a reason to allocate.
pub(crate) const MAX_FRAME: usize = 64 << 20;
const FRAME_MAGIC: &[u8; 4] = b"SKF1";
const RECORD_HEADER: usize = 29;

/// The header of a file: magic, version, revision, checksum. For a log file the revision is the one its
/// first record takes, for a snapshot the one it is the state of.
pub(crate) fn file_header(kind: FileKind, revision: Revision) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(kind.magic());
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&revision.0.to_le_bytes());
    let sum = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// What is wrong with some bytes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("not a file of this kind")]
    Magic,
    #[error("format version {0}, and this program reads version {FORMAT_VERSION}")]
    Version(u32),
    #[error("checksum of the {0} does not match")]
    Checksum(&'static str),
    #[error("ends in the middle of a {0}")]
    Short(&'static str),
    #[error("frame of {0} bytes is too large")]
    TooLarge(usize),
    #[error("malformed record: {0}")]
    Record(&'static str),
    #[error("read")]
    Io(#[from] io::Error),
}

/// Checks a file header and returns its revision.
pub(crate) fn parse_file_header(kind: FileKind, header: &[u8; FILE_HEADER]) -> Result<Revision, Damage> {
    if &header[..8] != kind.magic() {
        return Err(Damage::Magic);
    }
    let version = u32_at(header, 8);
    if version != FORMAT_VERSION {
        return Err(Damage::Version(version));
    }
    if crc32c::crc32c(&header[..20]) != u32_at(header, 20) {
        return Err(Damage::Checksum("file header"));
    }
    Ok(Revision(u64_at(header, 12)))
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Put = 1,
    Delete = 2,
    DropSpace = 3,
    /// An entry of a snapshot.
    Entry = 4,
    /// The last record of a snapshot; `created` is the number of entries.
    End = 5,
}

/// One record, borrowed from the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: RecordKind,
    pub(crate) space: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a [u8],
    pub(crate) created: Revision,
    pub(crate) modified: Revision,
}

/// A frame that is being put together; the buffer is reused from one to the next.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
}

impl FrameBuffer {
    pub(crate) fn begin(&mut self) {
        // A burst of large writes must not hold its memory for ever.
        if self.bytes.capacity() > 4 << 20 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.resize(FRAME_HEADER, 0);
    }

    pub(crate) fn push(&mut self, record: &Record<'_>) {
        let out = &mut self.bytes;
        out.push(record.kind as u8);
        for len in [record.space.len(), record.key.len(), record.value.len()] {
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
        out.extend_from_slice(&record.created.0.to_le_bytes());
        out.extend_from_slice(&record.modified.0.to_le_bytes());
        out.extend_from_slice(record.space.as_bytes());
        out.extend_from_slice(record.key.as_bytes());
        out.extend_from_slice(record.value);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Fills in the header and returns the whole frame.
    pub(crate) fn finish(&mut self, first: Revision) -> &[u8] {
        let (header, payload) = self.bytes.split_at_mut(FRAME_HEADER);
        header[..4].copy_from_slice(FRAME_MAGIC);
        header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&first.0.to_le_bytes());
        header[16..20].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let sum = crc32c::crc32c(&header[..20]);
        header[20..].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }
}

/// Reads frames one after the other and knows where the last good one ended.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    input: R,
    kind: FileKind,
    payload: Vec<u8>,
    /// The offset after the last good frame.
    pub(crate) offset: u64,
}

impl<R: Read> FrameReader<R> {
    /// Reads and checks the file header.
    pub(crate) fn open(mut input: R, kind: FileKind) -> Result<(Self, Revision), Damage> {
        let mut header = [0; FILE_HEADER];
        if read_fully(&mut input, &mut header)? < FILE_HEADER {
            return Err(Damage::Short("file header"));
        }
        let revision = parse_file_header(kind, &header)?;
        Ok((
            Self {
                input,
                kind,
                payload: Vec::new(),
                offset: FILE_HEADER as u64,
            },
            revision,
        ))
    }

    /// The next frame's first revision and records; `None` at the end of the file, or where only room follows.
    pub(crate) fn next(&mut self) -> Result<Option<(Revision, Records<'_>)>, Damage> {
        let mut header = [0; FRAME_HEADER];
        let read = read_fully(&mut self.input, &mut header)?;
        if read == 0 {
            return Ok(None);
        }
        let may_be_room = self.kind == FileKind::Log && header == [0; FRAME_HEADER];
        if may_be_room && only_zeros(&mut self.input)? {
            return Ok(None);
        }
        if read < FRAME_HEADER {
            return Err(Damage::Short("frame header"));
        }
        let (first, len, sum) = parse_frame_header(&header)?;
        self.payload.clear();
        // Grows with what is really there, not with what the header says.
        let read = self
            .input
            .by_ref()
            .take(len as u64)
            .read_to_end(&mut self.payload)?;
        if read < len {
            return Err(Damage::Short("frame"));
        }
        if crc32c::crc32c(&self.payload) != sum {
            return Err(Damage::Checksum("frame"));
        }
        self.offset += (FRAME_HEADER + len) as u64;
        Ok(Some((first, Records { rest: &self.payload })))
    }
}

/// The records of one frame.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = parse_record(self.rest);
        self.rest = record.as_ref().map_or(&[], |(_, rest)| *rest);
        Some(record.map(|(record, _)| record))
    }
}

/// Whether a whole frame with revisions after `after` begins anywhere in `bytes`.
pub(crate) fn holds_frame(bytes: &[u8], after: Revision) -> bool {
    let starts = bytes
        .windows(FRAME_HEADER)
        .enumerate()
        .filter(|(_, window)| window.starts_with(FRAME_MAGIC));
    starts.into_iter().any(|(at, window)| {
        let header: &[u8; FRAME_HEADER] = window.try_into().expect("windows have this size");
        let Ok((first, len, sum)) = parse_frame_header(header) else {
            return false;
        };
        let payload = bytes[at + FRAME_HEADER..].get(..len);
        first > after && payload.is_some_and(|payload| crc32c::crc32c(payload) == sum)
    })
}

fn parse_frame_header(header: &[u8; FRAME_HEADER]) -> Result<(Revision, usize, u32), Damage> {
    if &header[..4] != FRAME_MAGIC || crc32c::crc32c(&header[..20]) != u32_at(header, 20) {
        return Err(Damage::Checksum("frame header"));
    }
    let len = u32_at(header, 4) as usize;
    if len > MAX_FRAME {
        return Err(Damage::TooLarge(len));
    }
    Ok((Revision(u64_at(header, 8)), len, u32_at(header, 16)))
}

fn parse_record(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), Damage> {
    let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER>() else {
        return Err(Damage::Record("short header"));
    };
    let kind = match header[0] {
        1 => RecordKind::Put,
        2 => RecordKind::Delete,
        3 => RecordKind::DropSpace,
        4 => RecordKind::Entry,
        5 => RecordKind::End,
        _ => return Err(Damage::Record("unknown kind")),
    };
    let (space, rest) = split_text(rest, u32_at(header, 1))?;
    let (key, rest) = split_text(rest, u32_at(header, 5))?;
    let value_len = u32_at(header, 9) as usize;
    let (value, rest) = rest
        .split_at_checked(value_len)
        .ok_or(Damage::Record("short value"))?;
    let (created, modified) = (Revision(u64_at(header, 13)), Revision(u64_at(header, 21)));
    Ok((
        Record {
            kind,
            space,
            key,
            value,
            created,
            modified,
        },
        rest,
    ))
}

fn split_text(bytes: &[u8], len: u32) -> Result<(&str, &[u8]), Damage> {
    let (text, rest) = bytes
        .split_at_checked(len as usize)
        .ok_or(Damage::Record("short text"))?;
    let text = std::str::from_utf8(text).map_err(|_| Damage::Record("text is not UTF-8"))?;
    Ok((text, rest))
}

/// Whether nothing but zeros is left.
fn only_zeros(input: &mut impl Read) -> io::Result<bool> {
    // Slices are compared many bytes at a time: one by one, the room of a log took half a millisecond of every start.
    static ZEROS: [u8; 4096] = [0; 4096];
    let mut buffer = ZEROS;
    loop {
        match read_fully(input, &mut buffer)? {
            0 => return Ok(true),
            n if buffer[..n] != ZEROS[..n] => return Ok(false),
            _ => {}
        }
    }
}

fn read_fully(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
