//! Blocks that were read or written lately.

use std::collections::HashMap;

use bytes::Bytes;

use crate::FileId;

type Key = (FileId, u32);

/// A bounded number of bytes, in two generations: when the young one has half of them the old one goes, and the young
/// one takes its place. What is asked for becomes young again.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    max_bytes: usize,
    young: HashMap<Key, Bytes>,
    young_bytes: usize,
    old: HashMap<Key, Bytes>,
}

impl Cache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            ..Self::default()
        }
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<Bytes> {
        if let Some(bytes) = self.young.get(&key) {
            return Some(bytes.clone());
        }
        let bytes = self.old.remove(&key)?;
        self.insert(key, bytes.clone());
        Some(bytes)
    }

    pub(crate) fn insert(&mut self, key: Key, bytes: Bytes) {
        self.remove(key);
        self.young_bytes += bytes.len();
        self.young.insert(key, bytes);
        if self.young_bytes * 2 >= self.max_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.old.remove(&key);
        if let Some(before) = self.young.remove(&key) {
            self.young_bytes -= before.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut cache = Cache::new(100);
        for number in 0..50 {
            cache.insert((FileId(1), number), Bytes::from_static(b"0123456789"));
            assert!(cache.get((FileId(1), 0)).is_some(), "after {number}");
        }
        let kept = (0..50).filter(|number| cache.get((FileId(1), *number)).is_some());
        assert!(kept.count() <= 11);
        cache.remove((FileId(1), 0));
        assert_eq!(cache.get((FileId(1), 0)), None);
    }
}
