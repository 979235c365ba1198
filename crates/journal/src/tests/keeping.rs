//! What is written stays, and what goes was not needed.

use std::time::Duration;

use skopos_disk::{Faults, SimDisk};

use super::*;
use crate::{CommitError, Limits, ReadError, Retention};

/// Creates objects and changes each so often.
pub(super) async fn fill(journal: &Journal, n_objects: u64, n_changes: u64) {
    if journal.shared.read().collections.is_empty() {
        write(journal, 0, vec![Draft::Collection(about())]).await;
    }
    for round in 0..=n_changes {
        for i in 0..n_objects {
            let (name, uid) = (format!("w{i}"), format!("u{i}"));
            let now = widget(&name, &uid, round * n_objects + i + 1, round);
            let draft = match round {
                0 => change(Op::Created, None, Some(&now)),
                _ => {
                    let before = widget(&name, &uid, (round - 1) * n_objects + i + 1, round - 1);
                    change(Op::Updated, Some(&before), Some(&now))
                }
            };
            write(journal, (round * n_objects + i) as i64, vec![draft]).await;
        }
    }
}

fn n_segments(disk: &SimDisk) -> usize {
    disk.names_with("segment-").len()
}

#[tokio::test]
async fn is_the_same_after_a_restart_and_after_a_crash() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 5, 20).await;
    let (entries, objects) = (all(&journal).await, mirror(&journal).await);
    assert_eq!(entries.len(), 105);
    assert_eq!(
        entries.iter().map(|entry| entry.seq.0).collect::<Vec<_>>(),
        (1..=105).collect::<Vec<_>>()
    );
    assert_eq!(
        entries[7].before.as_ref().unwrap().get(&["spec", "size"]),
        Some(0.into())
    );
    assert_eq!(
        entries[7].after.as_ref().unwrap().get(&["spec", "size"]),
        Some(1.into())
    );
    assert_eq!(objects.len(), 5);
    assert!(n_segments(&disk) > 5);

    let crashed = open(&disk.crashed(|unsynced| unsynced));
    assert_eq!(all(&crashed).await, entries);
    assert_eq!(mirror(&crashed).await, objects);

    journal.close().await;
    assert!(matches!(
        journal.commit(Transaction::default()).await,
        Err(CommitError::Closed)
    ));
    let reopened = open(&disk);
    assert_eq!(all(&reopened).await, entries);
    assert_eq!(mirror(&reopened).await, objects);
    assert_eq!(write(&reopened, 500, vec![]).await, Seq(105));
}

#[tokio::test]
async fn a_transaction_is_there_whole_or_not_at_all() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    write(&journal, 0, vec![Draft::Collection(about())]).await;
    let [a, b] = ["a", "b"].map(|name| widget(name, name, 1, 1));
    write(
        &journal,
        1,
        vec![
            change(Op::Created, None, Some(&a)),
            change(Op::Created, None, Some(&b)),
        ],
    )
    .await;
    let name = disk.names_with("segment-").pop().unwrap();
    let len = disk.content(&name).len();
    for cut in 1..400 {
        let torn = disk.crashed(|unsynced| unsynced);
        torn.edit(&name, |bytes| bytes.truncate(len - cut));
        let n = all(&open(&torn)).await.len();
        assert_eq!(n, 0, "cut {cut}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 2, 3).await;
    let before = all(&journal).await;
    disk.set(Faults {
        space: Some(10),
        ..Faults::default()
    });
    let at = Timestamp::from_second(100).unwrap();
    let draft = change(Op::Created, None, Some(&widget("late", "late", 99, 1)));
    let transaction = |drafts| Transaction { at, drafts };
    let refused = journal.commit(transaction(vec![draft.clone()])).await;
    assert!(matches!(refused, Err(CommitError::NoSpace(_))), "{refused:?}");
    assert_eq!(all(&journal).await, before);
    assert_eq!(all(&open(&disk.crashed(|_| 0))).await, before);
    disk.set(Faults::default());
    assert_eq!(journal.commit(transaction(vec![draft])).await, Ok(Seq(9)));
}

#[tokio::test]
async fn a_failed_sync_ends_writing_until_a_restart() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 1, 0).await;
    disk.set(Faults {
        sync: true,
        ..Faults::default()
    });
    let at = Timestamp::from_second(100).unwrap();
    let draft = change(Op::Created, None, Some(&widget("late", "late", 99, 1)));
    for _ in 0..2 {
        let drafts = vec![draft.clone()];
        let refused = journal.commit(Transaction { at, drafts }).await;
        assert!(matches!(refused, Err(CommitError::Failed(_))), "{refused:?}");
        disk.set(Faults::default());
    }
    assert!(journal.failed().await.starts_with("sync in"));
    assert_eq!(all(&open(&disk.crashed(|_| 0))).await.len(), 1);
}

