//! What a store holds, and how it changes: object and indexes together.

use std::sync::Arc;

use skopos_object::{Object, ObjectKey, Op};

use super::{
    body::{Body, Key, KeyHash, KeyHasher, Packer, is_same_version},
    index::{Built, Index},
    staging::Staging,
    table::{Snapshot, Table},
};
use crate::machine::is_older;

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) table: Table,
    pub(crate) indexes: Vec<Built>,
}

/// What happened to the store, in order.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// A content that appeared at once where there was nothing. Not taken apart, because it is large.
    pub(crate) appeared: Option<Snapshot>,
    /// What happened after that.
    pub(crate) deltas: Vec<Delta>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.appeared.is_none() && self.deltas.is_empty()
    }
}

/// One change of the store.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) hash: KeyHash,
    pub(crate) op: Op,
    pub(crate) old: Option<Body>,
    pub(crate) new: Option<Body>,
    /// Whether the state of a deleted object is its last.
    pub(crate) is_final: bool,
}

impl Delta {
    pub(crate) fn created(hash: KeyHash, new: Body) -> Self {
        Self {
            hash,
            op: Op::Created,
            old: None,
            new: Some(new),
            is_final: true,
        }
    }

    fn updated(hash: KeyHash, old: Body, new: Body) -> Self {
        Self {
            hash,
            op: Op::Updated,
            old: Some(old),
            new: Some(new),
            is_final: true,
        }
    }

    pub(crate) fn deleted(hash: KeyHash, old: Body, is_final: bool) -> Self {
        Self {
            hash,
            op: Op::Deleted,
            old: Some(old),
            new: None,
            is_final,
        }
    }

    /// The same object once more.
    pub(crate) fn repeated(hash: KeyHash, body: Body) -> Self {
        Self::updated(hash, body.clone(), body)
    }
}

impl Content {
    pub(crate) fn new(packer: Option<Packer>) -> Self {
        Self {
            table: Table::new(KeyHasher::default(), packer),
            indexes: Vec::new(),
        }
    }

    /// Takes an object that was created or changed. One that is not newer than what is here is ignored.
    pub(crate) fn apply(&mut self, part: u16, object: Object, deltas: &mut Vec<Delta>) {
        let hasher = self.table.hasher().clone();
        let new = Arc::new(object);
        let key = hasher.key_of(&new);
        let known = self.known(&key);
        if let Some((_, old)) = &known
            && is_not_newer(&new, old)
        {
            return;
        }
        self.put(part, known, &key, &new, deltas);
    }

    /// The object of that key, and its place.
    fn known(&self, key: &Key<'_>) -> Option<(u32, Arc<Object>)> {
        let place = self.table.find(key)?;
        Some((place, self.table.at(place)?.body.unpacked()))
    }

    /// Puts `new` in the place of what is known.
    fn put(
        &mut self,
        part: u16,
        known: Option<(u32, Arc<Object>)>,
        key: &Key<'_>,
        new: &Arc<Object>,
        deltas: &mut Vec<Delta>,
    ) {
        let (hash, body) = (key.hash, Body::Plain(new.clone()));
        let Some((place, old)) = known else {
            let place = self.table.insert(key, part, body.clone());
            for index in &mut self.indexes {
                index.add(place, new);
            }
            return deltas.push(Delta::created(hash, body));
        };
        self.table.replace(place, key, part, body.clone());
        for index in &mut self.indexes {
            index.update(place, &old, new);
        }
        // The same name and another uid is another object: the one before is gone.
        if old.uid() == new.uid() {
            deltas.push(Delta::updated(hash, Body::Plain(old), body));
        } else {
            deltas.push(Delta::deleted(hash, Body::Plain(old), false));
            deltas.push(Delta::created(hash, body));
        }
    }

