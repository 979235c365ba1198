//! Servers that are killed while another one takes their place, and servers that lose something then.

use std::{fs, path::Path, sync::Arc, time::Duration};

use async_nats::{ConnectOptions, jetstream};
use skopos_disk::{Disk as _, write_all};
use skopos_remote::{Blocks, BlocksError, JournalUrl, NatsBlocks, OpenError, PostgresBlocks, Remote};
use skopos_testkit::parts::{Nats, Postgres, USER};
use tokio::time::Instant;

use crate::support::{block, config, content, is_taken_over, on_thread, texts};

/// A server that is not there within this time never will be.
const PATIENCE: Duration = Duration::from_secs(120);

fn url(scheme: &str, addresses: &[String], rest: &str) -> JournalUrl {
    let ((user, password), addresses) = (USER, addresses.join(","));
    format!("{scheme}://{user}:{password}@{addresses}{rest}")
        .parse()
        .unwrap()
}

fn postgres_url(servers: &[&Postgres]) -> JournalUrl {
    let addresses: Vec<_> = servers.iter().map(|server| server.address()).collect();
    url("postgres", &addresses, "/postgres")
}

fn nats_url(servers: &[Nats], options: &str) -> JournalUrl {
    let addresses: Vec<_> = servers.iter().map(Nats::address).collect();
    url("nats", &addresses, options)
}

/// Asks until the server is there: a cluster that has just started, or has just lost one of its own, may need some
/// attempts.
async fn persist<T>(asks: impl AsyncFn() -> Result<T, BlocksError>) -> Result<T, BlocksError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match asks().await {
            Err(BlocksError::Unavailable(why)) => {
                assert!(Instant::now() < deadline, "it never came: {why}");
                tokio::task::yield_now().await;
            }
            outcome => return outcome,
        }
    }
}

async fn open(url: &JournalUrl) -> Arc<dyn Blocks> {
    let opened = persist(async || {
        let blocks: Arc<dyn Blocks> = match url {
            JournalUrl::Postgres(server) => Arc::new(PostgresBlocks::open(server).await?),
            JournalUrl::Nats(server) => Arc::new(NatsBlocks::open(server).await?),
        };
        Ok(blocks)
    });
    opened.await.unwrap()
}

async fn remote(url: &JournalUrl) -> Remote {
    let opened = persist(async || match Remote::open(url, config()).await {
        Err(OpenError::Server(error)) => Err(error),
        opened => Ok(opened.unwrap()),
    });
    opened.await.unwrap()
}

/// Writes lines, while something else happens after some of them.
async fn write_lines(remote: Remote, happens: impl Future<Output = ()>) {
    let (disk, (told, mut heard)) = (remote.disk(), tokio::sync::mpsc::channel(100));
    let writing = tokio::task::spawn_blocking(move || {
        let mut file = disk.create("f").unwrap();
        for n in 0..200 {
            write_all(&mut *file, format!("{n:050}\n").as_bytes()).unwrap();
            file.sync().unwrap();
            told.blocking_send(n).unwrap();
        }
    });
    while heard.recv().await != Some(20) {}
    happens.await;
    while heard.recv().await.is_some() {}
    writing.await.unwrap();
}

