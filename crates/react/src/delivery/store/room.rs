//! When the disk is full: the file is closed, and opened again once there is room.
//!
//! After a write that failed the file takes nothing more, and what was not synced before is not in it. So everybody who
//! remembers more than that must forget it: the tasks of the reactor end, and begin again with what is in the file.

use std::sync::atomic::Ordering;

use redb::{Database, Durability, TableDefinition};

use super::Store;
use crate::delivery::Error;

/// Where it is tried out whether there is room. Always empty.
const ROOM: TableDefinition<'_, (), &[u8]> = TableDefinition::new("room");
/// With less room than this there is no use in going on: what is sent could not be written down, and would be sent
/// again and again.
const ROOM_BYTES: usize = 1 << 20;

impl Store {
    /// What the disk said when there was no room, if it did since the file was opened.
    pub(crate) fn full(&self) -> Option<String> {
        self.lock().full.clone()
    }

    /// Takes note if there was no room.
    pub(super) fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && let Some(what) = error.no_space()
        {
            self.lock().full.get_or_insert(what);
        }
        result
    }

    /// Closes the file. Whoever asks from now on is told that there is no room.
    pub(crate) async fn close(&self) {
        self.lock().database = None;
        // A thread at work keeps the file open.
        self.settled().await;
    }

    /// Opens the file again, if there is room.
    pub(crate) async fn reopen(&self) -> Result<(), Error> {
        self.at_work.reopen();
        let store = self.clone();
        self.on_thread(move || {
            let database = store.create()?;
            make_room(&database)?;
            store.is_dirty.store(false, Ordering::Release);
            store.lock().full = None;
            store.load(database)
        })
        .await
    }
}

/// Takes some room and gives it back, which then is free inside of the file.
fn make_room(database: &Database) -> Result<(), Error> {
    for is_taken in [true, false] {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_quick_repair(true);
        match is_taken {
            true => drop(
                transaction
                    .open_table(ROOM)?
                    .insert((), vec![0; ROOM_BYTES].as_slice())?,
            ),
            false => drop(transaction.delete_table(ROOM)?),
        }
        transaction.commit()?;
    }
    Ok(())
}
