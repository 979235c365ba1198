//! Changes as rules see them.

use skopos_journal::{Entry, Log, ReadError, Seq, Wanted};
use skopos_object::Op;

use super::{lanes::Row, store::Cause};

/// What an object is known by to its rules: its UID, or its name where the source has no such thing.
pub(crate) fn object_id(entry: &Entry) -> String {
    match entry.uid.is_empty() {
        true => format!("{}/{}", entry.plural, entry.key),
        false => entry.uid.clone(),
    }
}

/// The lane of an object, by its name: one made anew under the name of another comes after what is to be said of that.
pub(crate) fn lane(entry: &Entry) -> u64 {
    hash(&format!("{}/{}", entry.plural, entry.key))
}

/// A hash that stays the same for ever (FNV-1a).
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The object as if it had been created in the state after the change.
pub(crate) fn existing(mut entry: Entry) -> Entry {
    entry.op = Op::Created;
    entry.before = None;
    entry
}

/// The object as if it had been created in the state before the change.
pub(crate) fn existed(mut entry: Entry) -> Option<Entry> {
    let before = entry.before.take()?;
    entry.op = Op::Created;
    entry.version = before.resource_version();
    entry.after = Some(before);
    Some(entry)
}

/// Finds the change that a delivery is about; nothing if it is no longer kept.
pub(crate) async fn find(log: &dyn Log, row: &Row, wanted: &Wanted) -> Result<Option<Entry>, ReadError> {
    let entry = match log.get(row.seq).await {
        Err(ReadError::Removed(_)) => None,
        other => other?,
    };
    match (row.cause, entry) {
        (Cause::Held, None) => find_existing(log, row, wanted).await,
        (Cause::Change | Cause::Held, entry) => Ok(entry),
        (Cause::Before, entry) => Ok(entry.and_then(existed)),
        (Cause::Existing, Some(entry)) => Ok(Some(existing(entry))),
        (Cause::Existing, None) => find_existing(log, row, wanted).await,
    }
}

/// The change that made the object what it was is gone: either it still is that, or the next change tells.
async fn find_existing(log: &dyn Log, row: &Row, wanted: &Wanted) -> Result<Option<Entry>, ReadError> {
    let Some(key) = row.key.as_deref() else {
        return Ok(None);
    };
    let (namespace, name) = match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, key),
    };
    let wanted = Wanted {
        source: wanted.source.clone(),
        kind: wanted.kind.clone(),
        namespace,
        name: Some(name.to_owned()),
        ..Wanted::default()
    };
    let current = log.current(&wanted, None, 1).await?;
    if let Some(entry) = current.into_iter().find(|entry| entry.seq == row.seq) {
        return Ok(Some(match row.cause {
            Cause::Held => entry,
            Cause::Change | Cause::Existing | Cause::Before => existing(entry),
        }));
    }
    let mut after = row.seq.max(Seq(log.first().0.saturating_sub(1)));
    while after < log.head() {
        let (entries, up_to) = log.read(after, &wanted, 1).await?;
        if let Some(entry) = entries.into_iter().next() {
            return Ok(existed(entry));
        }
        after = up_to.max(Seq(after.0 + 1));
    }
    Ok(None)
}
