//! Random faults between writes: whatever the disk does, acknowledged writes stay and refused ones are not
//! half there.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::{open, put, run, small, write};
use skopos_disk::{Faults, SimDisk};

use crate::{Range, Revision, Store};

const S: &str = "core/configmaps";

#[derive(Clone, Debug)]
enum Step {
    Write {
        key: u8,
        size: u16,
    },
    Fault(Faults),
    Repair,
    /// The machine goes down; this share of what was not synced survives. The next start has a sound disk.
    Crash {
        keep: u8,
    },
    /// The same, and what survives is any of the sectors.
    CrashInAnyOrder {
        seed: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let faults = (
        prop::option::of(0..3_000usize),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.2, 0..3_000usize),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::option::weighted(0.3, 1..100usize),
    );
    let faults = faults.prop_map(|(space, sync, write_after, truncate, create, short)| {
        Step::Fault(Faults {
            space,
            sync,
            write_after,
            truncate,
            create,
            short,
        })
    });
    prop_oneof![
        12 => (0..8u8, 0..600u16).prop_map(|(key, size)| Step::Write { key, size }),
        2 => faults,
        2 => Just(Step::Repair),
        2 => any::<u8>().prop_map(|keep| Step::Crash { keep }),
        1 => any::<u64>().prop_map(|seed| Step::CrashInAnyOrder { seed }),
    ]
}

type Content = BTreeMap<String, (String, Revision)>;

fn content(store: &Store) -> Content {
    let items = store.list(S, &Range::default()).unwrap().items;
    items
        .iter()
        .map(|e| (e.key.to_string(), (super::text(e), e.modified)))
        .collect()
}

struct Bench {
    disk: SimDisk,
    store: Store,
    acknowledged: Content,
    /// The states as if one of the writes refused since had been done after all.
    refused: Vec<Content>,
    revision: Revision,
}

impl Bench {
    async fn step(&mut self, number: usize, step: &Step) {
        match step {
            Step::Write { key, size } => self.write(&format!("k{key}"), number, usize::from(*size)).await,
            Step::Fault(faults) => self.disk.set(*faults),
            Step::Repair => self.disk.set(Faults::default()),
            Step::Crash { keep } => self.crash(usize::from(*keep)).await,
            Step::CrashInAnyOrder { seed } => {
                let mut fate = *seed;
                let disk = self.disk.crashed_in_any_order(|| {
                    fate = fate.rotate_left(1);
                    fate & 1 == 1
                });
                self.restart_on(disk).await;
            }
        }
        let visible = content(&self.store) == self.acknowledged && self.store.revision() == self.revision;
        assert!(visible, "readers see exactly what was acknowledged");
    }

    async fn write(&mut self, key: &str, number: usize, size: usize) {
        let text = format!("{number}:{}", "x".repeat(size));
        let mut after = self.acknowledged.clone();
        let next = Revision(self.revision.0 + 1);
        after.insert(key.to_owned(), (text.clone(), next));
        match write(&self.store, put(S, key, &text)).await {
            Ok(revision) => {
                assert_eq!(revision, next);
                (self.acknowledged, self.revision, self.refused) = (after, next, Vec::new());
            }
            Err(_) => self.refused.push(after),
        }
    }

    async fn crash(&mut self, keep: usize) {
        // The image is taken first: closing may still finish a snapshot.
        let disk = self.disk.crashed(|unsynced| unsynced * keep / 255);
        self.restart_on(disk).await;
    }

    async fn restart_on(&mut self, disk: SimDisk) {
        self.store.close().await;
        self.disk = disk;
        self.store = open(&self.disk, &small()).unwrap();
        let found = content(&self.store);
        if found != self.acknowledged {
            assert!(
                self.refused.contains(&found),
                "neither what was acknowledged nor one write more"
            );
            (self.acknowledged, self.revision) = (found, Revision(self.revision.0 + 1));
        }
        self.refused.clear();
    }
}

proptest! {
    #[test]
    fn acknowledged_writes_survive_any_fault(steps in vec(step(), 1..120)) {
        run(async {
            let disk = SimDisk::default();
            let store = open(&disk, &small()).unwrap();
            let (acknowledged, revision) = (Content::new(), store.revision());
            let mut bench = Bench { disk, store, acknowledged, refused: Vec::new(), revision };
            for (number, step) in steps.iter().enumerate() {
                bench.step(number, step).await;
            }
            bench.crash(0).await;
            write(&bench.store, put(S, "after", "x")).await.unwrap();
        });
    }
}