/// The lines are all there, once, and whoever was taken over before can write nothing.
async fn check_lines(url: &JournalUrl, taken_over: &dyn Blocks) {
    let late = [block(1, 0, "late")];
    let refused = persist(async || taken_over.put(&late).await).await;
    assert!(is_taken_over(&refused), "{refused:?}");
    let disk = remote(url).await.disk();
    let lines = on_thread(move || String::from_utf8(content(&disk, "f")).unwrap()).await;
    let expect: Vec<String> = (0..200).map(|n| format!("{n:050}")).collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_to_postgres_goes_on_at_the_standby_once_it_is_promoted() {
    let mut primary = Postgres::start_with(None, &["synchronous_standby_names=*"]).await;
    let standby = primary.start_standby().await;
    // The standby first: it is asked, and passed over while it cannot be written.
    let url = postgres_url(&[&standby, &primary]);
    let before = open(&url).await;
    before.put(&[block(1, 0, "before")]).await.unwrap();
    write_lines(remote(&url).await, async {
        primary.kill().await;
        standby.promote().await;
    })
    .await;
    check_lines(&url, &*before).await;
}

/// Writes a second block.
async fn put(blocks: &dyn Blocks, text: &str) -> Result<(), BlocksError> {
    let second = [block(1, 1, text)];
    persist(async || blocks.put(&second).await).await
}

/// Nobody writes or reads on where the second block is missing, but whoever opens anew finds what is there.
async fn check_went_back(url: &JournalUrl, blocks: Arc<dyn Blocks>) {
    let lost = put(&*blocks, "three").await;
    assert!(matches!(lost, Err(BlocksError::WentBack(_))), "{lost:?}");
    let next = open(url).await;
    assert_eq!(texts(&*next, 1, 2).await, ["one", ""]);
    next.put(&[block(1, 1, "again")]).await.unwrap();
    let late = put(&*blocks, "three").await;
    assert!(is_taken_over(&late), "{late:?}");
    assert_eq!(texts(&*next, 1, 2).await, ["one", "again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_that_lost_something_in_a_failover_is_not_gone_on_with() {
    let mut primary = Postgres::start(None).await;
    let mut standby = primary.start_standby().await;
    let url = postgres_url(&[&primary, &standby]);
    let blocks = open(&url).await;
    blocks.put(&[block(1, 0, "one")]).await.unwrap();
    standby.catch_up_with(&primary).await;
    // Nobody waits for the standby, so it may lag without anybody noticing.
    standby.stop().await;
    blocks.put(&[block(1, 1, "two")]).await.unwrap();
    primary.kill().await;
    standby.start_again().await;
    standby.promote().await;
    check_went_back(&url, blocks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_that_accepts_and_does_not_answer_is_passed_over() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Postgres::start(None).await;
    let addresses = [silent.local_addr().unwrap().to_string(), server.address()];
    let url = url("postgres", &addresses, "/postgres?connect_timeout=1");
    let blocks = open(&url).await;
    put(&*blocks, "two").await.unwrap();
}

/// Which server leads the stream.
async fn leader(servers: &[Nats]) -> usize {
    let options = ConnectOptions::with_user_and_password(USER.0.into(), USER.1.into());
    let client = options.connect(servers[0].address()).await.unwrap();
    let stream = jetstream::new(client).get_stream("skopos").await.unwrap();
    let leader = stream.cached_info().cluster.clone().unwrap().leader;
    let found = servers
        .iter()
        .position(|server| Some(server.name()) == leader.as_deref());
    found.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_to_nats_goes_on_when_the_leader_of_the_stream_is_killed() {
    let mut servers = Nats::start_cluster(3).await;
    let url = nats_url(&servers, "?replicas=3");
    let before = open(&url).await;
    before.put(&[block(1, 0, "before")]).await.unwrap();
    let opened = remote(&url).await;
    write_lines(opened, async {
        let leader = leader(&servers).await;
        servers[leader].kill().await;
    })
    .await;
    check_lines(&url, &*before).await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_that_lost_something_is_not_gone_on_with() {
    let mut server = Nats::start(None).await;
    let url = nats_url(std::slice::from_ref(&server), "");
    let blocks = open(&url).await;
    blocks.put(&[block(1, 0, "one")]).await.unwrap();
    server.stop().await;
    let kept = tempfile::tempdir().unwrap();
    copy(&server.data_dir(), kept.path());
    server.start_again().await;
    put(&*blocks, "two").await.unwrap();
    server.stop().await;
    fs::remove_dir_all(server.data_dir()).unwrap();
    copy(kept.path(), &server.data_dir());
    server.start_again().await;
    check_went_back(&url, blocks).await;
}