#[tokio::test]
async fn a_second_process_is_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(JournalConfig::new(dir.path())).unwrap();
    let error = Journal::open(JournalConfig::new(dir.path())).unwrap_err();
    assert!(
        error.to_string().contains("is used by another process"),
        "{error}"
    );
    journal.close().await;
}

#[tokio::test]
async fn old_changes_go_and_existing_objects_stay() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 3, 40).await;
    let quiet = widget("quiet", "quiet", 1000, 1);
    write(&journal, 124, vec![change(Op::Created, None, Some(&quiet))]).await;
    fill(&journal, 3, 40).await;
    let objects = mirror(&journal).await;
    let limits = Limits {
        max_changes: Some(20),
        ..Limits::default()
    };
    journal.set_retention(Retention {
        default: limits,
        ..Retention::default()
    });
    for _ in 0..10 {
        journal.retain(Timestamp::from_second(1000).unwrap()).await;
    }
    write(&journal, 1000, vec![]).await;
    let kept = all(&journal).await;
    assert!((20..60).contains(&kept.len()), "{}", kept.len());
    assert_eq!(mirror(&journal).await, objects);
    let first = journal.first();
    assert!(first > Seq(100));
    let gone = journal.read(Seq(1), &Wanted::default(), 10).await;
    assert!(matches!(gone, Err(ReadError::Removed(_))), "{gone:?}");

    for again in [disk.crashed(|_| 0), disk.clone()] {
        journal.close().await;
        let journal = open(&again);
        assert_eq!(all(&journal).await, kept);
        assert_eq!(mirror(&journal).await, objects);
        for name in again.names_with("checkpoint-") {
            again.edit(&name, |bytes| bytes[20] ^= 1);
        }
        journal.close().await;
        assert_eq!(mirror(&open(&again)).await, objects, "without a checkpoint");
    }
}

#[tokio::test]
async fn what_is_held_stays_whatever_its_age() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 3, 40).await;
    let limits = Limits {
        max_age: Some(Duration::from_secs(10)),
        ..Limits::default()
    };
    journal.set_retention(Retention {
        default: limits,
        ..Retention::default()
    });
    journal.hold("rule", Some(Seq(0)));
    journal.retain(Timestamp::from_second(1000).unwrap()).await;
    write(&journal, 1000, vec![]).await;
    assert_eq!(journal.first(), Seq(1));
    journal.hold("rule", Some(Seq(60)));
    journal.retain(Timestamp::from_second(1000).unwrap()).await;
    write(&journal, 1000, vec![]).await;
    assert!(
        (Seq(30)..=Seq(61)).contains(&journal.first()),
        "{:?}",
        journal.first()
    );
    journal.hold("rule", None);
    journal.retain(Timestamp::from_second(1000).unwrap()).await;
    write(&journal, 1000, vec![]).await;
    assert!(journal.first() > Seq(90), "{:?}", journal.first());
}

