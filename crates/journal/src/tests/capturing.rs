//! What is written down when a collection is followed, resumed and listed anew.

use std::time::Duration;

use skopos_testkit::Data;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Asked, Capture, CaptureConfig, FieldPath, Phase, Selection, SelectionPart};

struct Stage {
    disk: SimDisk,
    source: ModelSource,
    collections: Arc<One>,
    redact: Vec<FieldPath>,
    selection: Selection,
    running: Option<(Journal, Capture, CancellationToken, JoinHandle<()>)>,
}

impl Stage {
    fn new() -> Self {
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

    fn start(&mut self) {
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

    async fn stop(&mut self) {
        let (journal, _, stop, task) = self.running.take().unwrap();
        stop.cancel();
        task.await.unwrap();
        journal.close().await;
    }

    fn journal(&self) -> &Journal {
        &self.running.as_ref().unwrap().0
    }

    fn put(&self, name: &str, size: u64) {
        self.source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home}}, spec: {{size: {size}}}}}"
        )));
    }

    /// What was written down, in short, once there is so much of it.
    async fn log(&self, n: usize) -> Vec<String> {
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
    async fn watching(&self) {
        let capture = &self.running.as_ref().unwrap().1;
        while !capture
            .status()
            .iter()
            .any(|status| status.phase == Phase::Watching)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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

/// Objects with a label, and those in a namespace.
fn selection(labels: &str, namespaces: &[&str]) -> Selection {
    let mut selection = Selection::nothing();
    selection.add(SelectionPart {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        labels: labels.parse().unwrap(),
    });
    selection
}

impl Stage {
    fn put_labelled(&self, name: &str, size: u64, labels: &str) {
        self.source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home, labels: {labels}}}, \
             spec: {{size: {size}}}}}"
        )));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_is_not_written_down() {
    let mut stage = Stage::new();
    stage.selection = selection("tier=gold", &[]);
    stage.put_labelled("gold", 1, "{tier: gold}");
    stage.put_labelled("other", 1, "{}");
    stage.start();
    stage.watching().await;
    stage.put_labelled("other", 2, "{}");
    stage.put_labelled("gold", 2, "{}");
    stage.put_labelled("gold", 3, "{}");
    stage.put_labelled("other", 3, "{tier: gold}");
    stage.source.delete("home", "gold");
    stage.put_labelled("gold", 4, "{}");
    stage.put_labelled("other", 4, "{tier: gold}");
    // It leaves as an update, is left alone meanwhile, and its end is told; what enters appears.
    let expected = [
        "+gold ->1 first",
        "~gold 1>2",
        "+other ->3",
        "-gold 3>-",
        "~other 3>4",
    ];
    assert_eq!(stage.log(5).await, expected);
    stage.stop().await;
    // The same after a restart that must list.
    stage.put_labelled("gold", 5, "{}");
    stage.put_labelled("other", 5, "{}");
    stage.source.compact();
    stage.start();
    assert_eq!(stage.log(6).await.split_off(5), ["~other 4>5 relist"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn asking_for_more_leaves_no_hole() {
    let mut stage = Stage::new();
    stage.selection = selection("tier=gold", &[]);
    stage.put_labelled("gold", 1, "{tier: gold}");
    stage.put_labelled("plain", 1, "{}");
    stage.start();
    stage.watching().await;
    stage.stop().await;
    // While nobody looks, so that the watch tells of it again afterwards.
    stage.put_labelled("plain", 2, "{}");
    stage.put_labelled("gold", 2, "{tier: gold}");
    stage.put_labelled("gold", 3, "{tier: gold}");
    stage.selection = selection("", &["home"]);
    stage.start();
    stage.watching().await;
    stage.put_labelled("plain", 3, "{}");
    let mut log = stage.log(5).await;
    log.sort();
    let expected = [
        "+gold ->1 first",
        "+plain ->2 first",
        "~gold 1>2",
        "~gold 2>3",
        "~plain 2>3",
    ];
    assert_eq!(log, expected);
    assert_eq!(stage.journal().holes(), []);
    stage.stop().await;
    // Narrowed and widened again: what happened outside meanwhile is one change.
    stage.selection = selection("tier=gold", &[]);
    stage.start();
    stage.watching().await;
    stage.put_labelled("plain", 4, "{}");
    stage.put_labelled("gold", 4, "{tier: gold}");
    stage.log(6).await;
    stage.stop().await;
    stage.selection = Selection::Everything;
    stage.start();
    stage.watching().await;
    stage.put_labelled("plain", 5, "{}");
    assert_eq!(stage.log(7).await.split_off(5), ["~gold 3>4", "~plain 3>5"]);
    stage.stop().await;
}
