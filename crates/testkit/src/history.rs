//! Whether what a subscriber saw is a history of the objects.

use std::collections::BTreeMap;

use skopos_object::{Change, Object, ObjectKey, Op};

/// What one subscriber saw of every object, checked change by change.
///
/// A history is sound if, object by object, each change goes on where the last one ended: created only
/// when it was not there, updated and deleted from the very state seen last, never a uid turning into another
/// one. It is complete if it ends in what is there now. A deletion of what was never seen does no harm: the object may
/// have been unreadable until it went.
///
/// ```
/// use skopos_object::Change;
/// use skopos_testkit::{History, object};
///
/// let widget = object("{kind: Widget, metadata: {name: a, uid: u1}}");
/// let mut history = History::default();
/// history.record(&Change::created(widget.clone()))?;
/// assert!(history.record(&Change::created(widget.clone())).is_err(), "it is there already");
/// history.record(&Change::deleted(widget))?;
/// history.ends_in(&Default::default())?;
/// # Ok::<(), skopos_testkit::HistoryError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct History {
    present: BTreeMap<ObjectKey, Object>,
    n_changes: u64,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct HistoryError {
    /// The object.
    pub key: ObjectKey,
    /// What does not fit.
    pub problem: String,
}

impl History {
    /// Takes one change.
    ///
    /// # Errors
    /// If it does not go on where the history of its object ended.
    pub fn record(&mut self, change: &Change) -> Result<(), HistoryError> {
        let Some(key) = change.key() else {
            return Err(error(&ObjectKey::cluster(""), "a change without an object"));
        };
        self.n_changes += 1;
        let known = self.present.get(&key);
        let shape = match (change.op, &change.old, &change.new) {
            (Op::Created, None, Some(_)) | (Op::Updated, Some(_), Some(_)) | (Op::Deleted, Some(_), None) => {
                Ok(())
            }
            (op, old, new) => Err(format!("{op:?} from {old:?} to {new:?}")),
        };
        let fits = shape.and_then(|()| match (change.op, known) {
            (Op::Created, None) => Ok(()),
            (Op::Created, Some(known)) => Err(format!("created, but {known:?} is there")),
            (Op::Deleted, None) => Ok(()),
            (Op::Updated, None) => Err("updated, but it was never there".to_owned()),
            (Op::Updated, Some(known)) => goes_on(known, change),
            (Op::Deleted, Some(known)) => is_last_of(known, change),
        });
        fits.map_err(|problem| error(&key, problem))?;
        match &change.new {
            Some(new) => self.present.insert(key, new.clone()),
            None => self.present.remove(&key),
        };
        Ok(())
    }

    /// Compares where the history ended with what is there.
    ///
    /// # Errors
    /// The first object that differs.
    pub fn ends_in(&self, objects: &BTreeMap<ObjectKey, Object>) -> Result<(), HistoryError> {
        for (key, object) in objects {
            match self.present.get(key) {
                None => return Err(error(key, format!("{object:?} is there, but was not seen"))),
                Some(seen) if seen != object => {
                    return Err(error(
                        key,
                        format!("is {object:?}, but was last seen as {seen:?}"),
                    ));
                }
                Some(_) => {}
            }
        }
        match self.present.iter().find(|(key, _)| !objects.contains_key(*key)) {
            Some((key, seen)) => Err(error(key, format!("is gone, but {seen:?} was seen last"))),
            None => Ok(()),
        }
    }

    /// What is there, as far as the subscriber knows.
    pub fn present(&self) -> &BTreeMap<ObjectKey, Object> {
        &self.present
    }

    /// How many changes came.
    pub fn n_changes(&self) -> u64 {
        self.n_changes
    }
}

/// Whether an update starts from the state known, and is of the same object.
fn goes_on(known: &Object, change: &Change) -> Result<(), String> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return Err("an update without both states".to_owned());
    };
    if old != known {
        return Err(format!("updated from {old:?}, but {known:?} was known"));
    }
    if old.uid() != new.uid() {
        return Err(format!("updated from uid {} to {}", old.uid(), new.uid()));
    }
    Ok(())
}

/// Whether a deletion is of the object known. Its last state may be newer than the one seen.
fn is_last_of(known: &Object, change: &Change) -> Result<(), String> {
    match &change.old {
        Some(old) if old.uid() == known.uid() => Ok(()),
        old => Err(format!("deleted as {old:?}, but {known:?} was known")),
    }
}

fn error(key: &ObjectKey, problem: impl Into<String>) -> HistoryError {
    HistoryError {
        key: key.clone(),
        problem: problem.into(),
    }
}
