//! The journal on a server, in place of a disk.

use std::time::Duration;

use skopos_remote::{Blocks, JournalUrl, MemoryServer, Remote, RemoteConfig};
use skopos_testkit::parts::{Nats, Postgres, USER};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Asked, Capture, CaptureConfig, CommitError, Phase};

fn remote_config() -> RemoteConfig {
    RemoteConfig {
        block_bytes: 512,
        // Little, so that much is read from the server.
        cache_bytes: 4096,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(50),
        ..RemoteConfig::default()
    }
}

async fn open_remote(remote: &Remote) -> Journal {
    let disk = Arc::new(remote.disk());
    let opened = tokio::task::spawn_blocking(move || Journal::open_on(disk, config()));
    opened.await.unwrap().unwrap()
}

/// Takes over the journal of a server in memory, which may fail by chance.
pub(super) async fn on_server(server: &MemoryServer) -> Journal {
    loop {
        let blocks: Arc<dyn Blocks> = Arc::new(server.open());
        if let Ok(remote) = Remote::on(Box::pin(async { Ok(blocks) }), remote_config()).await {
            return open_remote(&remote).await;
        }
    }
}

#[tokio::test]
async fn a_journal_on_a_server_is_the_same_elsewhere_and_whoever_had_it_is_refused() {
    let server = MemoryServer::new(1);
    let first = on_server(&server).await;
    write(&first, 0, vec![Draft::Collection(about())]).await;
    for n in 0..100 {
        let made = widget(&format!("w{n}"), &format!("u{n}"), n + 1, n);
        write(&first, 1, vec![change(Op::Created, None, Some(&made))]).await;
    }
    let expect = all(&first).await;
    assert_eq!(expect.len(), 100);
    let second = on_server(&server).await;
    assert_eq!(all(&second).await, expect);
    let late = widget("late", "late", 1000, 1);
    let drafts = vec![change(Op::Created, None, Some(&late))];
    let refused = first
        .commit(Transaction {
            at: Timestamp::UNIX_EPOCH,
            drafts,
        })
        .await;
    let Err(CommitError::Failed(what)) = refused else {
        panic!("{refused:?}");
    };
    assert!(what.contains("another replica took over"), "{what}");
    first.close().await;
    second.close().await;
    assert_eq!(all(&on_server(&server).await).await, expect);
}

enum Server {
    Postgres(Postgres),
    Nats(Nats),
}

impl Server {
    fn url(&self) -> JournalUrl {
        let (user, password) = USER;
        let url = match self {
            Self::Postgres(server) => format!("postgres://{user}:{password}@{}/postgres", server.address()),
            Self::Nats(server) => format!("nats://{user}:{password}@{}", server.address()),
        };
        url.parse().unwrap()
    }

    async fn restart(&mut self) {
        match self {
            Self::Postgres(server) => {
                server.stop().await;
                server.start_again().await;
            }
            Self::Nats(server) => {
                server.stop().await;
                server.start_again().await;
            }
        }
    }

    async fn open(&self) -> Journal {
        open_remote(&Remote::open(&self.url(), remote_config()).await.unwrap()).await
    }
}

/// Changes are captured while the server goes away and comes back, and while another replica takes over.
async fn check_capture(mut server: Server) {
    let source = ModelSource::new();
    let mut journals = Vec::new();
    for round in 0..3 {
        let journal = server.open().await;
        let collections = Arc::new(One(Some(source.clone()).into()));
        let capture = Capture::new(journal.clone(), collections, CaptureConfig::default());
        capture.ask(vec![Asked::from("widgets.example.com")]);
        let stop = CancellationToken::new();
        let task = tokio::spawn(capture.clone().run(stop.clone()));
        while !matches!(capture.status().first(), Some(status) if status.phase == Phase::Watching) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for n in 0..60 {
            let name = format!("w{}", n % 20);
            source.put(&object(&format!(
                "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home}}, \
                 spec: {{size: {}}}}}",
                round * 100 + n
            )));
            if n == 30 {
                server.restart().await;
            }
        }
        while mirror(&journal).await != source.objects() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        journals.push((journal, stop, task));
    }
    // Each change is there once, although two replicas were cut off and went on watching.
    let journal = server.open().await;
    let entries = all(&journal).await;
    assert_eq!(entries.len(), 3 * 60);
    assert!(journal.holes().is_empty() && journal.damage().is_empty());
    let ids: std::collections::BTreeSet<String> =
        entries.iter().map(|entry| entry.id().to_string()).collect();
    assert_eq!(ids.len(), 3 * 60);
    for (_, stop, task) in journals {
        stop.cancel();
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_postgres_restarts_and_replicas_take_over() {
    check_capture(Server::Postgres(Postgres::start(None).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_nats_restarts_and_replicas_take_over() {
    check_capture(Server::Nats(Nats::start(None).await)).await;
}

/// What it costs: `cargo test --release -p skopos-journal cost -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn cost_of_commits_on_servers() {
    let servers = [
        Server::Postgres(Postgres::start(None).await),
        Server::Nats(Nats::start(None).await),
    ];
    let local = tempfile::tempdir().unwrap();
    measure(
        "directory",
        &Journal::open(JournalConfig::new(local.path())).unwrap(),
    )
    .await;
    for server in servers {
        let remote = Remote::open(&server.url(), RemoteConfig::default())
            .await
            .unwrap();
        let disk = Arc::new(remote.disk());
        let config = JournalConfig {
            segment_bytes: 16 << 20,
            ..JournalConfig::new("unused")
        };
        let opened = tokio::task::spawn_blocking(move || Journal::open_on(disk, config));
        measure(&server.url().to_string(), &opened.await.unwrap().unwrap()).await;
    }
}

#[expect(clippy::print_stdout, reason = "a measurement")]
async fn measure(name: &str, journal: &Journal) {
    write(journal, 0, vec![Draft::Collection(about())]).await;
    let draft = |n: u64| {
        change(
            Op::Created,
            None,
            Some(&widget(&format!("w{n}"), &format!("u{n}"), n + 1, n)),
        )
    };
    let mut times = Vec::new();
    for n in 0..1000 {
        let start = tokio::time::Instant::now();
        write(journal, 1, vec![draft(n)]).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let start = tokio::time::Instant::now();
    let all = (0..200_u64).map(|batch| {
        write(
            journal,
            2,
            (0..100).map(|n| draft(1000 + batch * 100 + n)).collect(),
        )
    });
    futures_util::future::join_all(all).await;
    let rate = 20_000.0 / start.elapsed().as_secs_f64();
    println!(
        "{name}: one by one p50 {:?} p99 {:?}; 20000 changes in batches of 100: {rate:.0}/s",
        times[500], times[990]
    );
}
