//! The ordered entries of a space, made so that a reader can take them all in a moment.
//!
//! Entries lie in sorted chunks. A reader shares the chunks of its range, some hundred pointers, and walks
//! them after it has given the lock back; a writer that meets a shared chunk copies that one first.

use std::sync::Arc;

use crate::entry::Entry;

const MAX_CHUNK: usize = 256;

type Chunk = Vec<Arc<Entry>>;

/// Entries in key order.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    // Never an empty one; the last key of each is before the first of the next.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        let at = self.seek(|other| other < key);
        self.chunks
            .get(at.chunk)?
            .get(at.index)
            .filter(|entry| &*entry.key == key)
    }

    /// Adds an entry in place of the one with its key.
    pub(crate) fn put(&mut self, entry: Arc<Entry>) {
        let mut at = self.seek(|other| other < &*entry.key);
        if at.chunk == self.chunks.len() {
            // After all others. Filled up rather than split, as keys often come in order.
            match self.chunks.last() {
                Some(last) if last.len() < MAX_CHUNK => {
                    at = Position {
                        chunk: at.chunk - 1,
                        index: last.len(),
                    };
                }
                _ => self.chunks.push(Arc::default()),
            }
        }
        let chunk = Arc::make_mut(&mut self.chunks[at.chunk]);
        match chunk.get_mut(at.index) {
            Some(old) if old.key == entry.key => *old = entry,
            _ => {
                chunk.insert(at.index, entry);
                self.len += 1;
                if chunk.len() > MAX_CHUNK {
                    let upper = chunk.split_off(chunk.len() / 2);
                    chunk.shrink_to_fit();
                    self.chunks.insert(at.chunk + 1, Arc::new(upper));
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        if self.get(key).is_none() {
            return;
        }
        let at = self.seek(|other| other < key);
        let chunk = Arc::make_mut(&mut self.chunks[at.chunk]);
        chunk.remove(at.index);
        self.len -= 1;
        let len = chunk.len();
        if len == 0 {
            self.chunks.remove(at.chunk);
        } else if self
            .chunks
            .get(at.chunk + 1)
            .is_some_and(|next| next.len() + len <= MAX_CHUNK / 2)
        {
            let next = self.chunks.remove(at.chunk + 1);
            Arc::make_mut(&mut self.chunks[at.chunk]).extend_from_slice(&next);
        }
    }

    /// The entries whose key starts with `prefix` and comes after `after`.
    pub(crate) fn view(&self, prefix: &str, after: Option<&str>) -> View {
        let start = self.seek(|key| key < prefix || after.is_some_and(|after| key <= after));
        let end = self
            .seek(|key| key < prefix || key.starts_with(prefix))
            .max(start);
        let past_last = (end.chunk + usize::from(end.index > 0)).min(self.chunks.len());
        let chunks = self.chunks[start.chunk..past_last].to_vec();
        let in_full: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let cut = match chunks.last() {
            Some(last) if end.index > 0 => last.len() - end.index,
            _ => 0,
        };
        View {
            skip: start.index,
            len: in_full.saturating_sub(start.index + cut),
            chunks,
        }
    }

    /// The first position of which `before` is no longer true.
    fn seek(&self, before: impl Fn(&str) -> bool) -> Position {
        let is_before = |chunk: &Arc<Chunk>| chunk.last().is_some_and(|last| before(&last.key));
        let chunk = self.chunks.partition_point(is_before);
        let index = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| chunk.partition_point(|e| before(&e.key)));
        Position { chunk, index }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    chunk: usize,
    index: usize,
}

/// Some entries as they were at one moment.
#[derive(Debug, Default)]
pub(crate) struct View {
    chunks: Vec<Arc<Chunk>>,
    skip: usize,
    len: usize,
}

impl View {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .skip(self.skip)
            .take(self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::{collection::vec, prelude::*};

    use super::{Entries, Entry, MAX_CHUNK};
    use crate::entry::Revision;

    fn entry(n: u16, modified: u64) -> std::sync::Arc<Entry> {
        let (created, modified) = (Revision(1), Revision(modified));
        Entry {
            key: key(n).into(),
            value: Bytes::new(),
            created,
            modified,
        }
        .into()
    }

    fn key(n: u16) -> String {
        format!("{}/{n:05}", n % 3)
    }

    proptest! {
        #[test]
        fn behave_like_a_map(runs in vec((any::<bool>(), 0..3_000u16, 1..700u16, 1..7u16), 1..12), cut in 0..3_000u16) {
            let (mut entries, mut map) = (Entries::default(), BTreeMap::new());
            let mut views = Vec::new();
            for (i, &(remove, from, count, step)) in (2..).zip(&runs) {
                for n in (from..).step_by(step.into()).take(count.into()) {
                    if remove {
                        entries.remove(&key(n));
                        map.remove(&key(n));
                    } else {
                        entries.put(entry(n, i));
                        map.insert(key(n), i);
                    }
                }
                views.push((entries.view("", None), map.clone()));
            }
            prop_assert_eq!(entries.len(), map.len());
            prop_assert!(entries.chunks.iter().all(|chunk| (1..=MAX_CHUNK).contains(&chunk.len())));
            // What was taken earlier stays as it was.
            for (view, map) in &views {
                let seen: Vec<_> = view.iter().map(|e| (e.key.to_string(), e.modified.0)).collect();
                prop_assert_eq!(seen, map.clone().into_iter().collect::<Vec<_>>());
            }
            let after = key(cut);
            for (prefix, after) in [("", Some(&after)), ("1/", None), ("1/", Some(&after)), ("1/02", Some(&after)), ("9", None)] {
                let view = entries.view(prefix, after.map(String::as_str));
                let seen: Vec<_> = view.iter().map(|e| e.key.to_string()).collect();
                let wanted = map.keys().filter(|k| k.starts_with(prefix) && after.is_none_or(|after| *k > after));
                prop_assert_eq!(&seen, &wanted.cloned().collect::<Vec<_>>());
                prop_assert_eq!(view.len(), seen.len());
            }
            prop_assert_eq!(entries.get(&after).map(|e| e.modified.0), map.get(&after).copied());
        }
    }
}
