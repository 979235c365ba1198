//! Full disks, failing syncs, torn and damaged files: a clear error, and nothing acknowledged is lost.

use std::sync::{Arc, atomic::AtomicBool};

use super::{delete, dump, large, open, put, run, small, text, write};
use skopos_disk::{Disk, Faults, SimDisk};

use crate::{
    Config, OpenError, Revision, StorageError, WriteError, commit::Core, log::Sizes, recover::recover,
    snapshot,
};

const S: &str = "core/configmaps";

#[test]
fn state_survives_a_close_and_revisions_go_on() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        write(&store, put(S, "b", "2")).await.unwrap();
        write(&store, put(S, "a", "3")).await.unwrap();
        write(&store, delete(S, "b")).await.unwrap();
        let before = dump(&store);
        store.close().await;
        let store = open(&disk, &large()).unwrap();
        assert_eq!(dump(&store), before);
        assert_eq!(store.revision(), Revision(5));
        assert_eq!(write(&store, put(S, "c", "4")).await.unwrap(), Revision(6));
        let mut watcher = store.watch(S, "", Revision(2)).unwrap();
        let seen: Vec<_> = watcher.take().unwrap().iter().map(|e| text(&e.entry)).collect();
        assert_eq!(seen, ["2", "3", "gone at 5", "4"]);
    });
}

#[test]
fn snapshots_replace_the_log_and_keep_the_state() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &small()).unwrap();
        for i in 0..200 {
            write(
                &store,
                put(
                    S,
                    &format!("k{}", i % 20),
                    &format!("value {i} {}", "x".repeat(80)),
                ),
            )
            .await
            .unwrap();
        }
        write(&store, delete(S, "k3")).await.unwrap();
        let before = dump(&store);
        store.close().await;
        assert!(store.stats().snapshots > 0, "{:?}", store.stats());
        assert_eq!(store.stats().snapshot_errors, 0);
        let reopened = open(&disk, &small()).unwrap();
        assert_eq!(dump(&reopened), before);
        assert_eq!(reopened.revision(), store.revision());
        assert!(
            disk.names_with("snapshot-").len() == 1,
            "{:?}",
            disk.names_with("")
        );
    });
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        let before = dump(&store);
        disk.set(Faults {
            space: Some(20),
            ..Faults::default()
        });
        let error = write(&store, put(S, "b", "2")).await.unwrap_err();
        assert!(
            matches!(error, WriteError::Storage(StorageError::NoSpace { .. })),
            "{error:?}"
        );
        assert_eq!((dump(&store), store.revision()), (before.clone(), Revision(2)));
        assert_eq!(dump(&open(&disk.crashed(|n| n), &large()).unwrap()), before);
        disk.set(Faults::default());
        assert_eq!(write(&store, put(S, "b", "2")).await.unwrap(), Revision(3));
        store.close().await;
        assert_eq!(dump(&open(&disk, &large()).unwrap()), dump(&store));
    });
}

#[test]
fn a_partial_write_that_cannot_be_cut_yet_is_cut_before_the_next() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        disk.set(Faults {
            space: Some(20),
            truncate: true,
            ..Faults::default()
        });
        write(&store, put(S, "b", "2")).await.unwrap_err();
        // A crash now finds a torn tail, which goes.
        assert_eq!(open(&disk.crashed(|n| n), &large()).unwrap().count(S), 1);
        disk.set(Faults {
            truncate: true,
            ..Faults::default()
        });
        write(&store, put(S, "b", "2")).await.unwrap_err();
        disk.set(Faults::default());
        write(&store, put(S, "b", "2")).await.unwrap();
        store.close().await;
        assert_eq!(dump(&open(&disk, &large()).unwrap()), dump(&store));
    });
}

#[test]
fn a_failed_sync_ends_writes_and_not_reads() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        let before = dump(&store);
        disk.set(Faults {
            sync: true,
            ..Faults::default()
        });
        let error = write(&store, put(S, "b", "2")).await.unwrap_err();
        assert!(
            matches!(error, WriteError::Storage(StorageError::Failed { .. })),
            "{error:?}"
        );
        disk.set(Faults::default());
        // The disk says it works again, but what the failed sync left behind is unknown.
        let error = write(&store, put(S, "c", "3")).await.unwrap_err();
        assert!(
            error_text(&error).contains("until a restart: sync the log"),
            "{}",
            error_text(&error)
        );
        assert_eq!((dump(&store), store.revision()), (before.clone(), Revision(2)));
        store.close().await;
        let store = open(&disk, &large()).unwrap();
        assert_eq!(dump(&store), before);
        write(&store, put(S, "c", "3")).await.unwrap();
    });
}

