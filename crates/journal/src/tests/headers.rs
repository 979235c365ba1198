//! Segments whose header is damaged, and segments of somebody else.

use std::io;

use skopos_disk::{Disk as _, SimDisk};

use super::{keeping::fill, *};
use crate::{OpenError, ReadError};

/// A journal of several segments, closed, with what was in it.
async fn filled() -> (SimDisk, Vec<Entry>) {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 5, 20).await;
    // The last segment has a change, too.
    let now = widget("w0", "u0", 200, 21);
    write(&journal, 105, vec![change(Op::Updated, None, Some(&now))]).await;
    let entries = all(&journal).await;
    journal.close().await;
    (disk, entries)
}

fn copy(disk: &SimDisk) -> SimDisk {
    disk.crashed(|unsynced| unsynced)
}

/// What can be read from the start on, and which numbers cannot.
async fn read_past_damage(journal: &Journal) -> (Vec<Entry>, Vec<u64>) {
    let (mut found, mut lost, mut after) = (Vec::new(), Vec::new(), Seq(0));
    while after < journal.head() {
        match journal.read(after, &Wanted::default(), 100).await {
            Ok((some, looked)) => {
                found.extend(some);
                after = looked;
            }
            Err(ReadError::Damaged { seq, to, .. }) => {
                lost.extend(seq.0..=to.0);
                after = to;
            }
            Err(ReadError::Removed(seq)) => after = seq,
            Err(error) => panic!("{error:?}"),
        }
    }
    (found, lost)
}

/// With the checkpoint, and as if there never was one.
fn with_and_without_checkpoint(disk: &SimDisk) -> [SimDisk; 2] {
    let without = copy(disk);
    for name in without.names_with("checkpoint-") {
        without.remove(&name).unwrap();
    }
    [copy(disk), without]
}

