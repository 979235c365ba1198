//! What is known now: the mirror of each collection, how far it is known, and what may be missing.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use skopos_object::{GroupVersionKind, HistoryId, ObjectKey, Op, ResourceVersion};

use crate::{
    Hole, Seq,
    bytes::{In, Malformed, Out},
    holes::Holes,
    record::Meta,
    segment::{Location, Segment, SegmentId},
};

/// What is known now. Changed only by who writes the log, after it is on disk.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) head: Seq,
    /// When the newest change was written down.
    pub(crate) newest: Timestamp,
    /// By number; numbers are dense.
    pub(crate) collections: Vec<Collection>,
    pub(crate) holes: Holes,
    pub(crate) segments: BTreeMap<SegmentId, Arc<Segment>>,
}

/// One collection that is or was captured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collection {
    pub(crate) about: About,
    pub(crate) position: Option<Position>,
    pub(crate) objects: BTreeMap<Box<str>, Known>,
}

/// What a collection is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) source: String,
    /// As it was asked for, such as `backups.velero.io in shop`; never changes.
    pub(crate) name: String,
    pub(crate) kind: GroupVersionKind,
    pub(crate) plural: String,
    /// As the source told when it was last followed; empty in journals from before that was written down.
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
}

/// How far a collection is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Everything up to this version was written down; empty if a list must tell.
    pub(crate) version: ResourceVersion,
    /// Which history it belongs to.
    pub(crate) history: Option<HistoryId>,
    /// When that was so.
    pub(crate) at: Timestamp,
    /// Which objects were asked for then, as [`Selection`](crate::Selection) writes it.
    pub(crate) selection: String,
}

/// An object that exists, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
    pub(crate) seq: Seq,
    /// Where the change stands that made it what it is.
    pub(crate) location: Location,
    /// In which list it was last seen; only of this process.
    pub(crate) seen: u32,
}

/// A UID, small if it is a UUID as servers write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Uid {
    Uuid(u64, u64),
    Text(Box<str>),
}

