//! Rules, their routes, and what they keep of objects.

use std::collections::BTreeSet;

use jiff::Timestamp;
use redb::{ReadTransaction, ReadableTable as _};

use super::{
    RouteRecord, RuleRecord, Tables,
    records::{NEVER, decode, encode},
    tables,
};
use crate::delivery::Error;

/// What is kept of an object for a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) edge: Option<Vec<u8>>,
    pub(crate) wake_at: Option<Timestamp>,
    /// The last change of the object that the rule looked at.
    pub(crate) seq: u64,
}

/// A timer whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) wake_at: Timestamp,
    pub(crate) object: String,
    pub(crate) seq: u64,
}

/// Rows removed in one transaction at most, so that others need not wait for long.
const REMOVED_AT_ONCE: usize = 10_000;

impl Tables<'_> {
    pub(crate) fn rule(&self, name: &str) -> Result<Option<RuleRecord>, Error> {
        let Some(bytes) = self.rules.get(name)? else {
            return Ok(None);
        };
        Ok(Some(decode(bytes.value())?))
    }

    pub(crate) fn put_rule(&mut self, name: &str, record: &RuleRecord) -> Result<(), Error> {
        self.rules.insert(name, encode(record).as_slice())?;
        self.board.rule(name, record);
        Ok(())
    }

    /// Writes down a rule that was not known, and gives it its number.
    pub(crate) fn add_rule(&mut self, name: &str, mut record: RuleRecord) -> Result<RuleRecord, Error> {
        record.id = self.next_id("rules")?;
        self.put_rule(name, &record)?;
        Ok(record)
    }

    /// The number of a new replay.
    pub(crate) fn next_replay(&mut self) -> Result<u32, Error> {
        self.next_id("replays")
    }

    /// What is kept of a rule and a sink; made if it is not there.
    pub(crate) fn route(&mut self, rule: u32, sink: &str) -> Result<RouteRecord, Error> {
        if let Some(record) = self.known_route(rule, sink)? {
            return Ok(record);
        }
        let record = RouteRecord {
            id: self.next_id("routes")?,
            ..RouteRecord::default()
        };
        self.put_route(rule, sink, &record)?;
        Ok(record)
    }

    pub(crate) fn known_route(&self, rule: u32, sink: &str) -> Result<Option<RouteRecord>, Error> {
        let Some(bytes) = self.routes.get((rule, sink))? else {
            return Ok(None);
        };
        Ok(Some(decode(bytes.value())?))
    }

    pub(crate) fn put_route(&mut self, rule: u32, sink: &str, record: &RouteRecord) -> Result<(), Error> {
        self.routes.insert((rule, sink), encode(record).as_slice())?;
        self.board.route(rule, sink, record);
        Ok(())
    }

    pub(crate) fn kept(&self, rule: u32, object: &str) -> Result<Option<Kept>, Error> {
        let Some(row) = self.objects.get((rule, object))? else {
            return Ok(None);
        };
        let (edge, wake_at, seq) = row.value();
        Ok(Some(Kept {
            edge: edge.split_first().map(|(_, edge)| edge.to_vec()),
            wake_at: time(wake_at),
            seq,
        }))
    }

    /// Keeps this of an object from now on, and its timer; nothing if there is nothing to keep.
    pub(crate) fn keep(
        &mut self,
        rule: u32,
        object: &str,
        old: Option<&Kept>,
        new: Option<&Kept>,
    ) -> Result<(), Error> {
        if old == new {
            return Ok(());
        }
        if let Some(wake_at) = old.and_then(|kept| kept.wake_at) {
            self.timers.remove((rule, wake_at.as_millisecond(), object))?;
        }
        let Some(kept) = new else {
            self.objects.remove((rule, object))?;
            return Ok(());
        };
        let wake_at = kept.wake_at.map_or(NEVER, Timestamp::as_millisecond);
        if wake_at != NEVER {
            self.timers.insert((rule, wake_at, object), kept.seq)?;
        }
        // An edge state that is there but empty differs from none by its first byte.
        let mut edge = Vec::new();
        if let Some(bytes) = &kept.edge {
            edge.push(1);
            edge.extend_from_slice(bytes);
        }
        self.objects
            .insert((rule, object), (edge.as_slice(), wake_at, kept.seq))?;
        Ok(())
    }

    /// Remembers that an object which was there before the rule has been told.
    pub(crate) fn tell(&mut self, rule: u32, object: &str) -> Result<(), Error> {
        self.told.insert((rule, object), ())?;
        Ok(())
    }

    pub(crate) fn is_told(&self, rule: u32, object: &str) -> Result<bool, Error> {
        Ok(self.told.get((rule, object))?.is_some())
    }

    /// Forgets which objects were told. Says whether some are left for the next time.
    pub(crate) fn forget_told(&mut self, rule: u32) -> Result<bool, Error> {
        let range = (rule, "")..(rule + 1, "");
        let mut gone = self.told.extract_from_if(range, |_, ()| true)?;
        drain(&mut gone)
    }

    /// Forgets edge states and timers. Says whether some are left for the next time.
    pub(crate) fn forget_objects(&mut self, rule: u32) -> Result<bool, Error> {
        let range = (rule, "")..(rule + 1, "");
        let objects_left = drain(&mut self.objects.extract_from_if(range, |_, _| true)?)?;
        let range = (rule, i64::MIN, "")..(rule + 1, i64::MIN, "");
        let timers_left = drain(&mut self.timers.extract_from_if(range, |_, _| true)?)?;
        Ok(objects_left || timers_left)
    }

    /// Removes what is kept of a rule and a sink. Says whether some is left for the next time.
    pub(crate) fn remove_route(&mut self, rule: u32, sink: &str) -> Result<bool, Error> {
        let Some(record) = self.known_route(rule, sink)? else {
            return Ok(false);
        };
        let range = (record.id, 0)..=(record.id, u64::MAX);
        let pending_left = drain(&mut self.pending.extract_from_if(range.clone(), |_, _| true)?)?;
        let letters_left = drain(&mut self.letters.extract_from_if(range, |_, _| true)?)?;
        if !pending_left && !letters_left {
            self.routes.remove((rule, sink))?;
            self.board.remove_route(rule, sink);
        }
        Ok(pending_left || letters_left)
    }

    /// Removes everything that is kept of a rule. Says whether some is left for the next time.
    pub(crate) fn remove_rule(&mut self, name: &str) -> Result<bool, Error> {
        let Some(record) = self.rule(name)? else {
            return Ok(false);
        };
        for sink in self.sinks_of(record.id)? {
            if self.remove_route(record.id, &sink)? {
                return Ok(true);
            }
        }
        if self.forget_objects(record.id)? || self.forget_told(record.id)? {
            return Ok(true);
        }
        self.rules.remove(name)?;
        self.board.remove_rule(name);
        Ok(false)
    }

    pub(crate) fn sinks_of(&self, rule: u32) -> Result<Vec<String>, Error> {
        let mut sinks = Vec::new();
        for row in self.routes.range((rule, "")..(rule + 1, ""))? {
            sinks.push(row?.0.value().1.to_owned());
        }
        Ok(sinks)
    }
}