#[tokio::test]
async fn changes_are_found_by_object_kind_time_and_operation() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 4, 10).await;
    let named = Wanted {
        kind: Some(("example.com".into(), "widgets".into())),
        namespace: Some("home".into()),
        name: Some("w2".into()),
        ..Wanted::default()
    };
    let found = read(&journal, &named).await;
    assert_eq!(found.len(), 11);
    assert!(found.iter().all(|entry| entry.key.name == "w2"));
    let other = Wanted {
        kind: Some(("example.com".into(), "Gadget".into())),
        ..Wanted::default()
    };
    assert!(read(&journal, &other).await.is_empty());
    let timed = Wanted {
        since: Some(Timestamp::from_second(10).unwrap()),
        until: Some(Timestamp::from_second(20).unwrap()),
        ..Wanted::default()
    };
    let found = read(&journal, &timed).await;
    assert_eq!(
        found.iter().map(|entry| entry.seq.0).collect::<Vec<_>>(),
        (11..=20).collect::<Vec<_>>()
    );
    let created = Wanted {
        ops: vec![Op::Created],
        ..Wanted::default()
    };
    assert_eq!(read(&journal, &created).await.len(), 4);
    assert_eq!(journal.get(Seq(17)).await.unwrap().unwrap().seq, Seq(17));
    assert!(journal.get(Seq(1000)).await.unwrap().is_none());
}

/// A second collection beside [`about`], whose changes are kept for ever.
fn other_about() -> About {
    About {
        name: "gadgets.example.com".into(),
        kind: GroupVersionKind::new("example.com", "v1", "Gadget"),
        plural: "gadgets".into(),
        ..about()
    }
}

fn of_other(draft: Draft) -> Draft {
    match draft {
        Draft::Change(meta, bodies) => Draft::Change(
            Meta {
                collection: 1,
                ..meta
            },
            bodies,
        ),
        other => other,
    }
}

#[tokio::test]
async fn a_kind_that_is_kept_for_ever_does_not_keep_its_neighbours() {
    check_neighbours(|_| Limits {
        max_age: Some(Duration::from_secs(20)),
        ..Limits::default()
    })
    .await;
}

#[tokio::test]
async fn a_kind_keeps_no_more_bytes_than_it_may() {
    check_neighbours(|bytes| Limits {
        max_bytes: Some(bytes / 9),
        ..Limits::default()
    })
    .await;
}

