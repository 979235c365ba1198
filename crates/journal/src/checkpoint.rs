//! What is known, written down now and then so that a start need not read the whole log.
//!
//! It is written while changes go on: it may already have some that stand in the segments after it. That does no harm,
//! since those are read over it, and what is older than what is known changes nothing.

use std::{io, sync::RwLock};

use skopos_disk::{Disk, write_all};

use crate::{
    Seq,
    bytes::{In, Malformed, Out},
    segment::{Location, SegmentId},
    state::{About, Collection, Known, Position, State, Uid, read_hole, write_hole},
};

const MAGIC: &[u8; 8] = b"SKOPJC3\n";
/// Before collections had names other than their plural.
const MAGIC_WITHOUT_NAMES: &[u8; 8] = b"SKOPJC2\n";
/// So many objects are copied while readers of the state wait.
const OBJECTS_AT_ONCE: usize = 2000;
/// So much is written at once.
const PART: usize = 1 << 20;

pub(crate) fn checkpoint_name(id: SegmentId) -> String {
    format!("checkpoint-{:012}", id.0)
}

pub(crate) fn parse_checkpoint_name(name: &str) -> Option<SegmentId> {
    name.strip_prefix("checkpoint-")?.parse().ok().map(SegmentId)
}

/// Writes down what is known; the segments from `id` on are to be read over it.
pub(crate) fn write(disk: &dyn Disk, state: &RwLock<State>, id: SegmentId) -> io::Result<()> {
    let part_name = format!("{}.part", checkpoint_name(id));
    let mut file = disk.create(&part_name)?;
    let mut sum = 0;
    let mut flush = |buffer: &mut Vec<u8>| {
        sum = crc32c::crc32c_append(sum, buffer);
        let written = write_all(&mut *file, buffer);
        buffer.clear();
        written
    };
    let mut buffer = MAGIC.to_vec();
    let n_collections = write_start(state, &mut buffer);
    flush(&mut buffer)?;
    for number in 0..n_collections {
        let mut after: Option<Box<str>> = None;
        loop {
            after = write_objects(state, number, after.as_deref(), &mut buffer);
            if buffer.len() >= PART || after.is_none() {
                flush(&mut buffer)?;
            }
            if after.is_none() {
                break;
            }
        }
    }
    write_all(&mut *file, &sum.to_le_bytes())?;
    file.sync()?;
    disk.rename(&part_name, &checkpoint_name(id))?;
    disk.sync_names()
}

/// Everything but the objects. Returns the number of collections.
fn write_start(state: &RwLock<State>, buffer: &mut Vec<u8>) -> usize {
    let state = state.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    Out(buffer).number(state.head.0);
    Out(buffer).time(state.newest);
    let holes = state.holes.iter();
    Out(buffer).number(holes.len() as u64);
    for hole in holes {
        write_hole(hole, buffer);
    }
    Out(buffer).number(state.collections.len() as u64);
    for (number, collection) in (0..).zip(&state.collections) {
        collection.about.write(number, buffer);
        Out(buffer).byte(u8::from(collection.position.is_some()));
        if let Some(position) = &collection.position {
            position.write(number, buffer);
        }
    }
    state.collections.len()
}

/// Some objects of a collection after a key, and the key to go on after.
fn write_objects(
    state: &RwLock<State>,
    number: usize,
    after: Option<&str>,
    buffer: &mut Vec<u8>,
) -> Option<Box<str>> {
    use std::ops::Bound::{Excluded, Unbounded};
    let state = state.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    let objects = &state.collections.get(number)?.objects;
    let range = objects.range::<str, _>((after.map_or(Unbounded, Excluded), Unbounded));
    let mut last = None;
    let mut n = 0;
    for (key, known) in range.take(OBJECTS_AT_ONCE) {
        Out(buffer).byte(1);
        Out(buffer).text(key);
        write_known(known, buffer);
        last = Some(key);
        n += 1;
    }
    if n < OBJECTS_AT_ONCE {
        Out(buffer).byte(0);
        return None;
    }
    last.cloned()
}

fn write_known(known: &Known, buffer: &mut Vec<u8>) {
    let mut out = Out(buffer);
    match &known.uid {
        Uid::Uuid(high, low) => {
            out.byte(0);
            out.0.extend_from_slice(&high.to_le_bytes());
            out.0.extend_from_slice(&low.to_le_bytes());
        }
        Uid::Text(text) => {
            out.byte(1);
            out.text(text);
        }
    }
    out.text(known.version.as_str());
    out.number(known.seq.0);
    out.number(known.location.segment.0);
    out.number(known.location.offset.into());
    out.number(known.location.len.into());
}