fn drain<T>(rows: &mut impl Iterator<Item = Result<T, redb::StorageError>>) -> Result<bool, Error> {
    for row in rows.by_ref().take(REMOVED_AT_ONCE) {
        row?;
    }
    Ok(rows.next().transpose()?.is_some())
}

/// All rules and replays that something is kept of.
pub(crate) fn all_rules(transaction: &ReadTransaction) -> Result<Vec<(String, RuleRecord)>, Error> {
    let mut rules = Vec::new();
    for row in transaction.open_table(tables::RULES)?.iter()? {
        let (name, record) = row?;
        rules.push((name.value().to_owned(), decode(record.value())?));
    }
    Ok(rules)
}

/// All routes: the number of the rule, the name of the sink.
pub(crate) fn all_routes(transaction: &ReadTransaction) -> Result<Vec<(u32, String, RouteRecord)>, Error> {
    let mut routes = Vec::new();
    for row in transaction.open_table(tables::ROUTES)?.iter()? {
        let (key, record) = row?;
        let (rule, sink) = key.value();
        routes.push((rule, sink.to_owned(), decode(record.value())?));
    }
    Ok(routes)
}

/// Timers of a rule that are due at `now`, the earliest first.
pub(crate) fn due(
    transaction: &ReadTransaction,
    rule: u32,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Due>, Error> {
    let table = transaction.open_table(tables::TIMERS)?;
    let range = (rule, i64::MIN, "")..(rule, now.as_millisecond() + 1, "");
    let mut due = Vec::new();
    for row in table.range(range)?.take(limit) {
        let (key, seq) = row?;
        let (_, wake_at, object) = key.value();
        due.push(Due {
            wake_at: time(wake_at).unwrap_or(now),
            object: object.to_owned(),
            seq: seq.value(),
        });
    }
    Ok(due)
}

/// The changes that timers of these objects are about.
pub(crate) fn timers_of(
    transaction: &ReadTransaction,
    rules: &[u32],
    objects: &[String],
) -> Result<BTreeSet<u64>, Error> {
    let table = transaction.open_table(tables::OBJECTS)?;
    let mut seqs = BTreeSet::new();
    for rule in rules {
        for object in objects {
            if let Some(row) = table.get((*rule, object.as_str()))?
                && row.value().1 != NEVER
            {
                seqs.insert(row.value().2);
            }
        }
    }
    Ok(seqs)
}

/// When the first timer of a rule is due.
pub(crate) fn first_timer(transaction: &ReadTransaction, rule: u32) -> Result<Option<Timestamp>, Error> {
    let table = transaction.open_table(tables::TIMERS)?;
    let mut timers = table.range((rule, i64::MIN, "")..(rule + 1, i64::MIN, ""))?;
    let Some(row) = timers.next() else {
        return Ok(None);
    };
    Ok(time(row?.0.value().1))
}

/// The oldest change that a timer of a rule is about.
pub(crate) fn oldest_timer(transaction: &ReadTransaction, rule: u32) -> Result<Option<u64>, Error> {
    let table = transaction.open_table(tables::TIMERS)?;
    let mut oldest = None::<u64>;
    for row in table.range((rule, i64::MIN, "")..(rule + 1, i64::MIN, ""))? {
        let seq = row?.1.value();
        oldest = Some(oldest.map_or(seq, |oldest| oldest.min(seq)));
    }
    Ok(oldest)
}

fn time(milliseconds: i64) -> Option<Timestamp> {
    match milliseconds {
        NEVER => None,
        _ => Timestamp::from_millisecond(milliseconds).ok(),
    }
}
