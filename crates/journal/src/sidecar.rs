//! Where in a complete segment what stands, in a file beside it. It can always be made again from the segment.

use std::io::{self, Read as _};

use skopos_disk::{Disk, write_all};

use crate::{
    Seq,
    bytes::{In, Malformed, Out},
    segment::{Count, Place, Places, SegmentId},
};

const MAGIC: &[u8; 8] = b"SKOPJI2\n";
const KEY: usize = 12;
const OF_ANOTHER: &str = "index: it is of another segment";

pub(crate) fn sidecar_name(id: SegmentId) -> String {
    format!("index-{:012}", id.0)
}

/// Writes the places of a complete segment.
pub(crate) fn write(disk: &dyn Disk, id: SegmentId, segment_len: u64, places: &Places) -> io::Result<()> {
    let mut buffer = MAGIC.to_vec();
    let mut out = Out(&mut buffer);
    for number in [
        segment_len,
        places.last.0,
        places.n_entries,
        places.sparse.len() as u64,
    ] {
        out.number(number);
    }
    for place in &places.sparse {
        out.number(place.seq.0);
        out.time(place.at);
        out.number(place.offset.into());
    }
    out.number(places.counts.len() as u64);
    for (collection, count) in &places.counts {
        out.number((*collection).into());
        out.number(count.n);
        out.number(count.bytes);
        out.time(count.newest);
    }
    let sum = crc32c::crc32c(&buffer);
    let mut file = (buffer.len() as u32).to_le_bytes().to_vec();
    file.extend_from_slice(&buffer);
    file.extend_from_slice(&sum.to_le_bytes());
    let keys_start = file.len();
    let mut keys = places.keys.clone();
    keys.sort_unstable();
    for (hash, offset) in keys {
        file.extend_from_slice(&hash.to_le_bytes());
        file.extend_from_slice(&offset.to_le_bytes());
    }
    let sum = crc32c::crc32c(&file[keys_start..]);
    file.extend_from_slice(&sum.to_le_bytes());
    let part = format!("{}.part", sidecar_name(id));
    let mut target = disk.create(&part)?;
    write_all(&mut *target, &file)?;
    target.sync()?;
    disk.rename(&part, &sidecar_name(id))
}

/// Reads the places of a complete segment, without its keys.
pub(crate) fn read(disk: &dyn Disk, id: SegmentId, segment_len: u64) -> io::Result<Places> {
    let mut file = disk.read(&sidecar_name(id))?;
    let mut len = [0; 4];
    file.read_exact(&mut len)?;
    let mut content = Vec::new();
    let n = u64::from(u32::from_le_bytes(len)) + 4;
    file.take(n).read_to_end(&mut content)?;
    parse(&content, segment_len).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
}

fn parse(content: &[u8], segment_len: u64) -> Result<Places, Malformed> {
    let (content, sum) = content.split_last_chunk::<4>().ok_or(Malformed("index"))?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return Err(Malformed("index: its checksum does not match"));
    }
    let mut input = In(content);
    if input.take(MAGIC.len())? != MAGIC || input.number()? != segment_len {
        return Err(Malformed(OF_ANOTHER));
    }
    let mut places = Places::new(Seq(1));
    places.last = Seq(input.number()?);
    places.n_entries = input.number()?;
    for _ in 0..input.number()? {
        places.sparse.push(Place {
            seq: Seq(input.number()?),
            at: input.time()?,
            offset: u32::try_from(input.number()?).map_err(|_| Malformed("index"))?,
        });
    }
    for _ in 0..input.number()? {
        let collection = u32::try_from(input.number()?).map_err(|_| Malformed("index"))?;
        let count = Count {
            n: input.number()?,
            bytes: input.number()?,
            newest: input.time()?,
        };
        places.counts.insert(collection, count);
    }
    Ok(places)
}

/// What an index says about an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Where its changes may stand, in order.
    Places(Vec<u32>),
    /// Nothing: it is of the segment as it was at another time.
    OfAnother,
    /// Nothing: it is damaged or not there.
    Damaged,
}

/// Looks an object up in the index of a complete segment.
pub(crate) fn find(disk: &dyn Disk, id: SegmentId, segment_len: u64, hash: u64) -> io::Result<Found> {
    let mut bytes = Vec::new();
    let read = disk.read(&sidecar_name(id));
    match read.and_then(|mut file| file.read_to_end(&mut bytes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Damaged),
        read => read?,
    };
    let Some((content, keys)) = split(&bytes) else {
        return Ok(Found::Damaged);
    };
    Ok(match parse(content, segment_len) {
        Err(Malformed(OF_ANOTHER)) => Found::OfAnother,
        Err(_) => Found::Damaged,
        Ok(_) => sound_keys(keys).map_or(Found::Damaged, |keys| Found::Places(search(keys, hash))),
    })
}

/// What stands before the keys, and the keys, each with its checksum.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize + 4)
}

fn sound_keys(keys: &[u8]) -> Option<&[u8]> {
    let (keys, sum) = keys.split_last_chunk::<4>()?;
    let is_sound = crc32c::crc32c(keys) == u32::from_le_bytes(*sum) && keys.len().is_multiple_of(KEY);
    is_sound.then_some(keys)
}

fn search(keys: &[u8], hash: u64) -> Vec<u32> {
    let n = keys.len() / KEY;
    let at = |i: usize| {
        let (hash, offset) = keys[i * KEY..(i + 1) * KEY].split_at(8);
        (
            u64::from_le_bytes(hash.try_into().unwrap_or_default()),
            u32::from_le_bytes(offset.try_into().unwrap_or_default()),
        )
    };
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low.midpoint(high);
        match at(middle).0 < hash {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let found = (low..n).map(at).take_while(|(found, _)| *found == hash);
    found.map(|(_, offset)| offset).collect()
}
