//! Dead letters: deliveries that were given up.

use jiff::Timestamp;
use redb::{ReadTransaction, ReadableTable as _};

use super::{
    Cause, Tables,
    pending::NewRow,
    records::{LetterRecord, decode, encode},
    tables,
};
use crate::delivery::{Error, lanes::Row};

/// A delivery that was given up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Letter {
    pub(crate) route: u32,
    pub(crate) place: u64,
    pub(crate) seq: u64,
    pub(crate) cause: Cause,
    pub(crate) action: u16,
    pub(crate) key: String,
    pub(crate) object: String,
    pub(crate) attempts: u32,
    pub(crate) at: Timestamp,
    pub(crate) error: String,
}

/// A delivery to give up.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) row: Row,
    pub(crate) object: String,
    pub(crate) attempts: u32,
    pub(crate) error: String,
}

/// An error's text is cut to this.
const MAX_ERROR: usize = 1024;

impl Tables<'_> {
    /// What became of deliveries of one route: those that arrived, and those given up.
    pub(crate) fn settle(
        &mut self,
        (rule, sink): (u32, &str),
        delivered: &[u64],
        given_up: &[Given],
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(mut route) = self.known_route(rule, sink)? else {
            return Ok(());
        };
        route.delivered += self.dequeue(&mut route, delivered)?;
        for given in given_up {
            if self.dequeue(&mut route, &[given.row.ord])? == 0 {
                continue;
            }
            route.letters += 1;
            let record = letter(given, now);
            route.letters_low.added(record.needs());
            self.letters
                .insert((route.id, given.row.ord), encode(&record).as_slice())?;
        }
        self.put_route(rule, sink, &route)
    }

    /// Takes dead letters of a route away, all or those at these places, up to `limit`; says how many there were.
    /// They become pending again, or are gone for good.
    pub(crate) fn take_letters(
        &mut self,
        (rule, sink): (u32, &str),
        place: Option<u64>,
        limit: usize,
        then: Then,
    ) -> Result<usize, Error> {
        let Some(mut route) = self.known_route(rule, sink)? else {
            return Ok(0);
        };
        let range = match place {
            Some(place) => (route.id, place)..=(route.id, place),
            None => (route.id, 0)..=(route.id, u64::MAX),
        };
        let mut taken = Vec::new();
        for row in self.letters.extract_from_if(range, |_, _| true)?.take(limit) {
            taken.push(decode::<LetterRecord>(row?.1.value())?);
        }
        route.letters = route
            .letters
            .saturating_sub(u64::try_from(taken.len()).unwrap_or(u64::MAX));
        let mut left = self.letters.range((route.id, 0)..=(route.id, u64::MAX))?;
        let first = left.next().transpose()?.map(|(key, _)| key.value().1);
        drop(left);
        route.letters_low.removed(first, route.next);
        if then == Then::Redrive {
            for letter in &taken {
                self.enqueue(&mut route, &letter.again())?;
            }
        }
        self.put_route(rule, sink, &route)?;
        Ok(taken.len())
    }
}

/// What becomes of dead letters that are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Redrive,
    Drop,
}

fn letter(given: &Given, now: Timestamp) -> LetterRecord {
    let mut error = given.error.clone();
    if error.len() > MAX_ERROR {
        let end = (0..=MAX_ERROR).rev().find(|end| error.is_char_boundary(*end));
        error.truncate(end.unwrap_or(0));
    }
    LetterRecord {
        seq: given.row.seq.0,
        cause: given.row.cause.code(),
        action: given.row.action,
        lane: given.row.lane,
        key: given.row.key.as_deref().unwrap_or_default().to_owned(),
        object: given.object.clone(),
        attempts: given.attempts,
        at: now.as_millisecond(),
        error,
    }
}

impl LetterRecord {
    fn again(&self) -> NewRow {
        NewRow {
            seq: self.seq,
            cause: Cause::from_code(self.cause),
            action: self.action,
            lane: self.lane,
            key: self.key.clone(),
            needs: self.needs(),
        }
    }

    /// The oldest change that must be kept for it. What was there before the rule is found by its name.
    fn needs(&self) -> u64 {
        match Cause::from_code(self.cause) {
            Cause::Existing => u64::MAX,
            Cause::Change | Cause::Held | Cause::Before => self.seq,
        }
    }
}

/// Dead letters of a route after a place, in order.
pub(crate) fn letters(
    transaction: &ReadTransaction,
    route: u32,
    from: u64,
    limit: usize,
) -> Result<Vec<Letter>, Error> {
    let table = transaction.open_table(tables::LETTERS)?;
    let mut letters = Vec::new();
    for row in table.range((route, from)..=(route, u64::MAX))?.take(limit) {
        let (key, value) = row?;
        let record: LetterRecord = decode(value.value())?;
        letters.push(Letter {
            route,
            place: key.value().1,
            seq: record.seq,
            cause: Cause::from_code(record.cause),
            action: record.action,
            key: record.key,
            object: record.object,
            attempts: record.attempts,
            at: Timestamp::from_millisecond(record.at).unwrap_or_default(),
            error: record.error,
        });
    }
    Ok(letters)
}
