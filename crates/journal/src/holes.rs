//! The times for which changes may be missing, as far as they are remembered.

use std::collections::{BTreeMap, VecDeque};

use crate::Hole;

/// So many holes of each collection are remembered one by one.
const MAX_OF_COLLECTION: usize = 100;
/// The reason of holes that were put together.
const SEVERAL: &str = "several";

/// Holes by collection, so that many of one never make those of another be forgotten.
#[derive(Debug, Default)]
pub(crate) struct Holes(BTreeMap<String, VecDeque<Hole>>);

impl Holes {
    /// Takes in a hole, unless it is known. If its collection has too many then, the two oldest become one from the begin of
    /// the first to the end of the second: better some time too much is in doubt than some too little.
    pub(crate) fn add(&mut self, hole: Hole) {
        let holes = self.0.entry(hole.collection.clone()).or_default();
        if holes.iter().any(|known| is_same(known, &hole)) {
            return;
        }
        holes.push_back(hole);
        if holes.len() > MAX_OF_COLLECTION
            && let (Some(first), Some(second)) = (holes.pop_front(), holes.pop_front())
        {
            holes.push_front(Hole {
                collection: first.collection,
                from: first.from.min(second.from),
                to: first.to.max(second.to),
                reason: SEVERAL.into(),
                seq: first.seq.min(second.seq),
            });
        }
    }

    /// All of them, the newest last.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Hole> {
        let mut all: Vec<&Hole> = self.0.values().flatten().collect();
        all.sort_by_key(|hole| (hole.seq, hole.to));
        all.into_iter()
    }
}

/// Whether it is this one, or one of those that this one was put together of: a log is read again from further back.
fn is_same(known: &Hole, hole: &Hole) -> bool {
    let covers = || known.from <= hole.from && hole.to <= known.to && known.seq <= hole.seq;
    known == hole || known.reason == SEVERAL && covers()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::Seq;

    fn hole(collection: &str, n: u64) -> Hole {
        let at = |second: u64| Timestamp::from_second(second as i64).unwrap();
        Hole {
            collection: collection.into(),
            from: at(10 * n),
            to: at(10 * n + 5),
            reason: "expired".into(),
            seq: Seq(n),
        }
    }

    fn with(n: u64) -> Holes {
        let mut holes = Holes::default();
        holes.add(hole("rare", 0));
        (1..=n).for_each(|n| holes.add(hole("busy", n)));
        holes
    }

    #[test]
    fn many_holes_of_one_collection_hide_none_of_another() {
        let holes = with(1500);
        let all: Vec<&Hole> = holes.iter().collect();
        assert_eq!(all[0], &hole("rare", 0));
        assert_eq!(all.len(), 1 + MAX_OF_COLLECTION);
    }

    #[test]
    fn the_oldest_holes_of_a_collection_become_one() {
        let holes = with(102);
        let all: Vec<&Hole> = holes.iter().collect();
        let oldest = all[1];
        let (first, last) = (hole("busy", 1), hole("busy", 3));
        assert_eq!(
            (oldest.from, oldest.to, oldest.seq),
            (first.from, last.to, Seq(1))
        );
        assert_eq!((oldest.reason.as_str(), all[2]), ("several", &hole("busy", 4)));
    }

    #[test]
    fn a_hole_is_told_once() {
        let mut holes = with(102);
        let before: Vec<Hole> = holes.iter().cloned().collect();
        (1..=102).for_each(|n| holes.add(hole("busy", n)));
        assert!(holes.iter().eq(&before));
    }
}
