//! The whole visible state: all spaces at one revision, and reads at that revision or an older one.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use crate::{
    entries::View,
    entry::{Compacted, Entry, Event, Revision},
    space::{History, Space},
};

/// Which entries of a space to list. The default is all of them, now.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Only keys that start with this.
    pub prefix: String,
    /// Only keys after this one.
    pub after: Option<String>,
    /// At most so many; 0 means no limit.
    pub limit: usize,
    /// The state as of this revision. A revision that is still to come reads the present state:
    /// compare with [`Page::revision`].
    pub at: Option<Revision>,
}

/// A listed part of a space.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entries in key order.
    pub items: Vec<Arc<Entry>>,
    /// The revision of which this is the exact state.
    pub revision: Revision,
    /// How many entries of the range come after the last item.
    pub remaining: usize,
}

/// One committed change to the state.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Event { space: Arc<str>, event: Arc<Event> },
    DropSpace { space: Arc<str>, revision: Revision },
}

impl Change {
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Event { event, .. } => event.revision(),
            Self::DropSpace { revision, .. } => *revision,
        }
    }

    /// Calls an observer with the entry of a write. If it panics that is reported, and others go on.
    pub(crate) fn show(&self, observer: impl FnOnce(&Entry)) {
        let Self::Event { event, .. } = self else { return };
        if catch_unwind(AssertUnwindSafe(|| observer(&event.entry))).is_err() {
            tracing::error!(key = %event.entry.key, "the observer of a write panicked");
        }
    }
}

/// All spaces at one revision.
#[derive(Debug)]
pub(crate) struct State {
    revision: Revision,
    // Reads at a revision before this are refused, whatever the rings still hold.
    compacted: Revision,
    // Where the history of a space that does not exist yet begins: a dropped one may have had its name.
    absent_floor: Revision,
    spaces: HashMap<Arc<str>, Space>,
    history: History,
    // What the revision was at some past times; at most MAX_MARKS.
    marks: VecDeque<(Duration, Revision)>,
}

const MAX_MARKS: usize = 128;

