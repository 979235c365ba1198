//! The door: opens what a server keeps, and hands out files.

use std::{
    collections::BTreeMap,
    fmt, io,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;

use crate::{
    Block, Blocks, BlocksError, FileId, JournalUrl, NatsBlocks, PostgresBlocks, RemoteBackend, RemoteDisk,
    bridge::Bridge,
    cache::Cache,
    file::Inode,
    health::Health,
    names::{NAMES, Names},
};

/// So many bytes go to the server at once, so that who writes little need not wait for who writes much.
const PUT_BYTES: usize = 1 << 20;
/// And so many blocks.
const PUT_BLOCKS: usize = 256;

/// How a [`Remote`] works.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// How many bytes of blocks are kept in memory (default 64 MiB).
    pub cache_bytes: usize,
    /// The size of a block of the journal (default 16 KiB).
    pub block_bytes: u32,
    /// How long a server may take for one answer (default 30 s).
    pub timeout: Duration,
    /// The first wait before a server that does not answer is asked again (default 100 ms); it doubles.
    pub first_wait: Duration,
    /// The longest such wait (default 5 s).
    pub longest_wait: Duration,
}

impl Default for RemoteConfig {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            block_bytes: 16 << 10,
            timeout: Duration::from_secs(30),
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(5),
        }
    }
}

/// What a server keeps was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server refuses, or does not answer. Trying again later may help.
    #[error(transparent)]
    Server(BlocksError),
    /// The thread that talks to it does not start.
    #[error("start the thread that talks to the server")]
    Thread(#[source] io::Error),
}

/// Files on a server, which this process may write until another opens them. Cheap to clone.
///
/// While the server does not answer, whoever reads or writes waits; see [`give_up`](Self::give_up).
#[derive(Clone, Debug)]
pub struct Remote {
    shared: Arc<Shared>,
}

/// What all files share.
pub(crate) struct Shared {
    pub(crate) config: RemoteConfig,
    blocks: Arc<dyn Blocks>,
    pub(crate) health: Arc<Health>,
    cache: Mutex<Cache>,
    names: Mutex<Names>,
    /// One write of the names at a time. Before `names`.
    naming: Mutex<()>,
    bridge: Bridge,
}

impl Remote {
    /// Takes over what is kept at an address, or begins there. Whoever had it before can write no more.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(url: &JournalUrl, config: RemoteConfig) -> Result<Self, OpenError> {
        let url = url.clone();
        let connect = async move {
            let blocks: Arc<dyn Blocks> = match &url {
                JournalUrl::Postgres(server) => Arc::new(PostgresBlocks::open(server).await?),
                JournalUrl::Nats(server) => Arc::new(NatsBlocks::open(server).await?),
            };
            Ok(blocks)
        };
        Self::on(connect.boxed(), config).await
    }

    /// The same on any blocks, which are opened on the thread that will use them.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn on(
        connect: BoxFuture<'static, Result<Arc<dyn Blocks>, BlocksError>>,
        config: RemoteConfig,
    ) -> Result<Self, OpenError> {
        let bridge = Bridge::start().map_err(OpenError::Thread)?;
        let opened = bridge.run(begin(connect, config.timeout)).await;
        let opened = opened.map_err(OpenError::Thread)?;
        let (blocks, names) = opened.map_err(OpenError::Server)?;
        let shared = Shared {
            cache: Mutex::new(Cache::new(config.cache_bytes)),
            config,
            blocks,
            health: Arc::default(),
            names: Mutex::new(names),
            naming: Mutex::default(),
            bridge,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// A directory of append-only files, for the journal.
    pub fn disk(&self) -> RemoteDisk {
        RemoteDisk::new(self.shared.clone())
    }

    /// A file for a database, which is made if it is not there.
    pub fn backend(&self, name: &str) -> RemoteBackend {
        RemoteBackend::new(self.shared.clone(), name)
    }

    /// The server, for messages; without secrets.
    pub fn place(&self) -> &str {
        self.shared.blocks.place()
    }

    /// Waits until nothing can be written any more, because another replica took over or the server lost something, and
    /// returns what to tell.
    pub async fn lost(&self) -> BlocksError {
        let health = &self.shared.health;
        health.is_lost.cancelled().await;
        let error = health.lost().cloned();
        error.unwrap_or_else(|| BlocksError::TakenOver(self.place().to_owned()))
    }

    /// Lets nobody wait for the server any more: what waits fails, and what comes later too.
    pub fn give_up(&self) {
        self.shared.health.given_up.cancel();
    }

    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.shared.health
    }
}

