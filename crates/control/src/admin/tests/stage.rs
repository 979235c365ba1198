//! A journal that was filled by a capture, with a clock that the test sets.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use skopos_journal::{Asked, Capture, CaptureConfig, Journal, JournalConfig, Log as _, Phase};
use skopos_object::{Collection, CollectionName, Collections, GroupVersionKind, ListWatch, OpenError};
use skopos_testkit::{ModelSource, object};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Admin;

thread_local! {
    // Tests run their tasks on their own thread.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

/// So many seconds after the beginning of the epoch.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn now() -> Timestamp {
    at(NOW.get())
}

#[derive(Debug)]
struct One(ModelSource);

impl Collections for One {
    fn open<'a>(&'a self, _: &'a CollectionName) -> BoxFuture<'a, Result<Collection, OpenError>> {
        Box::pin(std::future::ready(Ok(Collection {
            kind: GroupVersionKind::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: vec!["wd".into()],
            namespaced: true,
            source: Arc::new(self.0.clone()) as Arc<dyn ListWatch>,
        })))
    }
}

pub(super) struct Stage {
    pub(super) source: ModelSource,
    dir: tempfile::TempDir,
    running: Option<(Journal, Capture, CancellationToken, JoinHandle<()>)>,
}

impl Stage {
    pub(super) async fn start() -> Self {
        let mut stage = Self {
            source: ModelSource::new(),
            dir: tempfile::tempdir().unwrap(),
            running: None,
        };
        stage.go_on().await;
        stage
    }

    pub(super) fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(super) async fn go_on(&mut self) {
        let journal = Journal::open(JournalConfig::new(self.dir.path().join("journal"))).unwrap();
        let config = CaptureConfig {
            now,
            ..CaptureConfig::default()
        };
        let capture = Capture::new(journal.clone(), Arc::new(One(self.source.clone())), config);
        capture.ask(vec![Asked::from("widgets.example.com")]);
        let stop = CancellationToken::new();
        let task = tokio::spawn(capture.clone().run(stop.clone()));
        while !capture.status().iter().any(|one| one.phase == Phase::Watching) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.running = Some((journal, capture, stop, task));
    }

    pub(super) async fn stop(&mut self) {
        let (journal, _, stop, task) = self.running.take().unwrap();
        stop.cancel();
        task.await.unwrap();
        journal.close().await;
    }

    pub(super) fn clock(&self, second: i64) {
        NOW.set(second);
    }

    /// Writes an object at a time, and waits until that is written down.
    pub(super) async fn put(&self, second: i64, key: &str, size: u64) {
        self.clock(second);
        let (namespace, name) = key.split_once('/').unwrap();
        let head = self.journal().head();
        self.source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{size: {size}}}}}"
        )));
        self.advanced(head.0 + 1).await;
    }

    pub(super) async fn delete(&self, second: i64, key: &str) {
        self.clock(second);
        let (namespace, name) = key.split_once('/').unwrap();
        let head = self.journal().head();
        self.source.delete(namespace, name);
        self.advanced(head.0 + 1).await;
    }

    pub(super) async fn advanced(&self, head: u64) {
        let mut advanced = self.journal().advanced();
        advanced.wait_for(|now| now.0 >= head).await.unwrap();
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.running.as_ref().unwrap().0
    }

    pub(super) fn admin(&self) -> Admin {
        let (journal, capture, ..) = self.running.as_ref().unwrap();
        Admin::new(journal.clone()).with_capture(capture.clone())
    }
}
