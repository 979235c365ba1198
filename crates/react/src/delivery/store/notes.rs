//! What others keep beside the state, by name.

use std::collections::BTreeMap;

use redb::{ReadTransaction, ReadableTable as _};

use super::{Tables, tables};
use crate::delivery::Error;

impl Tables<'_> {
    /// Keeps a note in place of the one before; nothing forgets it.
    pub(crate) fn note(&mut self, name: &str, text: Option<&[u8]>) -> Result<(), Error> {
        match text {
            Some(text) => self.notes.insert(name, text)?,
            None => self.notes.remove(name)?,
        };
        Ok(())
    }
}

/// All notes by name.
pub(crate) fn notes(transaction: &ReadTransaction) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut notes = BTreeMap::new();
    for row in transaction.open_table(tables::NOTES)?.iter()? {
        let (name, text) = row?;
        notes.insert(name.value().to_owned(), text.value().to_vec());
    }
    Ok(notes)
}