/// Connects, reads the names, and clears away what has none.
async fn begin(
    connect: BoxFuture<'static, Result<Arc<dyn Blocks>, BlocksError>>,
    timeout: Duration,
) -> Result<(Arc<dyn Blocks>, Names), BlocksError> {
    let blocks = within(timeout, connect).await?;
    let extents = within(timeout, blocks.list()).await?;
    let block = within(timeout, blocks.get(NAMES, 0..1)).await?;
    let block = block.first().map(Bytes::as_ref).unwrap_or_default();
    let mut found = Names::read(block, &extents, blocks.place())?;
    if let Some((block, version)) = found.names.unwritten() {
        // First of all, so that no number is used that somebody removes just now.
        within(timeout, blocks.put(&[block])).await?;
        found.names.note_written(version);
    }
    for file in found.nameless {
        within(timeout, blocks.remove(file)).await?;
    }
    Ok((blocks, found.names))
}

/// An answer, if it comes in time.
async fn within<T>(
    timeout: Duration,
    answer: impl Future<Output = Result<T, BlocksError>>,
) -> Result<T, BlocksError> {
    let late = || BlocksError::Unavailable(format!("no answer within {timeout:?}"));
    tokio::time::timeout(timeout, answer)
        .await
        .unwrap_or_else(|_| Err(late()))
}

impl Shared {
    pub(crate) fn place(&self) -> &str {
        self.blocks.place()
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self, name: &str) -> io::Result<Arc<Inode>> {
        let found = self.names().files.get(name).cloned();
        found.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{name} is not in {}", self.place()),
            )
        })
    }

    /// The lengths of all files, by name.
    pub(crate) fn file_names(&self) -> Vec<String> {
        let files: &BTreeMap<String, Arc<Inode>> = &self.names().files;
        files.keys().cloned().collect()
    }

    /// Writes blocks in order, however long it takes.
    pub(crate) fn put(&self, mut batch: Vec<Block>) -> io::Result<()> {
        while !batch.is_empty() {
            let mut n_bytes = 0;
            let n = batch.iter().take(PUT_BLOCKS).take_while(|block| {
                let fits = n_bytes == 0 || n_bytes + block.bytes.len() <= PUT_BYTES;
                n_bytes += block.bytes.len().max(1);
                fits
            });
            let rest = batch.split_off(n.count());
            let now = Arc::new(std::mem::replace(&mut batch, rest));
            self.health.n_puts.fetch_add(1, Relaxed);
            self.health.put_bytes.fetch_add(n_bytes as u64, Relaxed);
            self.persist(move |blocks| {
                let now = now.clone();
                async move { blocks.put(&now).await }.boxed()
            })?;
        }
        Ok(())
    }

    pub(crate) fn get(&self, file: FileId, numbers: Range<u32>) -> io::Result<Vec<Bytes>> {
        self.health.n_gets.fetch_add(1, Relaxed);
        self.persist(move |blocks| {
            let numbers = numbers.clone();
            async move { blocks.get(file, numbers).await }.boxed()
        })
    }

    /// Has the names written if they changed, and then removes what lost its name.
    pub(crate) fn put_names(&self) -> io::Result<()> {
        let _turn = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = self.names().unwritten();
        let Some((block, version)) = unwritten else {
            return Ok(());
        };
        self.put(vec![block])?;
        let unused = self.names().note_written(version);
        for file in unused {
            self.persist(move |blocks| async move { blocks.remove(file).await }.boxed())?;
        }
        Ok(())
    }

    /// Asks until there is an answer, nothing can be written any more, or nobody waits.
    fn persist<T: Send + 'static>(
        &self,
        call: impl Fn(Arc<dyn Blocks>) -> BoxFuture<'static, Result<T, BlocksError>> + Send + 'static,
    ) -> io::Result<T> {
        if let Some(error) = self.health.lost() {
            return Err(io::Error::other(error.clone()));
        }
        let (blocks, health) = (self.blocks.clone(), self.health.clone());
        let config = self.config.clone();
        let given_up = health.given_up.clone();
        let gave_up = {
            let place = self.place().to_owned();
            move || io::Error::other(format!("{place} did not answer before the end"))
        };
        let asking = async move {
            let mut wait = config.first_wait;
            loop {
                match within(config.timeout, call(blocks.clone())).await {
                    Ok(value) => {
                        health.answers(blocks.place());
                        return Ok(value);
                    }
                    Err(BlocksError::Unavailable(what)) => health.fails(blocks.place(), &what),
                    Err(error) => {
                        health.lose(&error);
                        return Err(io::Error::other(error));
                    }
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(config.longest_wait);
            }
        };
        self.bridge.wait(async move {
            match given_up.run_until_cancelled(asking).await {
                Some(outcome) => outcome,
                None => Err(gave_up()),
            }
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}
