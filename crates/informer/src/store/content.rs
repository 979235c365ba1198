//! What a store holds, and how it changes: object and indexes together.

use skopos_object::{Object, ObjectKey, Op};

use super::{
    body::{Body, KeyHasher, Packer, is_same_version},
    index::{Built, Index},
    staging::Staging,
    table::Table,
};
use crate::machine::is_older;

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) table: Table,
    pub(crate) indexes: Vec<Built>,
}

/// One change of the store. At least one of the states is not compressed.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) op: Op,
    pub(crate) old: Option<Body>,
    pub(crate) new: Option<Body>,
    /// Whether the state of a deleted object is its last.
    pub(crate) is_final: bool,
}

impl Delta {
    fn created(new: Body) -> Self {
        Self {
            op: Op::Created,
            old: None,
            new: Some(new),
            is_final: true,
        }
    }

    fn updated(old: Body, new: Body) -> Self {
        Self {
            op: Op::Updated,
            old: Some(old),
            new: Some(new),
            is_final: true,
        }
    }

    pub(crate) fn deleted(old: Body, is_final: bool) -> Self {
        Self {
            op: Op::Deleted,
            old: Some(old),
            new: None,
            is_final,
        }
    }

    /// The same object once more.
    pub(crate) fn repeated(body: Body) -> Self {
        Self::updated(body.clone(), body)
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
        let key = hasher.key_of(&object);
        let old = self.table.get(&key).map(|entry| entry.body.unpacked());
        if let Some(Body::Plain(old)) = &old {
            let stale = is_older(&object.resource_version(), &old.resource_version());
            if stale || is_same_version(old, &object) {
                return;
            }
        }
        self.put(part, old, Body::plain(object), deltas);
    }

    /// Puts `new` in the place of `old`, which is what the table has now.
    fn put(&mut self, part: u16, old: Option<Body>, new: Body, deltas: &mut Vec<Delta>) {
        let (hasher, object) = (self.table.hasher().clone(), new.object());
        let key = hasher.key_of(&object);
        let (Some(old), Some(place)) = (old, self.table.find(&key)) else {
            let place = self.table.insert(&key, part, new.clone());
            for index in &mut self.indexes {
                index.add(place, &object);
            }
            return deltas.push(Delta::created(new));
        };
        self.table.replace(place, &key, part, new.clone());
        let before = old.object();
        for index in &mut self.indexes {
            index.update(place, &before, &object);
        }
        // The same name and another uid is another object: the one before is gone.
        if before.uid() == object.uid() {
            deltas.push(Delta::updated(old, new));
        } else {
            deltas.push(Delta::deleted(old, false));
            deltas.push(Delta::created(new));
        }
    }

    /// Takes the last state of an object that is gone. Ignored if a newer object of that name is here.
    pub(crate) fn delete(&mut self, last: Object, deltas: &mut Vec<Delta>) {
        let hasher = self.table.hasher().clone();
        let key = hasher.key_of(&last);
        let Some(place) = self.table.find(&key) else {
            return;
        };
        let Some(known) = self.table.at(place).map(|entry| entry.body.object()) else {
            return;
        };
        if is_older(&last.resource_version(), &known.resource_version()) {
            return;
        }
        let is_same = known.uid() == last.uid();
        self.remove(place, &known);
        let last = if is_same { last } else { known };
        deltas.push(Delta::deleted(Body::plain(last), is_same));
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
        self.remove(place, &known.object());
        deltas.push(Delta::deleted(known, false));
    }

    fn remove(&mut self, place: u32, known: &Object) {
        self.table.remove(place);
        for index in &mut self.indexes {
            index.remove(place, known);
        }
    }

    /// Makes a finished list the content of its part. Deletions come first, then the rest.
    pub(crate) fn replace(&mut self, staging: Staging, deltas: &mut Vec<Delta>) {
        let part = staging.part;
        if self.table.len() == 0 {
            return self.take_over(staging.fresh, deltas);
        }
        let gone: Vec<_> = staging.gone(&self.table).collect();
        for place in gone {
            self.delete_at(place, deltas);
        }
        let (mut replaced, mut others) = (Vec::new(), Vec::new());
        for (_, entry) in staging.fresh.iter() {
            let new = entry.body.unpacked();
            let object = new.object();
            let hasher = self.table.hasher().clone();
            let old = self.table.get(&hasher.key_of(&object));
            let old = old.map(|old| old.body.unpacked());
            self.put(part, old, new, &mut others);
            // A new uid under an old name gives a deletion, which belongs to the deletions.
            let first = others.len().saturating_sub(2);
            if others.get(first).is_some_and(|delta| delta.op == Op::Deleted) {
                replaced.push(others.remove(first));
            }
        }
        deltas.append(&mut replaced);
        deltas.append(&mut others);
    }

    /// The first list, or one after everything went: it becomes the table as it is.
    fn take_over(&mut self, table: Table, deltas: &mut Vec<Delta>) {
        self.table = table;
        deltas.reserve_exact(self.table.len());
        let created = self
            .table
            .iter()
            .map(|(_, entry)| Delta::created(entry.body.clone()));
        deltas.extend(created);
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

fn fill(index: &mut Built, table: &Table) {
    index.clear();
    for (place, entry) in table.iter() {
        index.add(place, &entry.body.object());
    }
}
