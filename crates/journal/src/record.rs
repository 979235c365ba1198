//! What stands in a segment: a header, then records. No IO of its own.
//!
//! Each record has a checksum of its own, so that one can be read alone and damage costs no more than it touches. The
//! last record of a transaction says so; what follows the last such record was never committed.

use jiff::Timestamp;
use skopos_object::{Object, ObjectKey, Op, ResourceVersion};

use crate::{
    Observed, Seq,
    bytes::{In, Malformed, Out},
    writers::Writers,
};

pub(crate) const FILE_HEADER: usize = 24;
pub(crate) const RECORD_HEADER: usize = 16;
/// No record is larger; a length beyond it is damage and not a reason to allocate.
pub(crate) const MAX_RECORD: usize = 64 << 20;
const FILE_MAGIC: &[u8; 8] = b"SKOPJNL\n";
/// Since 2, entries say who wrote. Segments of version 1 are read and go on as they are.
pub(crate) const FORMAT_VERSION: u32 = 2;
const OLDEST_FORMAT_VERSION: u32 = 1;
pub(crate) const RECORD_MAGIC: [u8; 2] = *b"JR";
const LAST: u8 = 1;

/// The header of a segment: magic, version, the number its first change takes, checksum.
pub(crate) fn file_header(first: Seq) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(FILE_MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&first.0.to_le_bytes());
    let sum = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Why a header says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Damaged,
    /// It is sound, and of a format that is not known here.
    OtherFormat(u32),
}

/// Checks the header of a segment and returns its first number.
pub(crate) fn parse_file_header(header: &[u8; FILE_HEADER]) -> Result<Seq, BadHeader> {
    if &header[..8] != FILE_MAGIC || crc32c::crc32c(&header[..20]) != u32_at(header, 20) {
        return Err(BadHeader::Damaged);
    }
    let format = u32_at(header, 8);
    if !(OLDEST_FORMAT_VERSION..=FORMAT_VERSION).contains(&format) {
        return Err(BadHeader::OtherFormat(format));
    }
    let first = header[12..20].try_into().map_err(|_| BadHeader::Damaged)?;
    Ok(Seq(u64::from_le_bytes(first)))
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A change.
    Entry = 1,
    /// A change that stood in a segment that goes, and whose object still exists.
    Carried = 2,
    /// A collection gets a number, or another kind.
    Collection = 3,
    /// How far a collection is known.
    Position = 4,
    /// What may be missing.
    Hole = 5,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: RecordKind,
    /// Whether it ends a transaction.
    pub(crate) is_last: bool,
    pub(crate) len: usize,
    sum: u32,
}

impl Head {
    pub(crate) fn parse(header: &[u8; RECORD_HEADER]) -> Result<Self, Malformed> {
        if header[..2] != RECORD_MAGIC || crc32c::crc32c(&header[..12]) != u32_at(header, 12) {
            return Err(Malformed("record header"));
        }
        let kind = match header[2] {
            1 => RecordKind::Entry,
            2 => RecordKind::Carried,
            3 => RecordKind::Collection,
            4 => RecordKind::Position,
            5 => RecordKind::Hole,
            _ => return Err(Malformed("record kind")),
        };
        let len = u32_at(header, 4) as usize;
        if len > MAX_RECORD {
            return Err(Malformed("record length"));
        }
        Ok(Self {
            kind,
            is_last: header[3] & LAST != 0,
            len,
            sum: u32_at(header, 8),
        })
    }

    pub(crate) fn check(&self, body: &[u8]) -> Result<(), Malformed> {
        match crc32c::crc32c(body) == self.sum {
            true => Ok(()),
            false => Err(Malformed("record: its checksum does not match")),
        }
    }
}

