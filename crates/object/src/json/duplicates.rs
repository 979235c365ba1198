//! Keeping track of keys that an object has more than once.

use std::collections::HashSet;

/// How many duplicate keys are reported at most.
pub const MAX_DUPLICATES: usize = 100;

/// The paths of duplicate keys, relative to the value being read.
///
/// Each level puts its own part in front of the paths found below it on the way out, so that
/// nothing is kept, and nothing is spent, while there are no duplicates.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    paths: Vec<String>,
}

impl Duplicates {
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Notes a key as duplicate, before what its second value added from `before` on. `first` is
    /// where the paths of this object begin.
    pub(crate) fn note(&mut self, first: usize, before: usize, key: &str) {
        let known = self.paths[first..].iter().any(|path| path == key);
        if !known && self.paths.len() < MAX_DUPLICATES {
            self.paths.insert(before, key.to_owned());
        }
    }

    /// Puts paths from `from` on below the field `key`.
    pub(crate) fn under_key(&mut self, from: usize, key: &str) {
        if self.paths.len() > from {
            self.prefix(from, key);
        }
    }

    /// Puts paths from `from` on below the item at `index`.
    pub(crate) fn under_index(&mut self, from: usize, index: usize) {
        if self.paths.len() > from {
            self.prefix(from, &format!("[{index}]"));
        }
    }

    #[cold]
    fn prefix(&mut self, from: usize, parent: &str) {
        for path in &mut self.paths[from..] {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{parent}{dot}{path}");
        }
    }

    /// The paths, each once.
    pub(crate) fn into_paths(mut self) -> Vec<String> {
        let mut seen = HashSet::new();
        self.paths.retain(|path| seen.insert(path.clone()));
        self.paths
    }
}
