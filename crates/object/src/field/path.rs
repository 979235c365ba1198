//! The path from the root of an object to a field.

use std::fmt::{self, Write as _};

/// The path from the root of an object to one of its fields: `spec.list[0].map[key]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself. It prints as `<nil>`, as the API server prints a path that is not there.
    pub fn root() -> Self {
        Self::default()
    }

    /// The field `name` of what is at this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let mut path = String::with_capacity(self.0.len() + 1 + name.len());
        path.push_str(&self.0);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        Self(path)
    }

    /// The item at `index` of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut path = self.0.clone();
        // Writing to a String cannot fail.
        let _ = write!(path, "[{index}]");
        Self(path)
    }

    /// The entry `key` of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "<nil>" } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_children_indexes_and_keys() {
        let path = FieldPath::root()
            .child("spec")
            .child("list")
            .index(0)
            .child("map")
            .key("a.b/c");
        assert_eq!(path.to_string(), "spec.list[0].map[a.b/c]");
        assert_eq!(FieldPath::root().to_string(), "<nil>");
        assert_eq!(FieldPath::root().index(1).child("a").to_string(), "[1].a");
    }
}
