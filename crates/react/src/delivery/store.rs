//! What must survive: positions, edge states, timers, pending deliveries and dead letters, in one file.
//!
//! Everything that belongs together changes in one transaction. Most transactions are not durable by themselves; every
//! tenth of a second one is, and makes those before it durable too. After a crash the file is as it was at one
//! moment of the last tenth: rules look at some changes again, and some events are sent again with the same ids.

mod letters;
mod notes;
mod open;
mod pending;
mod records;
mod room;
mod rules;
mod tables;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase as _};

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{Error, board::Board};

pub(crate) use self::{
    letters::{Given, Letter, Then, letters},
    notes::notes,
    pending::{NewRow, pending},
    records::{Cause, Cursor, Existing, Replayed, RouteRecord, RuleRecord},
    rules::{Due, Kept, all_routes, all_rules, due, first_timer, oldest_timer, timers_of},
    tables::Tables,
};

/// The open file.
#[derive(Clone)]
pub(crate) struct Store {
    /// Held to look at it, not while it is used.
    state: Arc<Mutex<State>>,
    source: Arc<Source>,
    /// Whether a commit can take long: then it goes to a thread of its own.
    threads: Threads,
    /// The threads at work. One goes on when nobody waits for it any more, and keeps the file open.
    at_work: TaskTracker,
    is_dirty: Arc<AtomicBool>,
    /// Rings when something is written after a sync.
    dirtied: Arc<Notify>,
    pub(crate) board: Arc<Board>,
}

#[derive(Default)]
struct State {
    /// Nothing while it is closed for want of room.
    database: Option<Arc<Database>>,
    /// What the disk said when there was no room. After that nothing can be written before it is opened anew.
    full: Option<String>,
}

/// Where the file comes from.
struct Source {
    /// What it is called in messages.
    place: PathBuf,
    open: Box<Open>,
}

type Open = dyn Fn() -> Result<Database, DatabaseError> + Send + Sync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    /// In the task itself: there is no disk.
    Inline,
    Blocking,
}

impl Store {
    /// Changes what is kept, all or nothing. Durable with the next [`sync`](Self::sync).
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Tables<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.clone();
        self.on_thread(move || store.write_now(change)).await
    }

    /// Reads what is kept.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&ReadTransaction) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.clone();
        self.on_thread(move || look(&store.database()?.begin_read()?))
            .await
    }

    /// Makes everything durable that was written before.
    pub(crate) async fn sync(&self) -> Result<(), Error> {
        let store = self.clone();
        self.on_thread(move || {
            // Waits for whoever writes or syncs now, so that what they wrote is durable too when this returns.
            let mut transaction = store.database()?.begin_write()?;
            if !store.is_dirty.swap(false, Ordering::AcqRel) {
                return Ok(());
            }
            transaction.set_durability(Durability::Immediate)?;
            // A crash then costs no walk through the whole file.
            transaction.set_quick_repair(true);
            Ok(transaction.commit()?)
        })
        .await
    }

    /// Waits until no thread is at work for us, also none whose answer nobody waits for.
    pub(crate) async fn settled(&self) {
        self.at_work.close();
        self.at_work.wait().await;
    }

    /// Waits until there is something to sync.
    pub(crate) async fn dirtied(&self) {
        while !self.is_dirty.load(Ordering::Acquire) {
            self.dirtied.notified().await;
        }
    }

    fn write_now<T>(&self, change: impl FnOnce(&mut Tables<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut transaction = self.database()?.begin_write()?;
        transaction.set_durability(Durability::None)?;
        let result = change(&mut Tables::open(&transaction, &self.board)?)?;
        // Inside the transaction: a sync that comes after it must not take it for synced.
        if !self.is_dirty.swap(true, Ordering::AcqRel) {
            self.dirtied.notify_one();
        }
        transaction.commit()?;
        Ok(result)
    }

    fn database(&self) -> Result<Arc<Database>, Error> {
        let state = self.lock();
        let closed = || Error::NoSpace(state.full.clone().unwrap_or_default());
        state.database.clone().ok_or_else(closed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.clone();
        // On the thread, which goes on when nobody waits for it any more.
        let work = move || store.noted(work());
        match self.threads {
            Threads::Inline => work(),
            Threads::Blocking => match self.at_work.spawn_blocking(work).await {
                Ok(result) => result,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}

/// The oldest change that a timer of a rule is about, before anything runs.
pub(crate) fn oldest_timer_now(store: &Store, rule: u32) -> Result<Option<u64>, Error> {
    oldest_timer(&store.database()?.begin_read()?, rule)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}
