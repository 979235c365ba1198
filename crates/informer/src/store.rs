//! The copy of a collection: objects by key, and by what indexes make of them.

mod body;
mod content;
mod index;
mod staging;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use skopos_object::{LabelSelector, Object, ObjectKey};

pub(crate) use self::table::Entry;
pub(crate) use self::{
    body::{Body, Key, KeyHasher, Packer},
    content::{Changes, Content, Delta},
    staging::Staging,
};
pub use self::{index::Index, table::Snapshot};

/// The objects of a collection, as last heard of. Cloning gives another handle to the same objects.
///
/// Reading never waits for the server; it may lag behind it. Several reads are not of one moment; for that
/// take a [`snapshot`](Self::snapshot).
#[derive(Clone, Debug)]
pub struct Store {
    /// Second in the order of locks. No code of users runs under it except index functions.
    content: Arc<RwLock<Content>>,
}

/// How much memory a store spends on an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Objects are kept as they come: about their JSON and 200 bytes.
    #[default]
    None,
    /// Objects are compressed against the first ones: about a third of that; each read of an object
    /// costs some microseconds.
    Lz4,
}

impl Store {
    pub(crate) fn new(compression: Compression) -> Self {
        let packer = match compression {
            Compression::None => None,
            Compression::Lz4 => Some(Packer::default()),
        };
        Self {
            content: Arc::new(RwLock::new(Content::new(packer))),
        }
    }

    /// The object of that name; the namespace is empty for kinds without namespaces.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Object> {
        let body = {
            let content = self.read();
            let hasher = content.table.hasher();
            content.table.get(&hasher.key(namespace, name))?.body.clone()
        };
        Some(body.into_object())
    }

    /// The object of that key.
    pub fn get_key(&self, key: &ObjectKey) -> Option<Object> {
        self.get(&key.namespace, &key.name)
    }

    /// All objects at this moment, without holding up anyone.
    pub fn snapshot(&self) -> Snapshot {
        self.read().table.snapshot()
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Object> {
        self.snapshot().iter().collect()
    }

    /// The objects whose labels `selector` selects, in no order. Looks at every object; for what is asked
    /// often use an [`Index`].
    pub fn select(&self, selector: &LabelSelector) -> Vec<Object> {
        let objects = self.snapshot();
        objects
            .iter()
            .filter(|object| object.is_selected_by(selector))
            .collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().table.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much memory the objects take, nearly.
    pub fn size(&self) -> usize {
        self.read().table.size()
    }

    /// Adds an index, at any time; if there is one of that name, that one is used.
    pub fn add_index(&self, index: Index) -> IndexReader {
        let name = index.name().into();
        self.write().add_index(index);
        IndexReader {
            store: self.clone(),
            name,
        }
    }

    pub(crate) fn index_panics(&self) -> u64 {
        self.read().indexes.iter().map(|index| index.panics).sum()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the objects of a store by an [`Index`].
#[derive(Clone, Debug)]
pub struct IndexReader {
    store: Store,
    name: Arc<str>,
}

impl IndexReader {
    /// The objects that have this value, in no order.
    pub fn get(&self, value: &str) -> Vec<Object> {
        let bodies: Vec<Body> = {
            let content = self.store.read();
            let index = content.indexes.iter().find(|index| index.name() == &*self.name);
            let places = index.into_iter().flat_map(|index| index.places(value));
            places
                .filter_map(|place| Some(content.table.at(place)?.body.clone()))
                .collect()
        };
        bodies.into_iter().map(Body::into_object).collect()
    }

    /// All values, and how many objects have each, in no order.
    pub fn values(&self) -> Vec<(String, usize)> {
        let content = self.store.read();
        let index = content.indexes.iter().find(|index| index.name() == &*self.name);
        let counts = index.into_iter().flat_map(index::Built::counts);
        counts.map(|(value, count)| (value.to_owned(), count)).collect()
    }
}
