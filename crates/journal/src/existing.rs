//! The objects that exist, each as the last change that made it what it is.

use std::sync::Arc;

use jiff::Timestamp;
use skopos_object::{ObjectKey, Op};

use crate::{
    Entry, Observed, ReadError, Wanted,
    journal::Shared,
    read::{is_damage, is_wanted, read_at},
    segment::Segment,
    state::{About, Known, State, mirror_key, object_key, split_key},
};

/// The objects that exist after a key, in the order of their keys.
pub(crate) fn current(
    shared: &Shared,
    wanted: &Wanted,
    after: Option<&ObjectKey>,
    limit: usize,
) -> Result<Vec<Entry>, ReadError> {
    let page = {
        let state = shared.read();
        page(&state, wanted, after, limit.max(1))
    };
    page.into_iter().map(|existing| existing.read(shared)).collect()
}

/// An object, and where its last change stands.
struct Existing {
    key: Box<str>,
    known: Known,
    /// Nothing if it was lost.
    segment: Option<Arc<Segment>>,
    about: About,
    newest: Timestamp,
}

impl Existing {
    fn read(self, shared: &Shared) -> Result<Entry, ReadError> {
        let Some(segment) = &self.segment else {
            return Ok(self.without_state());
        };
        match read_at(shared, segment, self.known.location, &self.about) {
            Ok(entry) => Ok(entry),
            // One that cannot be read must not hide the others.
            Err(error) if is_damage(&error) => Ok(self.without_state()),
            Err(error) => Err(ReadError::Storage(error.into())),
        }
    }

    /// What the mirror says of it.
    fn without_state(self) -> Entry {
        Entry {
            seq: self.known.seq,
            at: self.newest,
            op: Op::Updated,
            source: self.about.source,
            kind: self.about.kind,
            plural: self.about.plural,
            key: object_key(&self.key),
            uid: self.known.uid.to_string(),
            version: self.known.version,
            observed: Observed::Live,
            by: Vec::new(),
            before: None,
            after: None,
        }
    }
}

/// The first objects of all collections after a key.
fn page(state: &State, wanted: &Wanted, after: Option<&ObjectKey>, limit: usize) -> Vec<Existing> {
    use std::ops::Bound::{Excluded, Unbounded};
    let after = after.map(mirror_key);
    let start = after.as_deref().map_or(Unbounded, Excluded);
    let mut found = Vec::new();
    for collection in &state.collections {
        if !is_wanted(&collection.about, wanted) {
            continue;
        }
        let objects = collection.objects.range::<str, _>((start, Unbounded));
        // So many of each: all the first ones may be in the last collection.
        let first = objects.filter(|(key, _)| is_wanted_key(key, wanted)).take(limit);
        found.extend(first.map(|(key, known)| (&**key, known, &collection.about)));
    }
    found.sort_by_key(|(key, ..)| *key);
    // Who goes on after the last key must not miss another object of that key.
    if let Some((last, ..)) = found.get(limit - 1).copied() {
        found.truncate(found.partition_point(|(key, ..)| *key <= last));
    }
    let existing = |(key, known, about): (&str, &Known, &About)| Existing {
        key: key.into(),
        known: known.clone(),
        segment: state.segments.get(&known.location.segment).cloned(),
        about: about.clone(),
        newest: state.newest,
    };
    found.into_iter().map(existing).collect()
}

fn is_wanted_key(key: &str, wanted: &Wanted) -> bool {
    let (namespace, name) = split_key(key);
    wanted.namespace.as_ref().is_none_or(|one| one == namespace)
        && wanted.name.as_ref().is_none_or(|one| one == name)
}