    /// Takes the last state of an object that is gone. Ignored if a newer object of that name is here.
    pub(crate) fn delete(&mut self, last: Object, deltas: &mut Vec<Delta>) {
        let hasher = self.table.hasher().clone();
        let key = hasher.key_of(&last);
        let hash = key.hash;
        let Some((place, known)) = self.known(&key) else {
            return;
        };
        if is_older(&last.resource_version(), &known.resource_version()) {
            return;
        }
        let is_same = known.uid() == last.uid();
        self.remove(place, &known);
        let last = if is_same { Arc::new(last) } else { known };
        deltas.push(Delta::deleted(hash, Body::Plain(last), is_same));
    }

    /// An object is gone, and its last state cannot be read.
    pub(crate) fn delete_unread(&mut self, key: &ObjectKey, deltas: &mut Vec<Delta>) {
        let hasher = self.table.hasher().clone();
        let key = hasher.key(&key.namespace, &key.name);
        if let Some(place) = self.table.find(&key) {
            self.delete_at(place, deltas);
        }
    }

    fn delete_at(&mut self, place: u32, deltas: &mut Vec<Delta>) {
        let Some(known) = self.table.at(place).map(|entry| entry.body.unpacked()) else {
            return;
        };
        self.remove(place, &known);
        let hash = self.table.hasher().key_of(&known).hash;
        deltas.push(Delta::deleted(hash, Body::Plain(known), false));
    }

    fn remove(&mut self, place: u32, known: &Object) {
        self.table.remove(place);
        for index in &mut self.indexes {
            index.remove(place, known);
        }
    }

    /// Makes a finished list the content of its part. Deletions come first, then the rest.
    pub(crate) fn replace(&mut self, staging: Staging, changes: &mut Changes) {
        let part = staging.part;
        if self.table.len() == 0 && changes.is_empty() {
            return self.take_over(staging.fresh, changes);
        }
        let gone: Vec<_> = staging.gone(&self.table).collect();
        for place in gone {
            self.delete_at(place, &mut changes.deltas);
        }
        let hasher = self.table.hasher().clone();
        let (mut replaced, mut others) = (Vec::new(), Vec::new());
        for (_, entry) in staging.fresh.iter() {
            let new = entry.body.unpacked();
            let key = hasher.key_of(&new);
            self.put(part, self.known(&key), &key, &new, &mut others);
            // A new uid under an old name gives a deletion, which belongs to the deletions.
            let first = others.len().saturating_sub(2);
            if others.get(first).is_some_and(|delta| delta.op == Op::Deleted) {
                replaced.push(others.remove(first));
            }
        }
        changes.deltas.append(&mut replaced);
        changes.deltas.append(&mut others);
    }

    /// The first list, or one after everything went: it becomes the table as it is.
    fn take_over(&mut self, table: Table, changes: &mut Changes) {
        self.table = table;
        changes.appeared = Some(self.table.snapshot());
        for index in &mut self.indexes {
            fill(index, &self.table);
        }
    }

    /// Forgets everything of one part.
    pub(crate) fn purge(&mut self, part: u16, deltas: &mut Vec<Delta>) {
        let ours = self.table.iter().filter(|(_, entry)| entry.part == part);
        let places: Vec<_> = ours.map(|(place, _)| place).collect();
        for place in places {
            self.delete_at(place, deltas);
        }
    }

    /// Adds an index, unless there is one of that name.
    pub(crate) fn add_index(&mut self, index: Index) {
        if self.indexes.iter().any(|built| built.name() == index.name()) {
            return;
        }
        let mut built = Built::new(index);
        fill(&mut built, &self.table);
        self.indexes.push(built);
    }
}

/// Whether an object is older than the known one, or the same.
fn is_not_newer(object: &Object, known: &Object) -> bool {
    is_older(&object.resource_version(), &known.resource_version()) || is_same_version(known, object)
}

fn fill(index: &mut Built, table: &Table) {
    index.clear();
    for (place, entry) in table.iter() {
        index.add(place, &entry.body.object());
    }
}