/// Two kinds, of which one has limits that keep a tenth of it; they may depend on how many bytes there are of it.
async fn check_neighbours(limits: impl FnOnce(u64) -> Limits) {
    let disk = SimDisk::default();
    let journal = open(&disk);
    write(
        &journal,
        0,
        vec![Draft::Collection(about()), Draft::Collection(other_about())],
    )
    .await;
    let mut before = [widget("busy", "busy", 1, 0), widget("kept", "kept", 1, 0)];
    let [busy, kept] = &before;
    let gone = widget("gone", "gone", 1, 0);
    write(
        &journal,
        1,
        vec![
            change(Op::Created, None, Some(busy)),
            change(Op::Created, None, Some(&gone)),
        ],
    )
    .await;
    write(&journal, 1, vec![of_other(change(Op::Created, None, Some(kept)))]).await;
    for round in 2..200 {
        let busy = widget("busy", "busy", round, round);
        write(
            &journal,
            round as i64,
            vec![change(Op::Updated, Some(&before[0]), Some(&busy))],
        )
        .await;
        before[0] = busy;
        if round == 30 {
            write(&journal, 30, vec![change(Op::Deleted, Some(&gone), None)]).await;
        }
        if round % 20 == 0 {
            let kept = widget("kept", "kept", round, round);
            write(
                &journal,
                round as i64,
                vec![of_other(change(Op::Updated, Some(&before[1]), Some(&kept)))],
            )
            .await;
            before[1] = kept;
        }
    }
    let (objects, full, head) = (mirror(&journal).await, journal.stats().disk_bytes, journal.head());
    let bytes = {
        let state = journal.shared.read();
        let counts = state.segments.values().filter_map(|segment| {
            let places = segment.places();
            places.counts.get(&0).map(|count| count.bytes)
        });
        counts.sum()
    };
    journal.set_retention(Retention {
        collections: [("widgets.example.com".to_owned(), limits(bytes))].into(),
        ..Retention::default()
    });
    for _ in 0..10 {
        journal.retain(Timestamp::from_second(200).unwrap()).await;
    }
    write(&journal, 200, vec![]).await;
    let left = all(&journal).await;
    let n_other = left.iter().filter(|entry| entry.plural == "gadgets").count();
    assert_eq!(n_other, 10, "a kind without limits keeps all");
    let n_busy = left.len() - n_other;
    assert!((20..60).contains(&n_busy), "{n_busy} of 198");
    assert!(journal.stats().disk_bytes < full / 2);
    assert_eq!(
        (
            journal.n_changes("widgets.example.com"),
            journal.n_changes("gadgets.example.com")
        ),
        (n_busy as u64, 10)
    );
    let one = Wanted {
        namespace: Some("home".into()),
        name: Some("kept".into()),
        ..Wanted::default()
    };
    assert_eq!(read(&journal, &one).await.len(), 10, "found by its index");
    journal.close().await;
    for is_checkpointed in [true, false] {
        let again = disk.crashed(|_| 0);
        if !is_checkpointed {
            for name in again.names_with("checkpoint-") {
                again.edit(&name, |bytes| bytes[20] ^= 1);
            }
        }
        let journal = open(&again);
        assert_eq!(all(&journal).await, left);
        assert_eq!(mirror(&journal).await, objects, "what was deleted stays deleted");
        assert_eq!(journal.head(), head);
    }
}

#[tokio::test]
async fn a_crash_while_a_segment_is_written_anew_leaves_one_or_the_other() {
    for n_writes in 0..12 {
        let disk = SimDisk::default();
        let journal = open(&disk);
        fill(&journal, 3, 40).await;
        let objects = mirror(&journal).await;
        let limits = Limits {
            max_changes: Some(10),
            ..Limits::default()
        };
        journal.set_retention(Retention {
            default: limits,
            ..Retention::default()
        });
        disk.set(Faults {
            space: Some(n_writes * 300),
            ..Faults::default()
        });
        journal.retain(Timestamp::from_second(1000).unwrap()).await;
        // Ends after retention, whether or not there was room.
        let _ = journal.commit(Transaction::default()).await;
        let crashed = open(&disk.crashed(|_| 0));
        assert_eq!(mirror(&crashed).await, objects, "room for {n_writes}");
        let kept = all(&crashed).await;
        assert!(
            kept.len() >= 10 && kept.last().unwrap().seq == Seq(123),
            "{}",
            kept.len()
        );
        assert_eq!(crashed.head(), Seq(123));
    }
}

#[tokio::test]
async fn more_objects_than_bytes_does_not_copy_for_ever() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 200, 2).await;
    let objects = mirror(&journal).await;
    journal.set_retention(Retention {
        default: Limits {
            max_changes: Some(1),
            ..Limits::default()
        },
        max_bytes: Some(1000),
        ..Retention::default()
    });
    for _ in 0..40 {
        journal.retain(Timestamp::from_second(1000).unwrap()).await;
    }
    write(&journal, 1000, vec![]).await;
    let written = journal.stats().written_bytes;
    for _ in 0..40 {
        journal.retain(Timestamp::from_second(1000).unwrap()).await;
    }
    write(&journal, 1000, vec![]).await;
    assert_eq!(
        journal.stats().written_bytes,
        written,
        "nothing more is to be had"
    );
    assert_eq!(mirror(&journal).await, objects);
}
