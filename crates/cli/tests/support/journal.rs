//! A data directory with a journal, filled by a capture, with a clock that the test sets.

use std::{
    cell::Cell,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use skopos_journal::{Asked, Capture, CaptureConfig, Journal, JournalConfig, Log as _, Phase};
use skopos_object::{Collection, CollectionName, Collections, GroupVersionKind, ListWatch, OpenError};
use skopos_testkit::{ModelSource, object};
use tokio_util::sync::CancellationToken;

thread_local! {
    // All tasks of a story run on the thread of the test.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

/// What happens at a time, in seconds after 2026-01-01T00:00:00Z.
pub(crate) enum Step<'a> {
    /// An Application gets this specification, in YAML.
    Put(i64, &'a str, &'a str),
    /// An Application is deleted.
    Delete(i64, &'a str),
    /// Nobody looks, and the server forgets what happened, until this time.
    Away(i64, &'a [Step<'a>]),
}

fn now() -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + Duration::from_secs(NOW.get().unsigned_abs())
}

#[derive(Debug)]
struct One(ModelSource);

impl Collections for One {
    fn open<'a>(&'a self, _: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        Box::pin(std::future::ready(Ok(Collection {
            kind: GroupVersionKind::new("myapps.example.com", "v1", "Application"),
            plural: "applications".into(),
            singular: "application".into(),
            short_names: vec!["app".into()],
            namespaced: true,
            source: Arc::new(self.0.clone()) as Arc<dyn ListWatch>,
        })))
    }
}

/// Writes a story into the journal of a data directory.
pub(crate) fn record(data_dir: &Path, steps: &[Step<'_>]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let source = ModelSource::new();
    let mut head = 0;
    for part in steps.split_inclusive(|step| matches!(step, Step::Away(..))) {
        head = runtime.block_on(play(data_dir, &source, part, head));
    }
    if matches!(steps.last(), Some(Step::Away(..))) {
        runtime.block_on(play(data_dir, &source, &[], head));
    }
}

/// Opens the journal. A program that another test starts just now has all our files until it executes, locks included.
async fn open(data_dir: &Path) -> Journal {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Journal::open(JournalConfig::new(data_dir.join("journal"))) {
            Err(skopos_journal::OpenError::Locked { .. }) if Instant::now() < deadline => {
                tokio::task::yield_now().await;
            }
            opened => return opened.unwrap(),
        }
    }
}

/// Captures until the first absence, and what follows from it. Returns how much was written down.
async fn play(data_dir: &Path, source: &ModelSource, steps: &[Step<'_>], known: usize) -> usize {
    let journal = open(data_dir).await;
    let config = CaptureConfig {
        now,
        ..CaptureConfig::default()
    };
    let capture = Capture::new(journal.clone(), Arc::new(One(source.clone())), config);
    capture.ask(vec![Asked::from("applications.myapps.example.com")]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(capture.clone().run(stop.clone()));
    while !capture.status().iter().any(|one| one.phase == Phase::Watching) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut advanced = journal.advanced();
    let mut head = known.max(usize::try_from(journal.head().0).unwrap());
    let mut absence = None;
    for step in steps {
        if let Step::Away(until, missed) = step {
            absence = Some((*until, *missed));
            break;
        }
        act(source, step);
        head += 1;
        advanced.wait_for(|now| now.0 >= head as u64).await.unwrap();
    }
    stop.cancel();
    task.await.unwrap();
    journal.close().await;
    if let Some((until, missed)) = absence {
        missed.iter().for_each(|step| act(source, step));
        source.compact();
        NOW.set(until);
    }
    head
}

fn act(source: &ModelSource, step: &Step<'_>) {
    match step {
        Step::Put(at, key, spec) => {
            NOW.set(*at);
            let (namespace, name) = key.split_once('/').unwrap();
            source.put(&object(&format!(
                "{{apiVersion: myapps.example.com/v1, kind: Application, metadata: {{name: {name}, namespace: {namespace}}}, spec: {spec}}}"
            )));
        }
        Step::Delete(at, key) => {
            NOW.set(*at);
            let (namespace, name) = key.split_once('/').unwrap();
            source.delete(namespace, name);
        }
        Step::Away(..) => unreachable!("an absence within an absence"),
    }
}
