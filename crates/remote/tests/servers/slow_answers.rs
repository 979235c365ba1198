//! What is written while a server is asked how much it has must not make it look as if it had lost something.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use skopos_remote::{Blocks, FileId, JournalUrl, NatsBlocks, PostgresBlocks};
use skopos_testkit::parts::{Nats, Postgres, USER};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

use crate::support::block;

/// Stands between us and a server, and can keep an answer back.
struct Detour {
    address: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    is_wanted: fn(&[u8]) -> bool,
    /// Whether the next wanted answer is kept back.
    keeps: AtomicBool,
    kept: Notify,
    released: Notify,
}

impl Detour {
    /// Keeps nothing back yet.
    async fn to(server: String, is_wanted: fn(&[u8]) -> bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            is_wanted,
            keeps: AtomicBool::new(false),
            kept: Notify::new(),
            released: Notify::new(),
        });
        let (mut serving, serves) = (JoinSet::new(), shared.clone());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (ours, _) = listener.accept().await.unwrap();
                let theirs = TcpStream::connect(&server).await.unwrap();
                let ((from_us, to_us), (from_them, to_them)) = (ours.into_split(), theirs.into_split());
                connections.spawn(answers(from_them, to_us, serves.clone()));
                connections.spawn(async move {
                    let (mut from_us, mut to_them) = (from_us, to_them);
                    let _ = copy(&mut from_us, &mut to_them).await;
                });
            }
        });
        Self {
            address,
            shared,
            _serving: serving,
        }
    }

    /// Asks something of the server, and does something after its wanted answer was given and before that arrives.
    async fn delay<T>(&self, asks: impl Future<Output = T>, meanwhile: impl Future<Output = ()>) -> T {
        self.shared.keeps.store(true, Relaxed);
        let acts = async {
            self.shared.kept.notified().await;
            meanwhile.await;
            self.shared.released.notify_one();
        };
        tokio::join!(asks, acts).0
    }
}

async fn answers(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, shared: Arc<Shared>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes).await {
        if (shared.is_wanted)(&bytes[..n]) && shared.keeps.swap(false, Relaxed) {
            shared.kept.notify_one();
            shared.released.notified().await;
        }
        if to.write_all(&bytes[..n]).await.is_err() {
            return;
        }
    }
}

/// Reads the first time, for which it is asked how much the server has, and writes meanwhile.
async fn check(detour: &Detour, blocks: &dyn Blocks) {
    let writes = async { blocks.put(&[block(1, 1, "two")]).await.unwrap() };
    let read = detour.delay(blocks.get(FileId(1), 0..2), writes).await;
    assert_eq!(read.unwrap(), ["one", "two"]);
}

#[tokio::test]
async fn a_put_while_postgres_is_asked_how_much_it_has_is_not_taken_for_a_loss() {
    let server = Postgres::start(None).await;
    // The rows that a statement found, after those who only prepare it.
    let detour = Detour::to(server.address(), |bytes| bytes.first() == Some(&b'2')).await;
    let ((user, password), address) = (USER, &detour.address);
    let url = format!("postgres://{user}:{password}@{address}/postgres?sslmode=disable");
    let Ok(JournalUrl::Postgres(url)) = url.parse() else {
        unreachable!("it is one of PostgreSQL")
    };
    let blocks = PostgresBlocks::open(&url).await.unwrap();
    blocks.put(&[block(1, 0, "one")]).await.unwrap();
    check(&detour, &blocks).await;
}

#[tokio::test]
async fn a_put_while_nats_is_asked_how_much_it_has_is_not_taken_for_a_loss() {
    let server = Nats::start(None).await;
    let detour = Detour::to(server.address(), |bytes| {
        String::from_utf8_lossy(bytes).contains("stream_info_response")
    })
    .await;
    let ((user, password), address) = (USER, &detour.address);
    let Ok(JournalUrl::Nats(url)) = format!("nats://{user}:{password}@{address}").parse() else {
        unreachable!("it is one of NATS")
    };
    let blocks = NatsBlocks::open(&url).await.unwrap();
    blocks.put(&[block(1, 0, "one")]).await.unwrap();
    check(&detour, &blocks).await;
}