impl State {
    /// The state of which nothing before `revision` is known.
    pub(crate) fn at(revision: Revision, history: History) -> Self {
        Self {
            revision,
            compacted: revision,
            absent_floor: revision,
            spaces: HashMap::new(),
            history,
            marks: VecDeque::new(),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn space(&self, name: &str) -> Option<&Space> {
        self.spaces.get(name)
    }

    /// A space with the shared form of its name.
    pub(crate) fn space_named(&self, name: &str) -> Option<(&Arc<str>, &Space)> {
        self.spaces.get_key_value(name)
    }

    pub(crate) fn space_mut(&mut self, name: &str) -> &mut Space {
        if !self.spaces.contains_key(name) {
            self.spaces.insert(name.into(), Space::new(self.absent_floor));
        }
        self.spaces.get_mut(name).expect("present: inserted above")
    }

    /// The names of the spaces that hold entries, sorted.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let full = self.spaces.iter().filter(|(_, space)| space.len() > 0);
        let mut names: Vec<_> = full.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Applies one change; returns how many old events that evicted. Bells are rung by the caller.
    pub(crate) fn apply(&mut self, change: Change) -> usize {
        debug_assert!(change.revision() > self.revision, "revisions go upwards");
        self.revision = change.revision();
        match change {
            Change::Event { space, event } => {
                let history = self.history;
                self.space_mut(&space).apply(event, &history)
            }
            Change::DropSpace { space, revision } => {
                self.absent_floor = revision;
                // Its watchers look for the space, find no history and are cut off.
                self.spaces
                    .remove(&space)
                    .map_or(0, |space| space.events_after(Revision(0)).count())
            }
        }
    }

    /// Takes what [`Cut::page`] needs, in a moment.
    pub(crate) fn cut(&self, name: &str, range: &Range) -> Result<Cut, Compacted> {
        let at = range.at.unwrap_or(self.revision).min(self.revision);
        let floor = self.compacted.max(self.floor(name));
        if at < self.revision && at < floor {
            return Err(Compacted {
                requested: at,
                oldest: floor,
            });
        }
        let Some(space) = self.space(name) else {
            return Ok(Cut {
                view: View::default(),
                newer: Vec::new(),
                revision: at,
            });
        };
        let view = space.view(&range.prefix, range.after.as_deref());
        Ok(Cut {
            view,
            newer: space.events_after(at).cloned().collect(),
            revision: at,
        })
    }

    /// The oldest revision that a new watch of the space may begin after.
    pub(crate) fn floor(&self, name: &str) -> Revision {
        self.space(name).map_or(self.absent_floor, Space::floor)
    }

    /// A watcher whose cursor is before this has missed events.
    pub(crate) fn lost(&self, name: &str) -> Revision {
        self.space(name).map_or(self.absent_floor, Space::lost)
    }

    /// Checks that a watch may start after `after`.
    pub(crate) fn check_watch(&self, name: &str, after: Revision) -> Result<(), Compacted> {
        let oldest = self.floor(name);
        if after < oldest {
            return Err(Compacted {
                requested: after,
                oldest,
            });
        }
        Ok(())
    }

    /// Forgets all history up to `upto`; returns how many events that were.
    pub(crate) fn compact(&mut self, upto: Revision) -> usize {
        let upto = upto.min(self.revision);
        self.compacted = self.compacted.max(upto);
        self.absent_floor = self.absent_floor.max(upto);
        self.spaces.values_mut().map(|space| space.compact(upto)).sum()
    }

    /// Notes the time and forgets events that are too old; returns how many. A space without events
    /// stays watchable from any revision, but lists end where the time does.
    pub(crate) fn maintain(&mut self, now: Duration) -> usize {
        let spacing = self.history.max_age / (MAX_MARKS as u32 - 2);
        if self.marks.back().is_none_or(|&(time, _)| now >= time + spacing) {
            self.marks.push_back((now, self.revision));
        }
        let mut expired = None;
        while let Some(&(time, revision)) = self.marks.front() {
            if self.marks.len() <= MAX_MARKS && time + self.history.max_age > now {
                break;
            }
            self.marks.pop_front();
            expired = Some(revision);
        }
        let Some(revision) = expired else { return 0 };
        self.compacted = self.compacted.max(revision);
        self.spaces.values_mut().map(|space| space.forget(revision)).sum()
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = (&Arc<str>, &Space)> {
        self.spaces.iter()
    }
}

/// A range of a space at the present revision, with what happened since the one that is wanted.
#[derive(Debug)]
pub(crate) struct Cut {
    view: View,
    newer: Vec<Arc<Event>>,
    revision: Revision,
}

impl Cut {
    pub(crate) fn page(&self, range: &Range) -> Page {
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let (items, remaining) = if self.newer.is_empty() {
            self.present(limit)
        } else {
            self.past(range, limit)
        };
        Page {
            items,
            revision: self.revision,
            remaining,
        }
    }

    fn present(&self, limit: usize) -> (Vec<Arc<Entry>>, usize) {
        let mut items = Vec::with_capacity(limit.min(self.view.len()));
        items.extend(self.view.iter().take(limit).cloned());
        let remaining = self.view.len() - items.len();
        (items, remaining)
    }

    /// The entries at the older revision: the present ones with the newer events undone.
    fn past(&self, range: &Range, limit: usize) -> (Vec<Arc<Entry>>, usize) {
        let wanted = |key: &str| {
            key.starts_with(&range.prefix) && range.after.as_deref().is_none_or(|after| key > after)
        };
        let mut undone: BTreeMap<&str, Option<&Arc<Entry>>> = BTreeMap::new();
        for event in self.newer.iter().filter(|event| wanted(&event.entry.key)) {
            // The oldest event after the revision knows what the key held then.
            undone.entry(&event.entry.key).or_insert(event.previous.as_ref());
        }
        let mut present = self.view.iter().peekable();
        let mut items = Vec::new();
        let mut remaining = 0;
        let mut take = |entry: &Arc<Entry>| {
            if items.len() < limit {
                items.push(entry.clone());
            } else {
                remaining += 1;
            }
        };
        for (key, old) in undone {
            while let Some(entry) = present.next_if(|entry| &*entry.key < key) {
                take(entry);
            }
            present.next_if(|entry| &*entry.key == key);
            old.into_iter().for_each(&mut take);
        }
        present.for_each(take);
        (items, remaining)
    }
}