#[tokio::test]
async fn a_damaged_header_costs_nothing_but_itself() {
    let (disk, entries) = filled().await;
    for disk in with_and_without_checkpoint(&disk) {
        for name in disk.names_with("segment-") {
            for at in [0, 9, 15, 22] {
                let disk = copy(&disk);
                disk.edit(&name, |bytes| bytes[at] ^= 0x40);
                let mut expected = entries.clone();
                for round in 0..2 {
                    let journal = open(&disk);
                    assert_eq!(all(&journal).await, expected, "{name} at {at}");
                    assert_eq!(mirror(&journal).await.len(), 5 + round, "{name} at {at}");
                    assert_eq!(journal.holes(), [], "{name} at {at}");
                    let files: Vec<_> = journal.damage().into_iter().map(|one| one.file).collect();
                    assert_eq!(files, std::slice::from_ref(&name));
                    let late = widget(&format!("late{round}"), "late", 99, 1);
                    write(&journal, 500, vec![change(Op::Created, None, Some(&late))]).await;
                    expected = all(&journal).await;
                    assert_eq!(expected.len(), entries.len() + round + 1, "{name} at {at}");
                    journal.close().await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_segment_that_is_something_else_is_a_hole_and_the_rest_stays_readable() {
    let (disk, entries) = filled().await;
    let names = disk.names_with("segment-");
    for disk in with_and_without_checkpoint(&disk) {
        for name in &names[1..names.len() - 1] {
            let disk = copy(&disk);
            disk.edit(name, |bytes| bytes.fill(b'x'));
            for _ in 0..2 {
                let journal = open(&disk);
                let (found, lost) = read_past_damage(&journal).await;
                let numbers = found.iter().map(|entry| entry.seq.0).chain(lost.clone());
                let mut numbers: Vec<_> = numbers.collect();
                numbers.sort_unstable();
                assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>(), "{name}");
                let (first, last) = (lost[0], lost[lost.len() - 1]);
                let seconds = |seq: u64| Timestamp::from_second(seq as i64 - 1).unwrap();
                let [hole] = &journal.holes()[..] else {
                    panic!("{:?}", journal.holes());
                };
                assert_eq!((hole.from, hole.to), (seconds(first - 1), seconds(last + 1)));
                assert_eq!((hole.seq, &*hole.reason), (Seq(first), "damaged"));
                assert!(journal.damage().iter().all(|one| one.file == *name));
                assert!(disk.content(name).iter().all(|byte| *byte == b'x'));
                journal.close().await;
            }
        }
    }
}

/// Whoever was told of changes that are lost must not take new ones for them.
#[tokio::test]
async fn numbers_of_a_lost_last_segment_are_not_used_again() {
    let (disk, entries) = filled().await;
    let name = disk.names_with("segment-").pop().unwrap();
    for disk in with_and_without_checkpoint(&disk) {
        disk.edit(&name, |bytes| bytes.fill(b'x'));
        let journal = open(&disk);
        let late = widget("late", "late", 99, 1);
        let seq = write(&journal, 500, vec![change(Op::Created, None, Some(&late))]).await;
        assert!(seq.0 > entries.len() as u64, "{seq}");
        let (found, lost) = read_past_damage(&journal).await;
        assert_eq!(found.last().unwrap().seq, seq);
        assert!(lost.contains(&(entries.len() as u64)));
        let positions = journal.shared.read().collections[0].position.clone();
        assert!(positions.is_none_or(|position| position.version.is_empty()));
    }
}

#[tokio::test]
async fn a_segment_that_was_never_finished_is_no_damage() {
    let (disk, entries) = filled().await;
    let disk = copy(&disk);
    let name = disk.names_with("segment-").pop().unwrap();
    let next = crate::segment::SegmentId::parse(&name).unwrap().next().name();
    for content in [vec![], vec![0; 10], vec![0; 24], vec![0; 60]] {
        let disk = copy(&disk);
        drop(disk.create(&next).unwrap());
        disk.edit(&next, |bytes| *bytes = content);
        for _ in 0..2 {
            let journal = open(&disk);
            assert_eq!(all(&journal).await, entries);
            assert_eq!((journal.damage(), journal.holes()), (vec![], vec![]));
            journal.close().await;
        }
    }
}

/// Where nothing can be written there is no new segment to go on in, nor is one needed.
#[tokio::test]
async fn a_journal_that_is_only_read_opens_without_the_last_header() {
    let (disk, entries) = filled().await;
    let last = disk.names_with("segment-").pop().unwrap();
    let next = crate::segment::SegmentId::parse(&last).unwrap().next().name();
    for (name, header) in [(last, [0; 24].as_slice()), (next, [0; 5].as_slice())] {
        let dir = tempfile::tempdir().unwrap();
        for name in disk.names_with("") {
            std::fs::write(dir.path().join(&name), disk.content(&name)).unwrap();
        }
        let file = dir.path().join(name);
        let mut bytes = std::fs::read(&file).unwrap_or(header.to_vec());
        bytes[..header.len()].copy_from_slice(header);
        std::fs::write(&file, &bytes).unwrap();
        let journal = Journal::open_frozen(JournalConfig::new(dir.path())).unwrap();
        assert_eq!(all(&journal).await, entries);
        assert_eq!(mirror(&journal).await.len(), 5);
        journal.close().await;
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_refused_with_a_hint_and_left_alone() {
    let (disk, _) = filled().await;
    for name in disk.names_with("segment-") {
        let disk = copy(&disk);
        drop(disk.create("checkpoint-000000000099.part").unwrap());
        disk.edit(&name, |bytes| {
            bytes[8] = 9;
            let sum = crc32c::crc32c(&bytes[..20]);
            bytes[20..24].copy_from_slice(&sum.to_le_bytes());
        });
        let before: Vec<_> = disk
            .names_with("")
            .iter()
            .map(|name| disk.content(name))
            .collect();
        let refused = Journal::open_on(Arc::new(disk.clone()), config()).unwrap_err();
        let OpenError::Io { source, .. } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(source.kind(), io::ErrorKind::Unsupported);
        let hint =
            "is of format 9, and this version of Skopos knows up to 2: start the version that wrote it";
        assert!(source.to_string().contains(hint), "{source}");
        let after: Vec<_> = disk
            .names_with("")
            .iter()
            .map(|name| disk.content(name))
            .collect();
        assert_eq!(after, before);
    }
}
