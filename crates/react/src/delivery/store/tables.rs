//! The tables.

use redb::{ReadableTable as _, Table, TableDefinition, WriteTransaction};

use crate::delivery::{Error, board::Board};

/// `format`, and the next numbers of rules and routes.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Rules by name; a [`RuleRecord`](super::RuleRecord) as JSON.
pub(super) const RULES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("rules");
/// Rule and sink; a [`RouteRecord`](super::RouteRecord) as JSON.
pub(super) const ROUTES: TableDefinition<'_, (u32, &str), &[u8]> = TableDefinition::new("routes");
/// Rule and object; edge state, when to wake (or [`NEVER`](super::records::NEVER)) and the change it is about.
pub(super) const OBJECTS: TableDefinition<'_, (u32, &str), (&[u8], i64, u64)> =
    TableDefinition::new("objects");
/// Rule, time in milliseconds and object; the change it is about.
pub(super) const TIMERS: TableDefinition<'_, (u32, i64, &str), u64> = TableDefinition::new("timers");
/// Rule and object: objects that were there before the rule and have been told.
pub(super) const TOLD: TableDefinition<'_, (u32, &str), ()> = TableDefinition::new("told");
/// Route and place; change, cause, action, lane, and the object's name where the change may be gone.
pub(super) const PENDING: TableDefinition<'_, (u32, u64), Delivery> = TableDefinition::new("pending");
/// Route and place; a [`LetterRecord`](super::records::LetterRecord) as JSON.
pub(super) const LETTERS: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("letters");

/// What others keep here by name, such as the last good form of a rule. Nothing is known of what it means.
pub(super) const NOTES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("notes");

/// Change, cause, action, lane and name.
pub(super) type Delivery = (u64, u8, u16, u64, &'static str);

/// All tables in one transaction.
pub(crate) struct Tables<'t> {
    pub(super) meta: Table<'t, &'static str, u64>,
    pub(super) rules: Table<'t, &'static str, &'static [u8]>,
    pub(super) routes: Table<'t, (u32, &'static str), &'static [u8]>,
    pub(super) objects: Table<'t, (u32, &'static str), (&'static [u8], i64, u64)>,
    pub(super) timers: Table<'t, (u32, i64, &'static str), u64>,
    pub(super) told: Table<'t, (u32, &'static str), ()>,
    pub(super) pending: Table<'t, (u32, u64), Delivery>,
    pub(super) letters: Table<'t, (u32, u64), &'static [u8]>,
    pub(super) notes: Table<'t, &'static str, &'static [u8]>,
    /// Shows what is written here. It is told inside the transaction, so that it hears things in their order.
    pub(super) board: &'t Board,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction, board: &'t Board) -> Result<Self, Error> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            rules: transaction.open_table(RULES)?,
            routes: transaction.open_table(ROUTES)?,
            objects: transaction.open_table(OBJECTS)?,
            timers: transaction.open_table(TIMERS)?,
            told: transaction.open_table(TOLD)?,
            pending: transaction.open_table(PENDING)?,
            letters: transaction.open_table(LETTERS)?,
            notes: transaction.open_table(NOTES)?,
            board,
        })
    }

    /// A number that was never given before.
    pub(super) fn next_id(&mut self, of: &str) -> Result<u32, Error> {
        let next = self.meta.get(of)?.map_or(1, |next| next.value());
        self.meta.insert(of, next + 1)?;
        Ok(u32::try_from(next).expect("fewer than four billion rules and routes were ever made"))
    }
}
