//! What faults do to the lists and watches of a [`ModelSource`](super::ModelSource).

use skopos_object::{Malformed, Object};

use crate::{Fault, fault::spoil};

/// How much comes through before the fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget(Option<(usize, Spent)>);

/// What becomes of the next piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spent {
    /// It comes.
    Fine,
    /// The stream ends instead.
    Ended,
    /// The stream breaks instead.
    Cut,
    /// Nothing comes.
    Stalled,
}

impl Budget {
    pub(super) fn of(fault: Option<&Fault>) -> Self {
        Self(match fault {
            Some(Fault::Cut { after_bytes }) => Some((*after_bytes, Spent::Cut)),
            Some(Fault::End { after_bytes }) => Some((*after_bytes, Spent::Ended)),
            Some(Fault::Stall { after_bytes }) => Some((*after_bytes, Spent::Stalled)),
            _ => None,
        })
    }

    /// Takes `size` bytes, if they are left: there is no half of an event here.
    pub(super) fn spend(&mut self, size: usize) -> Spent {
        match &mut self.0 {
            None => Spent::Fine,
            Some((left, then)) if *left < size => *then,
            Some((left, _)) => {
                *left -= size;
                Spent::Fine
            }
        }
    }

    /// Whether the fault comes even if nothing is sent.
    pub(super) fn at_once(&self) -> Option<Spent> {
        self.0.filter(|(left, _)| *left == 0).map(|(_, then)| then)
    }
}

/// What a reader can tell of an object that is none.
pub(super) fn spoiled(object: &Object) -> Malformed {
    let mut value = object.to_value();
    spoil(&mut value);
    Malformed {
        key: Some(object.key()),
        resource_version: object.resource_version(),
        text: value.to_string().into(),
        reason: "metadata.uid is not a plain string".to_owned(),
    }
}

/// The same where nothing can be told.
pub(super) fn garbled() -> Malformed {
    Malformed {
        key: None,
        resource_version: Default::default(),
        text: r#"{"metadata":!}"#.into(),
        reason: "not JSON".to_owned(),
    }
}
