//! Opening the file, and saying clearly why not.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTable as _, StorageBackend,
    StorageError,
};
use tokio_util::task::TaskTracker;

use super::{Store, Threads, all_routes, all_rules, tables};
use crate::delivery::Error;

/// The name of the file in the data directory.
const FILE: &str = "react.redb";
/// How much of the file is kept in memory.
const CACHE_BYTES: usize = 16 << 20;
/// The layout of the tables.
const FORMAT: u64 = 1;

impl Store {
    /// Opens the file in a directory, or makes it.
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let opened = builder().create(&path).map_err(|error| refused(&path, error))?;
        let store = Self::new(opened, Threads::Blocking);
        store.check(&path)?;
        Ok(store)
    }

    /// Keeps everything in `backend`, which never takes long.
    pub(crate) fn in_backend(backend: impl StorageBackend) -> Result<Self, Error> {
        let path = Path::new("memory");
        let opened = builder()
            .create_with_backend(backend)
            .map_err(|error| refused(path, error))?;
        let store = Self::new(opened, Threads::Inline);
        store.check(path)?;
        Ok(store)
    }

    /// Keeps everything in `backend`, whose reads and writes may take long. `place` is for messages.
    pub(crate) fn in_slow_backend(backend: impl StorageBackend, place: &Path) -> Result<Self, Error> {
        let opened = builder()
            .create_with_backend(backend)
            .map_err(|error| refused(place, error))?;
        let store = Self::new(opened, Threads::Blocking);
        store.check(place)?;
        Ok(store)
    }

    fn new(database: Database, threads: Threads) -> Self {
        Self {
            database: Arc::new(database),
            threads,
            at_work: TaskTracker::new(),
            is_dirty: Arc::new(AtomicBool::new(false)),
            dirtied: Arc::default(),
            board: Arc::default(),
        }
    }

    /// Sees to it that the tables are ours.
    fn check(&self, path: &Path) -> Result<(), Error> {
        let n_tables = self.database.begin_read()?.list_tables()?.count();
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_quick_repair(true);
        let unusable = |what: String| Error::Unusable {
            path: path.to_owned(),
            what,
        };
        {
            let mut meta = transaction
                .open_table(tables::META)
                .map_err(|error| unusable(format!("it belongs to another program ({error})")))?;
            let format = meta.get("format")?.map(|format| format.value());
            match format {
                Some(FORMAT) => {}
                Some(other) => {
                    return Err(unusable(format!(
                        "it has format {other}, this version reads {FORMAT}"
                    )));
                }
                None if n_tables > 0 => return Err(unusable("it belongs to another program".into())),
                None => {
                    meta.insert("format", FORMAT)?;
                }
            }
        }
        drop(tables::Tables::open(&transaction, &self.board)?);
        transaction.commit()?;
        let transaction = self.database.begin_read()?;
        for (name, record) in all_rules(&transaction)? {
            self.board.rule(&name, &record);
        }
        for (rule, sink, record) in all_routes(&transaction)? {
            self.board.route(rule, &sink, &record);
        }
        Ok(())
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn refused(path: &Path, error: DatabaseError) -> Error {
    let what = match error {
        DatabaseError::DatabaseAlreadyOpen => {
            return Error::InUse {
                path: path.to_owned(),
            };
        }
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            format!("it is no state of deliveries ({error})")
        }
        DatabaseError::Storage(StorageError::Io(error)) => error.to_string(),
        DatabaseError::Storage(StorageError::Corrupted(what)) => format!("it is damaged ({what})"),
        other => other.to_string(),
    };
    Error::Unusable {
        path: path.to_owned(),
        what,
    }
}