/// Appends a record whose body `write` gives, and returns where it stands.
pub(crate) fn push(
    buffer: &mut Vec<u8>,
    kind: RecordKind,
    write: impl FnOnce(&mut Vec<u8>),
) -> std::ops::Range<usize> {
    let start = buffer.len();
    buffer.resize(start + RECORD_HEADER, 0);
    write(buffer);
    let end = buffer.len();
    let (header, body) = buffer[start..].split_at_mut(RECORD_HEADER);
    header[..2].copy_from_slice(&RECORD_MAGIC);
    header[2] = kind as u8;
    header[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    seal(header);
    start..end
}

/// Says that the record at `start` ends its transaction.
pub(crate) fn mark_last(buffer: &mut [u8], start: usize) {
    let header = &mut buffer[start..start + RECORD_HEADER];
    header[3] |= LAST;
    seal(header);
}

fn seal(header: &mut [u8]) {
    let sum = crc32c::crc32c(&header[..12]);
    header[12..16].copy_from_slice(&sum.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// What an entry says without its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) op: Op,
    pub(crate) observed: Observed,
    pub(crate) collection: u32,
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) version: ResourceVersion,
}

/// The state before and after a change, compressed as one: they are nearly the same.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    n_before: Option<usize>,
    n_after: Option<usize>,
    packed: Vec<u8>,
    is_packed: bool,
    writers: Writers,
}

/// What [`Bodies`] were made of.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) before: Option<Object>,
    pub(crate) after: Option<Object>,
    pub(crate) writers: Writers,
}

impl Bodies {
    pub(crate) fn pack(before: Option<&[u8]>, after: Option<&[u8]>) -> Self {
        let joined;
        let whole = match (before, after) {
            (Some(before), Some(after)) => {
                joined = [before, after].concat();
                &joined
            }
            (one, other) => one.or(other).unwrap_or_default(),
        };
        let packed = lz4_flex::block::compress(whole);
        let is_packed = packed.len() < whole.len();
        Self {
            n_before: before.map(<[u8]>::len),
            n_after: after.map(<[u8]>::len),
            packed: if is_packed { packed } else { whole.to_vec() },
            is_packed,
            writers: Writers::default(),
        }
    }

    /// Who wrote the state after.
    pub(crate) fn with_writers(self, writers: Writers) -> Self {
        Self { writers, ..self }
    }

    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.packed.len()
    }

    fn write(&self, out: &mut Out<'_>) {
        let present = u8::from(self.n_before.is_some()) | u8::from(self.n_after.is_some()) << 1;
        let has_writers = !self.writers.is_empty();
        out.byte(present | u8::from(self.is_packed) << 2 | u8::from(has_writers) << 3);
        for len in [self.n_before, self.n_after].into_iter().flatten() {
            out.number(len as u64);
        }
        if has_writers {
            self.writers.write(out);
        }
        out.0.extend_from_slice(&self.packed);
    }

    /// The states before and after, and who wrote the latter. `input` stands before them.
    pub(crate) fn read(mut input: In<'_>) -> Result<Unpacked, Malformed> {
        let flags = input.byte()?;
        let mut lens = [None; 2];
        for (bit, len) in lens.iter_mut().enumerate() {
            if flags & 1 << bit != 0 {
                *len = Some(input.size()?);
            }
        }
        let total: usize = lens.iter().flatten().sum();
        if total > 2 * MAX_RECORD {
            return Err(Malformed("object length"));
        }
        let writers = match flags & 8 != 0 {
            true => Writers::read(&mut input)?,
            false => Writers::default(),
        };
        let mut whole = match flags & 4 != 0 {
            true => {
                lz4_flex::block::decompress(input.0, total).map_err(|_| Malformed("compressed object"))?
            }
            false => input.0.to_vec(),
        };
        if whole.len() != total {
            return Err(Malformed("object length"));
        }
        let rest = whole.split_off(lens[0].unwrap_or(0));
        let parse = |text: Vec<u8>| Object::parse(text.into()).map_err(|_| Malformed("object"));
        Ok(Unpacked {
            before: lens[0].map(|_| parse(whole)).transpose()?,
            after: lens[1].map(|_| parse(rest)).transpose()?,
            writers,
        })
    }
}

impl Meta {
    pub(crate) fn write(&self, bodies: &Bodies, buffer: &mut Vec<u8>) {
        let mut out = Out(buffer);
        out.number(self.seq.0);
        out.time(self.at);
        out.number(self.collection.into());
        out.text(&self.key.namespace);
        out.text(&self.key.name);
        out.byte(match self.op {
            Op::Created => 0,
            Op::Updated => 1,
            Op::Deleted => 2,
        });
        match self.observed {
            Observed::Live => out.byte(0),
            Observed::Resumed => out.byte(1),
            Observed::First => out.byte(2),
            Observed::Relist { after } => {
                out.byte(3);
                out.time(after);
            }
        }
        out.text(&self.uid);
        out.text(self.version.as_str());
        bodies.write(&mut out);
    }