#[test]
fn an_error_other_than_full_ends_writes_and_leaves_a_clean_log() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        let length = disk.content("log-00000000000000000002").len();
        disk.set(Faults {
            write_after: Some(30),
            ..Faults::default()
        });
        let error = write(&store, put(S, "b", "2")).await.unwrap_err();
        assert!(
            matches!(error, WriteError::Storage(StorageError::Failed { .. })),
            "{error:?}"
        );
        assert_eq!(disk.content("log-00000000000000000002").len(), length);
    });
}

#[test]
fn short_writes_are_continued() {
    run(async {
        let disk = SimDisk::default();
        disk.set(Faults {
            short: Some(7),
            ..Faults::default()
        });
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", &"x".repeat(100))).await.unwrap();
        store.close().await;
        assert_eq!(dump(&open(&disk, &large()).unwrap()), dump(&store));
    });
}

#[test]
fn writes_go_on_when_neither_snapshot_nor_new_log_file_can_be_made() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &small()).unwrap();
        disk.set(Faults {
            create: true,
            ..Faults::default()
        });
        for i in 0..100 {
            write(&store, put(S, &format!("k{i}"), &"x".repeat(100)))
                .await
                .unwrap();
        }
        store.close().await;
        assert_eq!(disk.names_with("").len(), 1, "{:?}", disk.names_with(""));
        disk.set(Faults::default());
        assert_eq!(dump(&open(&disk, &small()).unwrap()), dump(&store));
    });
}

#[test]
fn a_torn_tail_is_cut_at_any_byte() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        let log = "log-00000000000000000002";
        let mut states = vec![(disk.content(log).len(), dump(&store))];
        for i in 0..6 {
            write(&store, put(S, &format!("k{}", i % 4), &format!("value {i}")))
                .await
                .unwrap();
            states.push((disk.content(log).len(), dump(&store)));
        }
        store.close().await;
        for cut in 0..disk.content(log).len() {
            let torn = disk.crashed(|n| n);
            torn.edit(log, |bytes| bytes.truncate(cut));
            let store = open(&torn, &large()).unwrap();
            let expected = states
                .iter()
                .rev()
                .find(|(len, _)| *len <= cut)
                .map_or(Vec::new(), |(_, s)| s.clone());
            assert_eq!(dump(&store), expected, "cut at {cut}");
            write(&store, put(S, "after", "x")).await.unwrap();
            store.close().await;
            assert_eq!(
                dump(&open(&torn, &large()).unwrap()),
                dump(&store),
                "cut at {cut}"
            );
        }
    });
}

/// After a power cut the later pages of the unfinished write may be there and the earlier ones not.
#[test]
fn a_hole_in_the_unfinished_write_is_a_torn_tail() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        let log = "log-00000000000000000002";
        let sound = disk.content(log).len();
        write(&store, put(S, "b", &"x".repeat(9_000))).await.unwrap();
        store.close().await;
        for hole in [0..4_096, 10..20, 4_096..8_192] {
            let torn = disk.crashed(|n| n);
            torn.edit(log, |bytes| bytes[sound + hole.start..sound + hole.end].fill(0));
            let store = open(&torn, &large()).unwrap();
            assert_eq!((store.count(S), store.revision()), (1, Revision(2)), "{hole:?}");
        }
    });
}

