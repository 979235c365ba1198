//! Pending deliveries: a few bytes each, in the order in which they are sent.

use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable as _};
use skopos_journal::Seq;

use super::{Cause, RouteRecord, Tables, tables};
use crate::delivery::{
    Error,
    lanes::{RouteId, Row},
};

/// A delivery that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewRow {
    pub(crate) seq: u64,
    pub(crate) cause: Cause,
    pub(crate) action: u16,
    pub(crate) lane: u64,
    /// The object's name, if the change alone may not be found later.
    pub(crate) key: String,
    /// The oldest change that must be kept for it.
    pub(crate) needs: u64,
}

impl Tables<'_> {
    /// Adds a delivery at the end of a route. The caller puts the changed record back.
    pub(crate) fn enqueue(&mut self, route: &mut RouteRecord, row: &NewRow) -> Result<(), Error> {
        let value = (row.seq, row.cause.code(), row.action, row.lane, row.key.as_str());
        self.pending.insert((route.id, route.next), value)?;
        route.next += 1;
        route.pending += 1;
        route.low.added(row.needs);
        Ok(())
    }

    /// Takes deliveries away. Says how many of them were there. The caller puts the changed record back.
    pub(crate) fn dequeue(&mut self, route: &mut RouteRecord, places: &[u64]) -> Result<u64, Error> {
        let mut n_gone = 0;
        for place in places {
            n_gone += u64::from(self.pending.remove((route.id, *place))?.is_some());
        }
        route.pending = route.pending.saturating_sub(n_gone);
        let mut left = self.pending.range((route.id, 0)..=(route.id, u64::MAX))?;
        let first = left.next().transpose()?.map(|(key, _)| key.value().1);
        route.low.removed(first, route.next);
        Ok(n_gone)
    }
}

/// Reads pending deliveries of a route from a place on.
pub(crate) fn pending(
    transaction: &ReadTransaction,
    route: RouteId,
    from: u64,
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let table = transaction.open_table(tables::PENDING)?;
    let mut rows = Vec::new();
    for row in table.range((route.0, from)..=(route.0, u64::MAX))?.take(limit) {
        let (key, value) = row?;
        let (seq, cause, action, lane, name) = value.value();
        rows.push(Row {
            route,
            ord: key.value().1,
            seq: Seq(seq),
            cause: Cause::from_code(cause),
            action,
            lane,
            key: (!name.is_empty()).then(|| Arc::from(name)),
        });
    }
    Ok(rows)
}
