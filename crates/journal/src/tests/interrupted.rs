//! The machine goes down at each step of what changes files.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Mutex,
};

use skopos_disk::{Disk, DiskFile, ReadAt, SimDisk};

use super::{keeping::fill, *};
use crate::{Limits, Retention};

/// A disk that remembers what it was before each step, as a crash would leave it.
#[derive(Clone, Debug, Default)]
struct Steps {
    disk: SimDisk,
    before: Arc<Mutex<Vec<(String, SimDisk)>>>,
}

impl Steps {
    fn note(&self, step: String) {
        self.before.lock().unwrap().push((step, self.disk.crashed(|_| 0)));
    }
}

impl Disk for Steps {
    fn path(&self) -> PathBuf {
        self.disk.path()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        self.disk.read(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.note(format!("create {name}"));
        self.disk.create(name)
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.append(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.note(format!("rename {from} to {to}"));
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.note(format!("remove {name}"));
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.note("sync names".into());
        self.disk.sync_names()
    }
}

/// Removes what is beyond so many changes, and checks what a crash at each step leaves.
async fn check_thinning_out(steps: &Steps, max_changes: u64) {
    let journal = Journal::open_on(Arc::new(steps.clone()), config()).unwrap();
    let (objects, head) = (mirror(&journal).await, journal.head());
    let default = Limits {
        max_changes: Some(max_changes),
        ..Limits::default()
    };
    journal.set_retention(Retention {
        default,
        ..Retention::default()
    });
    for _ in 0..10 {
        journal.retain(Timestamp::from_second(1000).unwrap()).await;
    }
    write(&journal, 1000, vec![]).await;
    let kept = all(&journal).await;
    let before = std::mem::take(&mut *steps.before.lock().unwrap());
    assert!(before.iter().any(|(step, _)| step.starts_with("remove segment-")));
    for (step, disk) in before {
        let journal = open(&disk);
        assert_eq!(mirror(&journal).await, objects, "before: {step}");
        assert_eq!(journal.head(), head, "before: {step}");
        assert_eq!(journal.damage(), [], "before: {step}");
        let found = all(&journal).await;
        assert!(found.ends_with(&kept[kept.len() - 10..]), "before: {step}");
        journal.close().await;
    }
}

#[tokio::test]
async fn thinning_out_may_stop_at_any_step() {
    let steps = Steps::default();
    let journal = open(&steps.disk);
    fill(&journal, 3, 40).await;
    for name in ["w0", "w1"] {
        let last = widget(name, &name.replace('w', "u"), 200, 1);
        write(&journal, 130, vec![change(Op::Deleted, Some(&last), None)]).await;
    }
    let quiet = widget("quiet", "quiet", 1000, 1);
    write(&journal, 131, vec![change(Op::Created, None, Some(&quiet))]).await;
    journal.close().await;
    check_thinning_out(&steps, 20).await;
}

/// An old checkpoint is the newest after a time without room for others. With the segment gone that tells of a deletion, it
/// would bring the object back.
#[tokio::test]
async fn an_object_does_not_come_back_with_an_old_checkpoint() {
    let steps = Steps::default();
    let disk = &steps.disk;
    let journal = open(disk);
    write(&journal, 0, vec![Draft::Collection(about())]).await;
    let ghost = widget("ghost", "ghost", 1, 1);
    write(&journal, 0, vec![change(Op::Created, None, Some(&ghost))]).await;
    fill(&journal, 3, 3).await;
    journal.close().await;
    let checkpoint = disk.names_with("checkpoint-").pop().unwrap();
    let content = disk.content(&checkpoint);
    let journal = open(disk);
    write(&journal, 20, vec![change(Op::Deleted, Some(&ghost), None)]).await;
    fill(&journal, 3, 40).await;
    journal.close().await;
    for name in disk.names_with("checkpoint-") {
        disk.remove(&name).unwrap();
    }
    drop(disk.create(&checkpoint).unwrap());
    disk.edit(&checkpoint, |bytes| *bytes = content);
    check_thinning_out(&steps, 20).await;
}