    /// Reads all but the objects, which `input` then stands before.
    pub(crate) fn read(input: &mut In<'_>) -> Result<Self, Malformed> {
        let seq = Seq(input.number()?);
        let at = input.time()?;
        let collection = u32::try_from(input.number()?).map_err(|_| Malformed("collection"))?;
        let key = ObjectKey::namespaced(input.text()?, input.text()?);
        let op = match input.byte()? {
            0 => Op::Created,
            1 => Op::Updated,
            2 => Op::Deleted,
            _ => return Err(Malformed("operation")),
        };
        let observed = match input.byte()? {
            0 => Observed::Live,
            1 => Observed::Resumed,
            2 => Observed::First,
            3 => Observed::Relist { after: input.time()? },
            _ => return Err(Malformed("observation")),
        };
        Ok(Self {
            seq,
            at,
            op,
            observed,
            collection,
            key,
            uid: input.text()?.into(),
            version: input.text()?.into(),
        })
    }
}

/// The number and time of an entry, without reading further.
pub(crate) fn peek(body: &[u8]) -> Result<(Seq, Timestamp), Malformed> {
    let mut input = In(body);
    Ok((Seq(input.number()?), input.time()?))
}

/// The change as it stands in the new segment, when it is carried there: nothing about it changes.
pub(crate) fn carry(body: &[u8], buffer: &mut Vec<u8>) -> std::ops::Range<usize> {
    push(buffer, RecordKind::Carried, |out| out.extend_from_slice(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            seq: Seq(7),
            at: Timestamp::UNIX_EPOCH,
            op: Op::Updated,
            observed: Observed::Relist {
                after: Timestamp::UNIX_EPOCH,
            },
            collection: 3,
            key: ObjectKey::namespaced("shop", "cart"),
            uid: "0bd4".into(),
            version: "12".into(),
        }
    }

    fn entry() -> Vec<u8> {
        let before = br#"{"metadata":{"name":"cart"},"spec":{"replicas":1,"image":"shop/cart:1.2.3"}}"#;
        let after = br#"{"metadata":{"name":"cart"},"spec":{"replicas":2,"image":"shop/cart:1.2.3"}}"#;
        let mut buffer = Vec::new();
        push(&mut buffer, RecordKind::Entry, |out| {
            meta().write(&Bodies::pack(Some(before), Some(after)), out);
        });
        buffer
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let bytes = entry();
        let head = Head::parse(bytes[..RECORD_HEADER].try_into().unwrap()).unwrap();
        let body = &bytes[RECORD_HEADER..];
        assert_eq!(
            (head.kind, head.is_last, head.len),
            (RecordKind::Entry, false, body.len())
        );
        head.check(body).unwrap();
        let mut input = In(body);
        assert_eq!(Meta::read(&mut input).unwrap(), meta());
        let read = Bodies::read(input).unwrap();
        let [before, after] = [read.before, read.after].map(Option::unwrap);
        assert_eq!(before.get(&["spec", "replicas"]), Some(1.into()));
        assert_eq!(after.get(&["spec", "replicas"]), Some(2.into()));
        assert!(body.len() < 150, "the second state costs little: {}", body.len());
    }

    #[test]
    fn a_segment_of_the_first_format_is_read() {
        let mut header = file_header(Seq(9));
        header[8] = 1;
        let sum = crc32c::crc32c(&header[..20]);
        header[20..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(parse_file_header(&header), Ok(Seq(9)));
        header[8] = 3;
        assert_eq!(parse_file_header(&header), Err(BadHeader::Damaged));
        let sum = crc32c::crc32c(&header[..20]);
        header[20..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(parse_file_header(&header), Err(BadHeader::OtherFormat(3)));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = entry();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let header = bad[..RECORD_HEADER].try_into().unwrap();
            let found = Head::parse(header).and_then(|head| head.check(&bad[RECORD_HEADER..]));
            assert!(found.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_body_that_passes_its_checksum_but_makes_no_sense_is_an_error() {
        let bytes = entry();
        for end in 0..bytes.len() - RECORD_HEADER {
            let mut input = In(&bytes[RECORD_HEADER..RECORD_HEADER + end]);
            let read = Meta::read(&mut input).and_then(|_| Bodies::read(input).map(|_| ()));
            assert!(read.is_err(), "{end}");
        }
    }
}
