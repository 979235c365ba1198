//! What is written down when a collection is followed, resumed and listed anew.

use std::time::Duration;

use skopos_testkit::{Data, Fault, Rule};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Asked, Capture, CaptureConfig, FieldPath, Phase, Selection};

pub(super) struct Stage {
    disk: SimDisk,
    pub(super) source: ModelSource,
    collections: Arc<One>,
    redact: Vec<FieldPath>,
    pub(super) selection: Selection,
    running: Option<(Journal, Capture, CancellationToken, JoinHandle<()>)>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let source = ModelSource::new();
        Self {
            disk: SimDisk::default(),
            collections: Arc::new(One(Some(source.clone()).into())),
            source,
            redact: Vec::new(),
            selection: Selection::Everything,
            running: None,
        }
    }

    pub(super) fn start(&mut self) {
        let journal = open(&self.disk);
        let capture = Capture::new(
            journal.clone(),
            self.collections.clone(),
            CaptureConfig::default(),
        );
        capture.ask(vec![Asked {
            redact: self.redact.clone(),
            selection: self.selection.clone(),
            ..Asked::from("widgets.example.com")
        }]);
        let stop = CancellationToken::new();
        let task = tokio::spawn(capture.clone().run(stop.clone()));
        self.running = Some((journal, capture, stop, task));
    }

    pub(super) async fn stop(&mut self) {
        let (journal, _, stop, task) = self.running.take().unwrap();
        stop.cancel();
        task.await.unwrap();
        journal.close().await;
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.running.as_ref().unwrap().0
    }

    pub(super) fn put(&self, name: &str, size: u64) {
        self.source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home}}, spec: {{size: {size}}}}}"
        )));
    }

    /// What was written down, in short, once there is so much of it.
    pub(super) async fn log(&self, n: usize) -> Vec<String> {
        let mut advanced = self.journal().advanced();
        let enough = advanced.wait_for(|head| head.0 >= n as u64);
        let enough = tokio::time::timeout(Duration::from_secs(600), enough)
            .await
            .is_ok();
        let short = |entry: &Entry| {
            let op = match entry.op {
                Op::Created => "+",
                Op::Updated => "~",
                Op::Deleted => "-",
            };
            let observed = match entry.observed {
                Observed::Live | Observed::Resumed => "",
                Observed::First => " first",
                Observed::Relist { .. } => " relist",
            };
            let size = |object: &Option<Object>| match object {
                Some(object) => object.get(&["spec", "size"]).unwrap().to_string(),
                None => "-".into(),
            };
            format!(
                "{op}{} {}>{}{observed}",
                entry.key.name,
                size(&entry.before),
                size(&entry.after)
            )
        };
        let log: Vec<String> = all(self.journal()).await.iter().map(short).collect();
        let status = self.running.as_ref().unwrap().1.status();
        assert!(enough, "fewer than {n} changes: {log:?}, {status:?}");
        log
    }

    /// Waits until lists are complete.
    pub(super) async fn watching(&self) {
        let capture = &self.running.as_ref().unwrap().1;
        while !capture
            .status()
            .iter()
            .any(|status| status.phase == Phase::Watching)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the capture is as it should be.
    async fn until(&self, is_so: impl Fn(&crate::CaptureStatus) -> bool) -> crate::CaptureStatus {
        let capture = &self.running.as_ref().unwrap().1;
        for _ in 0..600_000 {
            if let Some(status) = capture.status().into_iter().find(&is_so) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never so: {:?}", capture.status());
    }

    /// Waits until there is a hole, and says why.
    async fn reason(&self) -> String {
        loop {
            if let Some(hole) = self.journal().holes().pop() {
                return hole.reason;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_a_kind_are_kept_and_a_journal_of_before_gets_them() {
    let mut stage = Stage::new();
    let journal = open(&stage.disk);
    let nameless = About {
        singular: String::new(),
        short_names: Vec::new(),
        ..about()
    };
    let transaction = Transaction {
        at: Timestamp::UNIX_EPOCH,
        drafts: vec![Draft::Collection(nameless)],
    };
    journal.commit(transaction).await.unwrap();
    let names = |journal: &Journal| -> Vec<Vec<String>> {
        let captured = journal.collections().into_iter();
        captured.map(|one| one.short_names).collect()
    };
    assert_eq!(names(&journal), [[""; 0]]);
    journal.close().await;
    stage.start();
    stage.watching().await;
    assert_eq!(names(stage.journal()), [["wd"]]);
    stage.stop().await;
    assert_eq!(names(&open(&stage.disk)), [["wd"]]);
}

#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_told_from_what_happens() {
    let mut stage = Stage::new();
    stage.put("old", 1);
    stage.start();
    assert_eq!(stage.log(1).await, ["+old ->1 first"]);
    stage.put("old", 2);
    stage.put("new", 1);
    stage.source.delete("home", "old");
    assert_eq!(stage.log(4).await[1..], ["~old 1>2", "+new ->1", "-old 2>-"]);
    assert!(stage.journal().holes().is_empty());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_wrote_is_told_of_each_change_also_after_a_restart() {
    let mut stage = Stage::new();
    let put = |stage: &Stage, size: u64, notes: &[(&str, u32)]| {
        let notes = notes.iter().map(|(manager, second)| {
            format!("{{manager: {manager}, operation: Update, time: '2026-01-01T00:00:{second:02}Z', fieldsV1: {{'f:spec': {{}}}}}}")
        });
        let notes = notes.collect::<Vec<_>>().join(", ");
        stage.source.put(&object(&format!(
            "{{metadata: {{name: a, namespace: home, managedFields: [{notes}]}}, spec: {{size: {size}}}}}"
        )));
    };
    stage.start();
    stage.watching().await;
    put(&stage, 1, &[("ada", 1)]);
    put(&stage, 2, &[("ada", 2)]);
    stage.log(2).await;
    stage.stop().await;
    stage.start();
    put(&stage, 3, &[("ada", 2), ("bob", 2)]);
    put(&stage, 4, &[("ada", 2), ("bob", 2)]);
    stage.log(4).await;
    let entries = all(stage.journal()).await;
    let by: Vec<Vec<_>> = entries
        .iter()
        .map(|entry| entry.by.iter().map(|writer| writer.manager.as_str()).collect())
        .collect();
    assert_eq!(by, [vec!["ada"], vec!["ada"], vec!["bob"], vec![]]);
    let kept = entries.iter().filter_map(Entry::object);
    assert!(
        kept.into_iter()
            .all(|object| object.raw(&["metadata", "managedFields"]).is_none())
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goes_on_exactly_where_it_stopped() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.watching().await;
    stage.stop().await;
    stage.put("a", 2);
    stage.put("a", 3);
    stage.source.delete("home", "a");
    stage.start();
    assert_eq!(stage.log(4).await, ["+a ->1 first", "~a 1>2", "~a 2>3", "-a 3>-"]);
    assert!(stage.journal().holes().is_empty());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletions_while_away_are_found_with_the_last_known_object() {
    let mut stage = Stage::new();
    for name in ["gone", "kept", "again"] {
        stage.put(name, 1);
    }
    stage.start();
    stage.log(3).await;
    stage.watching().await;
    stage.stop().await;
    stage.source.delete("home", "gone");
    stage.put("kept", 2);
    stage.source.delete("home", "again");
    stage.put("again", 7);
    stage.put("new", 1);
    stage.source.compact();
    stage.start();
    let mut log = stage.log(8).await.split_off(3);
    log.sort();
    let expected = [
        "+again ->7 relist",
        "+new ->1 relist",
        "-again 1>- relist",
        "-gone 1>- relist",
        "~kept 1>2 relist",
    ];
    assert_eq!(log, expected);
    assert_eq!(stage.reason().await, "expired");
    let holes = stage.journal().holes();
    assert_eq!(holes.len(), 1);
    assert_eq!((holes[0].reason.as_str(), holes[0].seq), ("expired", Seq(4)));
    assert_eq!(mirror(stage.journal()).await, stage.source.objects());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_lost_its_data_is_noticed() {
    let mut stage = Stage::new();
    for i in 0..5 {
        stage.put(&format!("w{i}"), 1);
    }
    stage.start();
    stage.log(5).await;
    stage.watching().await;
    stage.stop().await;
    stage.source.restart(Data::Lost);
    stage.put("w0", 9);
    stage.start();
    assert_eq!(stage.log(11).await.len(), 11);
    assert_eq!(mirror(stage.journal()).await, stage.source.objects());
    assert_eq!(stage.reason().await, "other_history");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_gone_takes_its_objects_with_it() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.stop().await;
    *stage.collections.0.lock().unwrap() = None;
    stage.start();
    assert_eq!(stage.log(2).await[1..], ["-a 1>- relist"]);
    let status = stage.running.as_ref().unwrap().1.status();
    assert!(matches!(status[0].phase, Phase::NotServed(_)), "{status:?}");
    stage.stop().await;
}

/// Its objects were written down before somebody asked for a field to be left out.
#[tokio::test(start_paused = true)]
async fn what_is_redacted_now_is_so_in_the_deletions_of_a_kind_that_is_gone() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.stop().await;
    *stage.collections.0.lock().unwrap() = None;
    stage.redact = vec![FieldPath::parse("spec.size").unwrap()];
    stage.start();
    assert_eq!(stage.log(2).await[1..], [r#"-a "[redacted]">- relist"#]);
    stage.stop().await;
}

/// What happened to the objects before the kind went is not known.
#[tokio::test(start_paused = true)]
async fn a_kind_that_went_while_away_leaves_a_hole() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.watching().await;
    stage.stop().await;
    *stage.collections.0.lock().unwrap() = None;
    stage.start();
    stage.log(2).await;
    let holes = stage.journal().holes();
    let [hole] = &holes[..] else {
        panic!("{holes:?}");
    };
    assert_eq!((&*hole.reason, hole.seq), ("kind_gone", Seq(2)));
    assert!(hole.from <= hole.to, "{hole:?}");
    stage.stop().await;
    stage.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.journal().holes().len(), 1, "told once");
    stage.stop().await;
}

/// Finds a collection but for the first time, when it panics.
#[derive(Debug)]
struct PanicsOnce(std::sync::atomic::AtomicBool, Arc<One>);

impl Collections for PanicsOnce {
    fn open<'a>(&'a self, name: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        let is_first = !self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move {
            assert!(!is_first, "for the test");
            self.1.open(name).await
        })
    }
}

/// Otherwise nobody would notice that changes of a kind are missed.
#[tokio::test(start_paused = true)]
async fn a_panic_does_not_end_the_capture_of_a_kind() {
    let stage = Stage::new();
    stage.put("a", 1);
    let journal = open(&stage.disk);
    let collections = PanicsOnce(false.into(), stage.collections.clone());
    let capture = Capture::new(journal.clone(), Arc::new(collections), CaptureConfig::default());
    capture.ask(vec!["widgets.example.com".into()]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(capture.run(stop.clone()));
    let mut advanced = journal.advanced();
    let captured = advanced.wait_for(|head| *head == Seq(1));
    // What it gives back would hold up who writes.
    let captured = tokio::time::timeout(Duration::from_secs(600), captured)
        .await
        .is_ok();
    assert!(captured, "never captured");
    stop.cancel();
    task.await.unwrap();
    journal.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_may_come_later() {
    let mut stage = Stage::new();
    *stage.collections.0.lock().unwrap() = None;
    stage.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    stage.put("a", 1);
    *stage.collections.0.lock().unwrap() = Some(stage.source.clone());
    assert_eq!(stage.log(1).await, ["+a ->1 first"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_pauses_and_loses_nothing() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.disk.set(skopos_disk::Faults {
        space: Some(0),
        ..skopos_disk::Faults::default()
    });
    for size in 2..50 {
        stage.put("a", size);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let status = stage.running.as_ref().unwrap().1.status();
    assert!(matches!(status[0].phase, Phase::Paused(_)), "{status:?}");
    assert_eq!(stage.journal().head(), Seq(1));
    stage.disk.set(skopos_disk::Faults::default());
    let log = stage.log(49).await;
    assert_eq!(log.last().unwrap(), "~a 48>49");
    assert!(stage.journal().holes().is_empty());
    stage.stop().await;
}

/// A quiet collection writes nothing but how far it is known.
#[tokio::test(start_paused = true)]
async fn a_quiet_collection_is_no_longer_paused_once_there_is_room() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.watching().await;
    stage.disk.set(skopos_disk::Faults {
        space: Some(0),
        ..skopos_disk::Faults::default()
    });
    stage
        .until(|status| matches!(status.phase, Phase::Paused(_)))
        .await;
    stage.disk.set(skopos_disk::Faults::default());
    // Soon, and not only when the watch is opened anew.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = stage.running.as_ref().unwrap().1.status();
    assert_eq!(status[0].phase, Phase::Watching);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_in_a_list_is_not_taken_for_gone() {
    let mut stage = Stage::new();
    for name in ["a", "b", "c"] {
        stage.put(name, 1);
    }
    stage.start();
    stage.log(3).await;
    stage.watching().await;
    stage.stop().await;
    stage.source.delete("home", "b");
    stage.source.compact();
    let fault = stage
        .source
        .faults()
        .add(Rule::any().then(Fault::Malformed { nth: 0 }));
    stage.start();
    assert_eq!(stage.log(4).await[3..], ["-b 1>- relist"]);
    let status = stage
        .until(|status| status.phase == Phase::Watching && status.n_malformed > 0)
        .await;
    assert_eq!(
        Vec::from_iter(status.unreadable),
        [ObjectKey::namespaced("home", "a")]
    );
    fault.remove();
    stage.source.faults().cut_open_streams();
    stage.put("a", 2);
    assert_eq!(stage.log(5).await[4..], ["~a 1>2"]);
    stage.until(|status| status.unreadable.is_empty()).await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_with_something_nameless_says_of_nothing_that_it_is_gone() {
    let mut stage = Stage::new();
    for name in ["a", "b"] {
        stage.put(name, 1);
    }
    stage.start();
    stage.log(2).await;
    stage.watching().await;
    stage.stop().await;
    stage.put("c", 1);
    stage.source.compact();
    // The first event is one of the list; which object it is about cannot be told.
    let garbled = Rule::watch().nth(2).then(Fault::Garbled { nth: 0 });
    let fault = stage.source.faults().add(garbled);
    stage.start();
    stage.until(|status| status.phase == Phase::Watching).await;
    assert_eq!(fault.injected(), 1);
    let log = stage.log(3).await;
    assert!(!log.iter().any(|change| change.starts_with('-')), "{log:?}");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_read_is_one() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.watching().await;
    stage.stop().await;
    stage.source.delete("home", "a");
    let malformed = Rule::watch().then(Fault::Malformed { nth: 0 });
    stage.source.faults().add(malformed);
    stage.start();
    assert_eq!(stage.log(2).await[1..], ["-a 1>-"]);
    stage.stop().await;
}

/// Lists were once counted anew by each who followed the collection: then the objects of the first list counted as those
/// of the first list of the next one, and what was gone stayed.
#[tokio::test(start_paused = true)]
async fn deletions_are_found_by_who_follows_a_collection_again() {
    let mut stage = Stage::new();
    for name in ["gone", "kept"] {
        stage.put(name, 1);
    }
    stage.start();
    stage.log(2).await;
    stage.watching().await;
    let capture = stage.running.as_ref().unwrap().1.clone();
    capture.ask(Vec::new());
    while !capture.status().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.source.delete("home", "gone");
    stage.source.compact();
    capture.ask(vec![Asked::from("widgets.example.com")]);
    assert_eq!(stage.log(3).await[2..], ["-gone 1>- relist"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_left_out_is_not_told_as_the_state_before_either() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.put("b", 1);
    stage.start();
    stage.log(2).await;
    stage.watching().await;
    stage.stop().await;
    stage.redact = vec![FieldPath::parse("spec.size").unwrap()];
    stage.put("a", 2);
    stage.source.delete("home", "b");
    stage.source.compact();
    stage.start();
    let hidden = r#""[redacted]""#;
    let expected = [
        format!("~a {hidden}>{hidden} relist"),
        format!("-b {hidden}>- relist"),
    ];
    assert_eq!(stage.log(4).await[2..], expected);
    stage.stop().await;
}
