//! A model of the store that keeps every state there ever was.

use std::collections::BTreeMap;

use crate::{Expect, Revision};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) created: u64,
    pub(super) modified: u64,
}

pub(super) type Content = BTreeMap<String, Value>;

/// One event as compared: put or delete, key, text, revision, previous text.
pub(super) type Seen = (bool, String, String, u64, Option<String>);

/// Every state there ever was.
#[derive(Default)]
pub(super) struct Model {
    states: Vec<[Content; 2]>,
    events: [Vec<Seen>; 2],
    drops: [Vec<u64>; 2],
}

impl Model {
    pub(super) fn new() -> Self {
        // Revision 0 is never asked for; revision 1 is empty.
        Self {
            states: vec![Default::default(), Default::default()],
            ..Self::default()
        }
    }

    pub(super) fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    pub(super) fn at(&self, revision: u64, space: usize) -> &Content {
        &self.states[revision as usize][space]
    }

    pub(super) fn now(&self, space: usize) -> &Content {
        self.at(self.revision(), space)
    }

    pub(super) fn write(
        &mut self,
        space: usize,
        key: &str,
        expect: Expect,
        template: &str,
        delete: bool,
    ) -> bool {
        let current = self.now(space).get(key).cloned();
        let fits = match expect {
            Expect::Absent => current.is_none(),
            Expect::At(Revision(at)) => current.as_ref().is_some_and(|value| value.modified == at),
            Expect::Exists => current.is_some(),
            Expect::Any => true,
        };
        if !fits || (delete && current.is_none()) {
            return false;
        }
        let mut next = self.states.last().unwrap().clone();
        let modified = self.revision() + 1;
        let text = format!("{template}{modified}");
        if delete {
            next[space].remove(key);
        } else {
            let created = current.as_ref().map_or(modified, |value| value.created);
            next[space].insert(
                key.to_owned(),
                Value {
                    text: text.clone(),
                    created,
                    modified,
                },
            );
        }
        self.events[space].push((
            delete,
            key.to_owned(),
            text,
            modified,
            current.map(|value| value.text),
        ));
        self.states.push(next);
        true
    }

    pub(super) fn drop_space(&mut self, space: usize) {
        let mut next = self.states.last().unwrap().clone();
        next[space].clear();
        self.states.push(next);
        self.drops[space].push(self.revision());
    }

    /// When the space was last dropped; 0 if never.
    pub(super) fn dropped(&self, space: usize) -> u64 {
        self.drops[space].last().copied().unwrap_or(0)
    }

    /// Forgets what came after a revision.
    pub(super) fn roll_back(&mut self, revision: u64) {
        self.states.truncate(revision as usize + 1);
        self.events
            .iter_mut()
            .for_each(|events| events.retain(|seen| seen.3 <= revision));
        self.drops
            .iter_mut()
            .for_each(|drops| drops.retain(|drop| *drop <= revision));
    }

    pub(super) fn events_after(&self, space: usize, after: u64, prefix: &str) -> Vec<Seen> {
        let newer = self.events[space]
            .iter()
            .filter(|seen| seen.3 > after && seen.1.starts_with(prefix));
        newer.cloned().collect()
    }
}