/// Reads a checkpoint back.
pub(crate) fn read(bytes: &[u8]) -> Result<State, Malformed> {
    let (content, sum) = bytes.split_last_chunk::<4>().ok_or(Malformed("checkpoint"))?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return Err(Malformed("checkpoint: its checksum does not match"));
    }
    let mut input = In(content);
    let read_about = match input.take(MAGIC.len())? {
        magic if magic == MAGIC => About::read,
        magic if magic == MAGIC_WITHOUT_NAMES => About::read_without_names,
        _ => return Err(Malformed("checkpoint: it is something else")),
    };
    let mut state = State {
        head: Seq(input.number()?),
        newest: input.time()?,
        ..State::default()
    };
    for _ in 0..input.number()? {
        state.holes.add(read_hole(&mut input)?);
    }
    for _ in 0..input.number()? {
        let (_, about) = read_about(&mut input)?;
        state.collections.push(read_collection(about, &mut input)?);
    }
    for collection in &mut state.collections {
        while input.byte()? == 1 {
            let key = input.text()?.into();
            collection.objects.insert(key, read_known(&mut input)?);
        }
    }
    Ok(state)
}

fn read_collection(about: About, input: &mut In<'_>) -> Result<Collection, Malformed> {
    let position = match input.byte()? {
        1 => Some(Position::read(input)?.1),
        _ => None,
    };
    Ok(Collection {
        about,
        position,
        ..Collection::default()
    })
}

fn read_known(input: &mut In<'_>) -> Result<Known, Malformed> {
    let uid = match input.byte()? {
        0 => {
            let (high, low) = input.take(16)?.split_at(8);
            let number = |half: &[u8]| {
                half.try_into()
                    .map(u64::from_le_bytes)
                    .map_err(|_| Malformed("uid"))
            };
            Uid::Uuid(number(high)?, number(low)?)
        }
        _ => Uid::Text(input.text()?.into()),
    };
    let version = input.text()?.into();
    let seq = Seq(input.number()?);
    let segment = SegmentId(input.number()?);
    let offset = input.number()?;
    let len = input.size()?;
    Ok(Known {
        uid,
        version,
        seq,
        location: Location::new(segment, offset, len),
        seen: 0,
    })
}

#[cfg(test)]
mod tests {
    use skopos_object::GroupVersionKind;

    use super::*;

    fn about() -> About {
        About {
            source: "kubernetes".into(),
            name: "widgets.example.com".into(),
            kind: GroupVersionKind::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: vec!["wd".into(), "wdg".into()],
        }
    }

    /// As it was written before there were names other than the plural.
    fn write_without_names(about: &About, buffer: &mut Vec<u8>) {
        let nameless = About {
            singular: String::new(),
            short_names: Vec::new(),
            ..about.clone()
        };
        nameless.write(0, buffer);
        buffer.truncate(buffer.len() - 2);
    }

    fn checkpoint(magic: &[u8], about: &[u8]) -> Vec<u8> {
        let mut bytes = magic.to_vec();
        let mut out = Out(&mut bytes);
        out.number(7);
        out.time(jiff::Timestamp::UNIX_EPOCH);
        // No holes, one collection without a position, no objects.
        out.number(0);
        out.number(1);
        out.0.extend_from_slice(about);
        out.byte(0);
        out.byte(0);
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn names_of_collections_are_read_and_may_be_missing_in_what_older_versions_wrote() {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        about().write(0, &mut new);
        write_without_names(&about(), &mut old);
        let (_, found) = About::read(&mut In(&old)).unwrap();
        assert_eq!((&found.plural[..], &found.singular[..]), ("widgets", ""));
        assert_eq!(About::read(&mut In(&new)).unwrap(), (0, about()));
        // An older version stops reading before the names.
        assert_eq!(
            About::read_without_names(&mut In(&new)).unwrap(),
            (0, found.clone())
        );
        let read_back = |magic: &[u8], about: &[u8]| {
            let state = read(&checkpoint(magic, about)).unwrap();
            assert_eq!((state.head, state.collections.len()), (Seq(7), 1));
            state.collections[0].about.clone()
        };
        assert_eq!(read_back(MAGIC, &new), about());
        assert_eq!(read_back(MAGIC_WITHOUT_NAMES, &old), found);
    }
}
