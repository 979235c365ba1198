//! Finding objects by something else than their key.

use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use hashbrown::{HashMap, HashSet};
use skopos_object::Object;

/// By what values objects can be found: their namespace, an owner, a label, or what any function makes
/// of them.
///
/// The name stands for the function: two indexes of the same name are taken to be the same. The function
/// must give the same values for the same object each time.
#[derive(Clone)]
pub struct Index {
    name: Arc<str>,
    values: Values,
}

type Values = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

impl Index {
    /// An index by what `values` makes of an object. If it panics, the object is not in the index and
    /// [`Report::index_panics`](crate::InformerReport::index_panics) counts it.
    pub fn new(
        name: impl Into<Arc<str>>,
        values: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            values: Arc::new(values),
        }
    }

    /// An index by namespace.
    pub fn namespace() -> Self {
        Self::new("namespace", |object| vec![object.namespace().to_owned()])
    }

    /// An index by the UIDs of owners.
    pub fn owner() -> Self {
        Self::new("owner", |object| object.owners().map(|owner| owner.uid).collect())
    }

    /// An index by the value of a label.
    pub fn label(label: impl Into<String>) -> Self {
        let label = label.into();
        Self::new(format!("label {label}"), move |object| {
            object.label(&label).map(Cow::into_owned).into_iter().collect()
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}

/// An index with its content: values, and the places in the table of the objects that have them.
#[derive(Debug)]
pub(crate) struct Built {
    index: Index,
    buckets: HashMap<Box<str>, HashSet<u32>>,
    pub(crate) panics: u64,
}

impl Built {
    pub(crate) fn new(index: Index) -> Self {
        Self {
            index,
            buckets: HashMap::new(),
            panics: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.index.name
    }

    pub(crate) fn clear(&mut self) {
        self.buckets = HashMap::new();
    }

    pub(crate) fn add(&mut self, place: u32, object: &Object) {
        for value in self.values(object).unwrap_or_default() {
            self.buckets
                .entry(value.into_boxed_str())
                .or_default()
                .insert(place);
        }
    }

    pub(crate) fn remove(&mut self, place: u32, object: &Object) {
        match self.values(object) {
            Some(values) => {
                for value in values {
                    self.take(&value, place);
                }
            }
            // Whatever it was in, it must not stay there.
            None => self.buckets.retain(|_, places| {
                places.remove(&place);
                !places.is_empty()
            }),
        }
    }

    pub(crate) fn update(&mut self, place: u32, old: &Object, new: &Object) {
        let [before, after] = [old, new].map(|object| self.values(object));
        if before.is_some() && before == after {
            return;
        }
        self.remove(place, old);
        for value in after.unwrap_or_default() {
            self.buckets
                .entry(value.into_boxed_str())
                .or_default()
                .insert(place);
        }
    }

    pub(crate) fn places(&self, value: &str) -> impl Iterator<Item = u32> {
        self.buckets.get(value).into_iter().flatten().copied()
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.buckets
            .iter()
            .map(|(value, places)| (&**value, places.len()))
    }

    fn take(&mut self, value: &str, place: u32) {
        let Some(places) = self.buckets.get_mut(value) else {
            return;
        };
        places.remove(&place);
        if places.is_empty() {
            self.buckets.remove(value);
        }
    }

    /// The values of an object; nothing if the function panics. Caught here, so that one object or
    /// one function cannot stop the store.
    fn values(&mut self, object: &Object) -> Option<Vec<String>> {
        let values = catch_unwind(AssertUnwindSafe(|| (self.index.values)(object))).ok();
        self.panics += u64::from(values.is_none());
        values
    }
}
