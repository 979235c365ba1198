//! The file itself: refused when it must be, and none the worse for a killed process.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use skopos_sink::{Destination, Event, Sent};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::kit::{MemoryLog, Recorder, When, plan, rule};
use crate::delivery::{Config, Error, PlannedSink, Reactor};

fn open(directory: &Path) -> Result<Reactor, Error> {
    Reactor::open(directory, MemoryLog::new())
}

/// A task that is stopped drops what it waits for, but a thread cannot be dropped: once the file was still in use when
/// the next reactor came.
#[tokio::test]
async fn a_reactor_that_has_stopped_uses_its_file_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let reactor = open(directory.path()).unwrap();
    let store = reactor.shared.store.clone();
    let (begun, begins) = oneshot::channel();
    let (go_on, waits) = oneshot::channel::<()>();
    let writing = store.write(move |_| {
        begun.send(()).unwrap();
        waits.blocking_recv().unwrap();
        Ok(())
    });
    tokio::select! {
        _ = writing => unreachable!("nobody lets it go on"),
        begun = begins => begun.unwrap(),
    }
    drop(store);
    let stop = CancellationToken::new();
    stop.cancel();
    let mut running = Box::pin(reactor.run(stop));
    let waited = tokio::time::timeout(Duration::from_millis(50), &mut running).await;
    assert!(waited.is_err(), "it did not wait for the thread");
    go_on.send(()).unwrap();
    running.await.unwrap();
    drop(reactor);
    open(directory.path()).unwrap();
}

#[tokio::test]
async fn a_directory_that_is_in_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _first = open(directory.path()).unwrap();
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("react.redb is in use: stop the other process"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_something_else_or_damaged_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("react.redb");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("cannot be used") && error.contains("move it away"),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    let other = redb::Database::create(&path).unwrap();
    let transaction = other.begin_write().unwrap();
    let table = redb::TableDefinition::<u64, u64>::new("recipes");
    transaction.open_table(table).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(other);
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("belongs to another program"), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_said() {
    let error = open(Path::new("/nowhere/at/all")).unwrap_err();
    assert_eq!(error.to_string(), "open /nowhere/at/all/react.redb");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("No such file or directory"), "{why}");
}

/// Prints what arrives, line by line, for the one who will kill this process.
#[derive(Debug)]
struct Printer;

impl Destination for Printer {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            let mut out = std::io::stdout().lock();
            for event in events {
                writeln!(out, "arrived {}", event.id).unwrap();
            }
            out.flush().unwrap();
            Sent::all(events)
        })
    }

    fn max_batch(&self) -> usize {
        16
    }
}

const DIRECTORY: &str = "SKOPOS_TEST_REACT_DIRECTORY";
const CHANGES: i64 = 20_000;

fn write_all(log: &MemoryLog) {
    for n in 0..CHANGES {
        log.set(&format!("w{}", n % 50), n);
    }
}

/// Not a test of its own: the process that is killed.
#[tokio::test]
async fn child_that_delivers_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let log = MemoryLog::new();
    let reactor = Reactor::open(Path::new(&directory), log.clone()).unwrap();
    let printer = PlannedSink {
        destination: Arc::new(Printer),
        delivery: skopos_api::Delivery::default(),
    };
    reactor.swap(plan([("r", rule("r", When::Always, &["s"]))], [("s", printer)]));
    let writer = async {
        while reactor.status().rules.is_empty() {
            tokio::task::yield_now().await;
        }
        write_all(&log);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = reactor.run(CancellationToken::new()) => ended.unwrap(),
        () = writer => {}
    }
}

#[tokio::test]
async fn a_process_that_is_killed_has_lost_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "delivery::tests::disk::child_that_delivers_until_it_is_killed",
        ])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut arrived: Vec<String> = Vec::new();
    while arrived.len() < 5000 {
        let line = lines
            .next()
            .expect("the child goes on until it is killed")
            .unwrap();
        arrived.extend(line.strip_prefix("arrived ").map(str::to_owned));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    arrived.extend(
        lines
            .map_while(Result::ok)
            .filter_map(|line| Some(line.strip_prefix("arrived ")?.to_owned())),
    );

    let log = MemoryLog::new();
    write_all(&log);
    let reactor = Reactor::open_with(directory.path(), log.clone(), Config::default()).unwrap();
    let sink = Recorder::new(16);
    reactor.swap(plan(
        [("r", rule("r", When::Always, &["s"]))],
        [("s", sink.planned())],
    ));
    let stop = CancellationToken::new();
    let until_all_arrived = async {
        while reactor.status().rules["r"].routes["s"].delivered < u64::try_from(CHANGES).unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(reactor.run(stop.clone()), until_all_arrived);
    ran.unwrap();
    let mut all = arrived;
    all.extend(sink.ids());
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|id| seen.insert(id.clone()));
    assert_eq!(all.len(), usize::try_from(CHANGES).unwrap());
    let mut last = std::collections::HashMap::new();
    for id in &all {
        let (object, version) = id.rsplit_once('.').unwrap();
        let version: u64 = version.parse().unwrap_or(0);
        let before = last.insert(object.to_owned(), version);
        assert!(
            before.is_none_or(|before| before < version),
            "{id} after {before:?}"
        );
    }
    assert!(sink.arrived().iter().all(|event| event.data != Bytes::new()));
}