#[test]
fn a_flipped_bit_before_the_last_frame_is_an_error_that_names_the_place() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        let log = "log-00000000000000000002";
        for i in 0..4 {
            write(&store, put(S, &format!("k{i}"), &format!("value {i}")))
                .await
                .unwrap();
        }
        let before_last = disk.content(log).len();
        write(&store, put(S, "last", "value")).await.unwrap();
        store.close().await;
        for at in 0..disk.content(log).len() {
            let flipped = disk.crashed(|n| n);
            flipped.edit(log, |bytes| bytes[at] ^= 0x10);
            match open(&flipped, &large()) {
                Err(OpenError::Damaged { path, offset, .. }) => {
                    assert!(
                        path.ends_with(log) && offset <= at as u64,
                        "{path:?} {offset} for {at}"
                    );
                }
                Err(OpenError::Version { .. }) => assert!((8..12).contains(&at)),
                // The last frame cannot be told from one that was never finished.
                Ok(store) => assert!(at >= before_last && store.count(S) == 4, "flip at {at}"),
                Err(error) => panic!("flip at {at}: {error}"),
            }
        }
    });
}

#[test]
fn a_missing_log_file_is_a_gap() {
    run(async {
        let disk = SimDisk::default();
        let config = Config {
            snapshot_after_bytes: u64::MAX,
            ..small()
        };
        let store = open(&disk, &config).unwrap();
        for i in 0..60 {
            write(&store, put(S, &format!("k{i}"), &"x".repeat(100)))
                .await
                .unwrap();
        }
        store.close().await;
        let logs = disk.names_with("log-");
        assert!(logs.len() > 3, "{logs:?}");
        for gone in &logs[..logs.len() - 1] {
            let holed = disk.crashed(|n| n);
            holed.remove(gone).unwrap();
            let error = open(&holed, &config).unwrap_err();
            assert!(matches!(error, OpenError::Gap { .. }), "without {gone}: {error}");
        }
    });
}

#[test]
fn a_damaged_snapshot_is_an_error_that_names_the_place() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &small()).unwrap();
        for i in 0..100 {
            write(&store, put(S, &format!("k{}", i % 10), &"x".repeat(100)))
                .await
                .unwrap();
        }
        store.close().await;
        let name = disk.names_with("snapshot-").pop().unwrap();
        for at in (0..disk.content(&name).len()).step_by(17) {
            let flipped = disk.crashed(|n| n);
            flipped.edit(&name, |bytes| bytes[at] ^= 1);
            let error = open(&flipped, &small()).unwrap_err();
            assert!(error.to_string().contains(&name), "{error}");
        }
    });
}

/// A log cut to before the snapshot once left its new file to be removed as a leftover of the same name.
#[test]
fn a_log_cut_to_before_the_snapshot_loses_nothing_that_the_snapshot_has() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &large()).unwrap();
        for i in 0..10 {
            write(&store, put(S, &format!("k{i}"), "x")).await.unwrap();
        }
        store.close().await;
        let (before, log) = (dump(&store), "log-00000000000000000002");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let sizes = Sizes {
            segment_bytes: u64::MAX,
            room_bytes: 0,
        };
        let core = Core::new(recover(&shared, &large().history, sizes).unwrap().state);
        snapshot::take(&core, &disk, &AtomicBool::new(false)).unwrap();
        disk.edit(log, |bytes| bytes.truncate(bytes.len() / 2));
        disk.create("log-00000000000000000012").unwrap();
        let store = open(&disk, &large()).unwrap();
        assert_eq!(dump(&store), before);
        assert_eq!(write(&store, put(S, "more", "x")).await.unwrap(), Revision(12));
        store.close().await;
        assert_eq!(dump(&open(&disk, &large()).unwrap()), dump(&store));
    });
}

/// Bounds that the test does not reach, with room ahead of what is written.
fn roomy() -> Config {
    Config {
        room_bytes: 4_096,
        ..large()
    }
}

