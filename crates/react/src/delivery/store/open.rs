//! Opening the file, and saying clearly why not.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTable as _, StorageBackend,
    StorageError,
};
use tokio_util::task::TaskTracker;

use super::{Source, Store, Threads, all_routes, all_rules, tables};
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
        let file = path.clone();
        Self::from(path, Threads::Blocking, move || builder().create(&file))
    }

    /// Keeps everything in backends that never take long. Each one that `open` gives has what the one before had.
    pub(crate) fn in_backend<B: StorageBackend>(
        open: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let create = move || builder().create_with_backend(open());
        Self::from("memory".into(), Threads::Inline, create)
    }

    /// Keeps everything in backends whose reads and writes may take long. `place` is for messages.
    pub(crate) fn in_slow_backend<B: StorageBackend>(
        open: impl Fn() -> B + Send + Sync + 'static,
        place: &Path,
    ) -> Result<Self, Error> {
        let create = move || builder().create_with_backend(open());
        Self::from(place.to_owned(), Threads::Blocking, create)
    }

    fn from(
        place: PathBuf,
        threads: Threads,
        open: impl Fn() -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let store = Self {
            state: Arc::default(),
            source: Arc::new(Source {
                place,
                open: Box::new(open),
            }),
            threads,
            at_work: TaskTracker::new(),
            is_dirty: Arc::default(),
            dirtied: Arc::default(),
            board: Arc::default(),
        };
        store.load(store.create()?)?;
        Ok(store)
    }

    /// Opens the file.
    pub(super) fn create(&self) -> Result<Database, Error> {
        (self.source.open)().map_err(|error| refused(&self.source.place, error))
    }

    /// Goes on with what is in the file.
    pub(super) fn load(&self, database: Database) -> Result<(), Error> {
        self.check(&database, &self.source.place)?;
        let transaction = database.begin_read()?;
        self.board
            .begin(all_rules(&transaction)?, all_routes(&transaction)?);
        self.lock().database = Some(Arc::new(database));
        Ok(())
    }

    /// Sees to it that the tables are ours.
    fn check(&self, database: &Database, path: &Path) -> Result<(), Error> {
        let n_tables = database.begin_read()?.list_tables()?.count();
        let mut transaction = database.begin_write()?;
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
        Ok(transaction.commit()?)
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
        DatabaseError::Storage(StorageError::Io(source)) => {
            return Error::Open {
                path: path.to_owned(),
                source,
            };
        }
        DatabaseError::Storage(StorageError::Corrupted(what)) => format!("it is damaged ({what})"),
        other => other.to_string(),
    };
    Error::Unusable {
        path: path.to_owned(),
        what,
    }
}
