//! Servers that can be stopped, and what is opened on them.

use std::{io::Read as _, sync::Arc, time::Duration};

use skopos_disk::Disk;
use skopos_remote::{
    Block, Blocks, BlocksError, FileId, JournalUrl, MemoryServer, NatsBlocks, PostgresBlocks, Remote,
    RemoteConfig,
};
use skopos_testkit::parts::{Nats, Postgres, USER};

pub(crate) enum Server {
    Memory(MemoryServer),
    Postgres(Postgres),
    Nats(Nats),
}

impl Server {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryServer::new(1))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Postgres::start(None).await)
    }

    pub(crate) async fn nats() -> Self {
        Self::Nats(Nats::start(None).await)
    }

    /// What a user would write.
    pub(crate) fn url(&self) -> Option<JournalUrl> {
        let (user, password) = USER;
        let url = match self {
            Self::Memory(_) => return None,
            Self::Postgres(server) => {
                format!("postgres://{user}:{password}@{}/postgres", server.address())
            }
            Self::Nats(server) => format!("nats://{user}:{password}@{}", server.address()),
        };
        Some(url.parse().unwrap())
    }

    pub(crate) async fn blocks(&self) -> Arc<dyn Blocks> {
        match (self, self.url()) {
            (Self::Memory(server), _) => Arc::new(server.open()),
            (_, Some(JournalUrl::Postgres(url))) => Arc::new(PostgresBlocks::open(&url).await.unwrap()),
            (_, Some(JournalUrl::Nats(url))) => Arc::new(NatsBlocks::open(&url).await.unwrap()),
            (_, None) => unreachable!("only memory has no address"),
        }
    }

    pub(crate) async fn remote(&self) -> Remote {
        let config = config();
        match (self, self.url()) {
            (Self::Memory(server), _) => {
                // Opening is tried once, and may fail by chance.
                loop {
                    let blocks: Arc<dyn Blocks> = Arc::new(server.open());
                    if let Ok(remote) = Remote::on(Box::pin(async { Ok(blocks) }), config.clone()).await {
                        return remote;
                    }
                }
            }
            (_, Some(url)) => Remote::open(&url, config).await.unwrap(),
            (_, None) => unreachable!("only memory has no address"),
        }
    }

    pub(crate) async fn stop(&mut self) {
        match self {
            Self::Memory(server) => server.set_down(true),
            Self::Postgres(server) => server.stop().await,
            Self::Nats(server) => server.stop().await,
        }
    }

    pub(crate) async fn start_again(&mut self) {
        match self {
            Self::Memory(server) => server.set_down(false),
            Self::Postgres(server) => server.start_again().await,
            Self::Nats(server) => server.start_again().await,
        }
    }
}

/// Small blocks and short waits.
pub(crate) fn config() -> RemoteConfig {
    RemoteConfig {
        block_bytes: 512,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(100),
        ..RemoteConfig::default()
    }
}

/// All of a file.
pub(crate) fn content(disk: &dyn Disk, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    disk.read(name).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(disk.len(name).unwrap(), bytes.len() as u64);
    bytes
}

pub(crate) fn block(file: u64, number: u32, bytes: impl AsRef<[u8]>) -> Block {
    Block {
        file: FileId(file),
        number,
        bytes: bytes.as_ref().to_vec().into(),
    }
}

/// Some blocks of a file as text.
pub(crate) async fn texts(blocks: &dyn Blocks, file: u64, end: u32) -> Vec<String> {
    let found = blocks.get(FileId(file), 0..end).await.unwrap();
    found
        .iter()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .collect()
}

pub(crate) fn is_taken_over<T: std::fmt::Debug>(outcome: &Result<T, BlocksError>) -> bool {
    matches!(outcome, Err(BlocksError::TakenOver(_)))
}

/// Does something that blocks, as the threads of the journal do.
pub(crate) async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}