#[test]
fn room_ahead_of_the_log_is_used_again_after_a_restart() {
    run(async {
        let (disk, log) = (SimDisk::default(), "log-00000000000000000002");
        let store = open(&disk, &roomy()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        let length = disk.content(log).len();
        assert!(length > 4_096, "{length}");
        write(&store, put(S, "b", "2")).await.unwrap();
        store.close().await;
        for again in [disk.crashed(|_| 0), disk.clone()] {
            let store = open(&again, &roomy()).unwrap();
            assert_eq!((store.count(S), store.revision()), (2, Revision(3)));
            write(&store, put(S, "c", "3")).await.unwrap();
            store.close().await;
            assert_eq!(again.content(log).len(), length);
            assert_eq!(open(&again, &roomy()).unwrap().count(S), 3);
        }
    });
}

#[test]
fn a_short_log_makes_little_room_ahead() {
    run(async {
        let (disk, log) = (SimDisk::default(), "log-00000000000000000002");
        let config = Config {
            room_bytes: 1 << 20,
            ..large()
        };
        let store = open(&disk, &config).unwrap();
        let mut lengths = Vec::new();
        for key in ["a", "b", "c"] {
            write(&store, put(S, key, &"x".repeat(100 << 10))).await.unwrap();
            lengths.push(disk.content(log).len() >> 10);
        }
        assert_eq!(lengths, [164, 300, 300]);
    });
}

/// Sectors of the unfinished write come through or not, whatever their order.
#[test]
fn an_unfinished_write_into_room_is_there_whole_or_not_at_all() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &roomy()).unwrap();
        write(&store, put(S, "a", "1")).await.unwrap();
        disk.set(Faults {
            sync: true,
            truncate: true,
            ..Faults::default()
        });
        write(&store, put(S, "b", &"x".repeat(2_000))).await.unwrap_err();
        for fate in 0..64_u32 {
            let mut sector = 0;
            let torn = disk.crashed_in_any_order(|| {
                sector += 1;
                fate >> (sector % 6) & 1 == 1
            });
            let store = open(&torn, &roomy()).unwrap();
            let whole = store.count(S) == 2 && store.revision() == Revision(3);
            let none = store.count(S) == 1 && store.revision() == Revision(2);
            assert!(whole || none, "fate {fate:b}");
            write(&store, put(S, "after", &"y".repeat(300))).await.unwrap();
            store.close().await;
            assert_eq!(
                dump(&open(&torn, &roomy()).unwrap()),
                dump(&store),
                "fate {fate:b}"
            );
        }
    });
}

#[test]
fn damage_before_the_room_is_no_end() {
    run(async {
        let (disk, log) = (SimDisk::default(), "log-00000000000000000002");
        let store = open(&disk, &roomy()).unwrap();
        let mut ends = Vec::new();
        for key in ["a", "b", "c"] {
            write(&store, put(S, key, "some text")).await.unwrap();
            let sound = disk.content(log).iter().rposition(|byte| *byte != 0).unwrap();
            ends.push(sound + 1);
        }
        store.close().await;
        let holed = disk.crashed(|n| n);
        holed.edit(log, |bytes| bytes[ends[0]..ends[1]].fill(0));
        let error = open(&holed, &roomy()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        let cut = disk.crashed(|n| n);
        cut.edit(log, |bytes| bytes[ends[1]..].fill(0));
        assert_eq!(open(&cut, &roomy()).unwrap().count(S), 2);
    });
}

#[test]
fn files_that_are_done_with_give_their_room_back() {
    run(async {
        let disk = SimDisk::default();
        let config = Config {
            segment_bytes: 1_000,
            ..roomy()
        };
        let store = open(&disk, &config).unwrap();
        for i in 0..20 {
            write(&store, put(S, &format!("k{i}"), &"x".repeat(100)))
                .await
                .unwrap();
        }
        store.close().await;
        let logs = disk.names_with("log-");
        assert!(logs.len() > 2, "{logs:?}");
        for name in &logs[..logs.len() - 1] {
            assert!(disk.content(name).len() < 1_500, "{name}");
        }
        assert_eq!(dump(&open(&disk, &config).unwrap()), dump(&store));
    });
}

#[test]
fn a_disk_too_full_for_room_still_takes_what_fits() {
    run(async {
        let disk = SimDisk::default();
        let store = open(&disk, &roomy()).unwrap();
        disk.set(Faults {
            space: Some(600),
            ..Faults::default()
        });
        write(&store, put(S, "a", &"x".repeat(300))).await.unwrap();
        let error = write(&store, put(S, "b", &"x".repeat(300))).await.unwrap_err();
        assert!(
            matches!(error, WriteError::Storage(StorageError::NoSpace { .. })),
            "{error:?}"
        );
        disk.set(Faults::default());
        write(&store, put(S, "b", &"x".repeat(300))).await.unwrap();
        store.close().await;
        assert_eq!(dump(&open(&disk, &roomy()).unwrap()), dump(&store));
    });
}

fn error_text(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |e| e.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
