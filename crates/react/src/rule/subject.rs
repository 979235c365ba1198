//! One change as rules look at it: what is costly to know is found out once, when it is asked for.

use std::cell::OnceCell;

use serde_json::Value;
use skopos_journal::{Entry, Observed};
use skopos_object::{FieldChange, Op, diff};

use super::path;

/// One change of the journal, for any number of rules to look at.
#[derive(Debug)]
pub struct Subject<'e> {
    entry: &'e Entry,
    before: OnceCell<Option<Value>>,
    after: OnceCell<Option<Value>>,
    changed: OnceCell<Vec<Changed>>,
}

/// A field that changed.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) change: FieldChange,
    /// The path in parts.
    pub(crate) parts: Vec<String>,
}

impl<'e> Subject<'e> {
    /// The change of an entry.
    pub fn new(entry: &'e Entry) -> Self {
        Self {
            entry,
            before: OnceCell::new(),
            after: OnceCell::new(),
            changed: OnceCell::new(),
        }
    }

    /// The entry.
    pub fn entry(&self) -> &'e Entry {
        self.entry
    }

    /// The state before, if there is one.
    pub(crate) fn before(&self) -> Option<&Value> {
        let read = || self.entry.before.as_ref().map(skopos_object::Object::to_value);
        self.before.get_or_init(read).as_ref()
    }

    pub(crate) fn after(&self) -> Option<&Value> {
        let read = || self.entry.after.as_ref().map(skopos_object::Object::to_value);
        self.after.get_or_init(read).as_ref()
    }

    /// What expressions call `object`: the state after, or the last one of an object that is gone.
    pub(crate) fn object(&self) -> &Value {
        self.after().or_else(|| self.before()).unwrap_or(&Value::Null)
    }

    /// The fields that changed; of an object that came or went: none.
    pub(crate) fn changed(&self) -> &[Changed] {
        self.changed.get_or_init(|| {
            let (Some(before), Some(after)) = (self.before(), self.after()) else {
                return Vec::new();
            };
            let changes = diff(before, after).into_iter();
            changes
                .map(|change| Changed {
                    parts: path::parts(&change.path),
                    change,
                })
                .collect()
        })
    }
}

/// What happened, as rules call it.
pub(crate) fn op(op: Op) -> &'static str {
    match op {
        Op::Created => "created",
        Op::Updated => "updated",
        Op::Deleted => "deleted",
    }
}

/// Who wrote, as rules call it: names of field managers, as far as they are known.
pub(crate) fn managers(entry: &Entry) -> Vec<&str> {
    entry.by.iter().map(|writer| writer.manager.as_str()).collect()
}

/// How it was observed, as rules call it.
pub(crate) fn observed(observed: Observed) -> &'static str {
    match observed {
        Observed::Live => "live",
        Observed::Resumed => "resumed",
        Observed::Relist { .. } => "relist",
        Observed::First => "first",
    }
}