impl Uid {
    pub(crate) fn new(text: &str) -> Self {
        let Ok(uuid) = uuid::Uuid::try_parse(text) else {
            return Self::Text(text.into());
        };
        let mut buffer = uuid::Uuid::encode_buffer();
        match uuid.hyphenated().encode_lower(&mut buffer) == text {
            true => {
                let (high, low) = uuid.as_u64_pair();
                Self::Uuid(high, low)
            }
            false => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(high, low) => uuid::Uuid::from_u64_pair(*high, *low).hyphenated().fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// How an object is named in the mirror: the order is that of namespaces, then names.
pub(crate) fn mirror_key(key: &ObjectKey) -> Box<str> {
    format!("{}/{}", key.namespace, key.name).into()
}

/// The key of an object in the mirror.
pub(crate) fn object_key(mirror_key: &str) -> ObjectKey {
    let (namespace, name) = split_key(mirror_key);
    ObjectKey::namespaced(namespace, name)
}

/// Namespace and name of an object in the mirror.
pub(crate) fn split_key(mirror_key: &str) -> (&str, &str) {
    mirror_key.split_once('/').unwrap_or(("", mirror_key))
}

impl State {
    pub(crate) fn collection(&self, source: &str, name: &str) -> Option<u32> {
        let found = self
            .collections
            .iter()
            .position(|one| one.about.source == source && one.about.name == name)?;
        u32::try_from(found).ok()
    }

    pub(crate) fn get(&self, collection: u32) -> Option<&Collection> {
        self.collections.get(collection as usize)
    }

    pub(crate) fn known(&self, collection: u32, key: &str) -> Option<&Known> {
        self.get(collection)?.objects.get(key)
    }

    /// Takes in a change. One that is older than what is known of the object changes nothing.
    pub(crate) fn apply_entry(&mut self, meta: &Meta, location: Location) {
        self.head = self.head.max(meta.seq);
        self.newest = self.newest.max(meta.at);
        let Some(collection) = self.collections.get_mut(meta.collection as usize) else {
            return;
        };
        let key = mirror_key(&meta.key);
        let known = collection.objects.get(&key);
        if known.is_some_and(|known| known.seq > meta.seq) {
            return;
        }
        if meta.op == Op::Deleted {
            collection.objects.remove(&key);
            return;
        }
        let seen = known.map_or(0, |known| known.seen);
        let known = Known {
            uid: Uid::new(&meta.uid),
            version: meta.version.clone(),
            seq: meta.seq,
            location,
            seen,
        };
        collection.objects.insert(key, known);
    }

    /// A change stands elsewhere now. Unless its object is known already, it is from here on.
    pub(crate) fn apply_carried(&mut self, meta: &Meta, location: Location) {
        let (head, newest) = (self.head, self.newest);
        self.apply_entry(meta, location);
        (self.head, self.newest) = (head, newest);
    }

    pub(crate) fn apply_collection(&mut self, number: u32, about: About) {
        let number = number as usize;
        if self.collections.len() <= number {
            self.collections.resize_with(number + 1, Collection::default);
        }
        self.collections[number].about = about;
    }

    pub(crate) fn apply_position(&mut self, collection: u32, position: Position) {
        if let Some(collection) = self.collections.get_mut(collection as usize) {
            collection.position = Some(position);
        }
    }

    pub(crate) fn apply_hole(&mut self, hole: Hole) {
        self.holes.add(hole);
    }

    /// The oldest change that is kept.
    pub(crate) fn first(&self) -> Seq {
        let first = self.segments.values().find(|segment| !segment.is_empty());
        first.map_or(Seq(self.head.0 + 1), |segment| segment.first)
    }

    /// The segments that may have changes from a number on, in order.
    pub(crate) fn segments_from(&self, seq: Seq) -> Vec<Arc<Segment>> {
        let later = self.segments.values().filter(|segment| segment.last() >= seq);
        later.cloned().collect()
    }
}

impl About {
    pub(crate) fn write(&self, number: u32, buffer: &mut Vec<u8>) {
        let mut out = Out(buffer);
        out.number(number.into());
        let kind = &self.kind;
        for text in [
            &self.source,
            &self.name,
            &kind.group,
            &kind.version,
            &kind.kind,
            &self.plural,
            &self.singular,
        ] {
            out.text(text);
        }
        out.number(self.short_names.len() as u64);
        for name in &self.short_names {
            out.text(name);
        }
    }

    pub(crate) fn read(input: &mut In<'_>) -> Result<(u32, Self), Malformed> {
        let (number, mut about) = Self::read_without_names(input)?;
        // Before singular and short names were written down a record ended here.
        if !input.0.is_empty() {
            about.singular = input.text()?.into();
            for _ in 0..input.number()? {
                about.short_names.push(input.text()?.into());
            }
        }
        Ok((number, about))
    }

    /// Reads what was written before there were names other than the plural.
    pub(crate) fn read_without_names(input: &mut In<'_>) -> Result<(u32, Self), Malformed> {
        let number = read_number(input)?;
        let (source, name) = (input.text()?.into(), input.text()?.into());
        let kind = GroupVersionKind::new(input.text()?, input.text()?, input.text()?);
        let plural = input.text()?.into();
        Ok((
            number,
            Self {
                source,
                name,
                kind,
                plural,
                ..Self::default()
            },
        ))
    }
}

impl Position {
    pub(crate) fn write(&self, collection: u32, buffer: &mut Vec<u8>) {
        let mut out = Out(buffer);
        out.number(collection.into());
        out.text(self.version.as_str());
        out.text(self.history.as_ref().map_or("", |history| &history.0));
        out.time(self.at);
        out.text(&self.selection);
    }

    pub(crate) fn read(input: &mut In<'_>) -> Result<(u32, Self), Malformed> {
        let collection = read_number(input)?;
        let version = input.text()?.into();
        let history = input.text()?;
        let position = Self {
            version,
            history: (!history.is_empty()).then(|| HistoryId(history.into())),
            at: input.time()?,
            // Before there were selections everything was asked for.
            selection: match input.0.is_empty() {
                true => String::new(),
                false => input.text()?.into(),
            },
        };
        Ok((collection, position))
    }
}

pub(crate) fn write_hole(hole: &Hole, buffer: &mut Vec<u8>) {
    let mut out = Out(buffer);
    out.text(&hole.collection);
    out.time(hole.from);
    out.time(hole.to);
    out.text(&hole.reason);
    out.number(hole.seq.0);
}

pub(crate) fn read_hole(input: &mut In<'_>) -> Result<Hole, Malformed> {
    Ok(Hole {
        collection: input.text()?.into(),
        from: input.time()?,
        to: input.time()?,
        reason: input.text()?.into(),
        seq: Seq(input.number()?),
    })
}

fn read_number(input: &mut In<'_>) -> Result<u32, Malformed> {
    u32::try_from(input.number()?).map_err(|_| Malformed("collection"))
}
