//! One observed change of one object.

use crate::{FieldChange, Object, ObjectKey, diff};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// It appeared.
    Created,
    /// It changed.
    Updated,
    /// It is gone. To who follows a selection (by labels, say) also: it is no longer selected, but may exist.
    Deleted,
}

/// One observed change of one object: what it was and what it is.
///
/// `old` is the state last observed before, which need not be the state just before: an observer
/// may miss versions in between, never the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub op: Op,
    /// The state before; nothing if the object was created. Of a deleted object: its last state.
    pub old: Option<Object>,
    /// The state after; nothing if the object is gone.
    pub new: Option<Object>,
    /// Whether the newest state here is the last one the object had. False only for deletions that
    /// were noticed because a later list lacked the object: it may have changed before it went.
    pub is_final: bool,
}

impl Change {
    /// An object appeared.
    pub fn created(new: Object) -> Self {
        Self {
            op: Op::Created,
            old: None,
            new: Some(new),
            is_final: true,
        }
    }

    /// An object changed.
    pub fn updated(old: Object, new: Object) -> Self {
        Self {
            op: Op::Updated,
            old: Some(old),
            new: Some(new),
            is_final: true,
        }
    }

    /// An object is gone, and `last` is the state it had when it went.
    pub fn deleted(last: Object) -> Self {
        Self {
            op: Op::Deleted,
            old: Some(last),
            new: None,
            is_final: true,
        }
    }

    /// An object was found missing; `cached` is the last state seen.
    pub fn missing(cached: Object) -> Self {
        Self {
            op: Op::Deleted,
            old: Some(cached),
            new: None,
            is_final: false,
        }
    }

    /// The newest state known.
    pub fn object(&self) -> Option<&Object> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Which object.
    pub fn key(&self) -> Option<ObjectKey> {
        self.object().map(Object::key)
    }

    /// The fields that differ between before and after; all of them as one if there is only one state.
    pub fn diff(&self) -> Vec<FieldChange> {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => diff(&old.to_value(), &new.to_value()),
            (old, new) => {
                let [old, new] = [old, new].map(|object| object.as_ref().map(Object::to_value));
                vec![FieldChange {
                    path: String::new(),
                    old,
                    new,
                }]
            }
        }
    }
}
