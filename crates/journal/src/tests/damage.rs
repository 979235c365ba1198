//! What is damaged on disk, and what is not lost with it.

use skopos_disk::{Disk as _, SimDisk};

use super::{keeping::fill, *};
use crate::{Limits, ReadError, Retention};

#[tokio::test]
async fn damage_is_reported_and_the_rest_stays_readable() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 5, 20).await;
    let entries = all(&journal).await;
    journal.close().await;
    let names = disk.names_with("segment-");
    for name in &names[..names.len() - 1] {
        let damaged = disk.crashed(|unsynced| unsynced);
        let len = damaged.content(name).len();
        damaged.edit(name, |bytes| bytes[len / 2] ^= 0x40);
        let journal = open(&damaged);
        let mut found = Vec::new();
        let mut after = Seq(0);
        let mut lost = 0;
        while after < journal.head() {
            match journal.read(after, &Wanted::default(), 100).await {
                Ok((some, looked)) => {
                    found.extend(some);
                    after = looked;
                }
                Err(ReadError::Damaged { seq, to, .. }) => {
                    lost += to.0 + 1 - seq.0;
                    after = to;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(found.len() as u64 + lost, entries.len() as u64, "{name}");
        assert!(lost <= 2, "{name}: {lost}");
        assert!(lost == 0 || !journal.damage().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_damaged_checkpoint_or_index_is_made_anew() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 5, 20).await;
    let (entries, objects) = (all(&journal).await, mirror(&journal).await);
    journal.close().await;
    for prefix in ["checkpoint-", "index-"] {
        for name in disk.names_with(prefix) {
            disk.edit(&name, |bytes| bytes[20] ^= 1);
        }
    }
    let journal = open(&disk);
    assert_eq!(all(&journal).await, entries);
    assert_eq!(mirror(&journal).await, objects);
}

/// The keys of an index are only looked at when an object is looked up, long after the start.
#[tokio::test]
async fn an_object_is_found_without_the_index() {
    let wanted = Wanted {
        namespace: Some("home".into()),
        name: Some("w3".into()),
        ..Wanted::default()
    };
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 5, 20).await;
    let entries = read(&journal, &wanted).await;
    assert_eq!(entries.len(), 21);
    journal.close().await;
    let spoil: [fn(&mut Vec<u8>); 4] = [
        |bytes| *bytes.last_mut().unwrap() ^= 1,
        |bytes| bytes.truncate(bytes.len() - 20),
        |bytes| bytes.truncate(3),
        |bytes| bytes[30] ^= 1,
    ];
    for spoil in spoil {
        let disk = disk.crashed(|unsynced| unsynced);
        let journal = open(&disk);
        for name in disk.names_with("index-") {
            disk.edit(&name, spoil);
        }
        assert_eq!(read(&journal, &wanted).await, entries);
    }
    let journal = open(&disk);
    for name in disk.names_with("index-") {
        disk.remove(&name).unwrap();
    }
    assert_eq!(read(&journal, &wanted).await, entries);
}

/// Its checksum is right, and yet it makes no sense: whoever waits for it to become better waits for ever.
#[tokio::test]
async fn a_change_that_makes_no_sense_is_damage_and_not_trouble() {
    let journal = open(&SimDisk::default());
    fill(&journal, 2, 1).await;
    let Draft::Change(meta, _) = change(Op::Updated, None, Some(&widget("w0", "u0", 9, 9))) else {
        unreachable!("a change was made");
    };
    let nonsense = Bodies::pack(None, Some(b"not an object"));
    write(&journal, 5, vec![Draft::Change(meta, nonsense)]).await;
    write(
        &journal,
        6,
        vec![change(Op::Created, None, Some(&widget("w2", "u2", 10, 1)))],
    )
    .await;
    let everything = Wanted::default();
    let (before, looked) = journal.read(Seq(0), &everything, 100).await.unwrap();
    assert_eq!((before.len(), looked), (4, Seq(4)));
    let damaged = journal.read(looked, &everything, 100).await;
    assert!(
        matches!(
            damaged,
            Err(ReadError::Damaged {
                seq: Seq(5),
                to: Seq(5),
                ..
            })
        ),
        "{damaged:?}"
    );
    let (after, _) = journal.read(Seq(5), &everything, 100).await.unwrap();
    assert_eq!(after.len(), 1);
    let one = Wanted {
        namespace: Some("home".into()),
        name: Some("w0".into()),
        ..Wanted::default()
    };
    assert_eq!(read(&journal, &one).await.len(), 2);
    assert_eq!(journal.damage().len(), 1);
}

/// What cannot be read cannot be thinned out; it goes when it is the oldest and all of it is old.
#[tokio::test]
async fn damage_does_not_keep_old_changes_from_going() {
    let disk = SimDisk::default();
    let journal = open(&disk);
    fill(&journal, 3, 80).await;
    let objects = mirror(&journal).await;
    journal.close().await;
    let names = disk.names_with("segment-");
    let spoil: [fn(&mut Vec<u8>); 2] = [
        |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
        },
        |bytes| bytes.fill(b'x'),
    ];
    for (name, spoil) in names[..3]
        .iter()
        .flat_map(|name| spoil.map(|spoil| (name, spoil)))
    {
        let disk = disk.crashed(|unsynced| unsynced);
        disk.edit(name, spoil);
        let journal = open(&disk);
        for limits in [
            Limits::default(),
            Limits {
                max_changes: Some(20),
                ..Limits::default()
            },
        ] {
            assert!(
                disk.names_with("segment-").contains(name),
                "{name}: it is not old"
            );
            journal.set_retention(Retention {
                default: limits,
                ..Retention::default()
            });
            for _ in 0..20 {
                journal.retain(Timestamp::from_second(1000).unwrap()).await;
            }
            write(&journal, 1000, vec![]).await;
        }
        let n_kept = all(&journal).await.len();
        assert!((20..60).contains(&n_kept), "{name}: {n_kept}");
        assert!(!disk.names_with("segment-").contains(name), "{name}");
        assert_eq!(mirror(&journal).await, objects, "{name}");
        journal.close().await;
    }
}
