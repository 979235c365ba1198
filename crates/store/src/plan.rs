//! Decides what a group of writes does: checks preconditions and gives revisions. Pure.

use std::{collections::HashMap, collections::HashSet, sync::Arc};

use crate::{
    entry::{Entry, Event, EventOp, Revision},
    state::{Change, State},
    write::{Op, Write, WriteError},
};

/// What a writer asks of the committer.
#[derive(Debug)]
pub(crate) enum Task {
    Write(Write),
    DropSpace(Arc<str>),
}

impl Task {
    /// About how many bytes it adds to the log.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Write(write) => write.space.len() + write.key.len() + write.op.template().bytes.len(),
            Self::DropSpace(space) => space.len(),
        }
    }
}

/// The outcome of each task in order, as if they had run one after the other on `state`.
///
/// Revisions are dense: the changes take `state.revision() + 1` and on, without gaps. Recovery relies on
/// it to notice missing parts of the log.
pub(crate) fn plan<'a>(
    state: &State,
    tasks: impl IntoIterator<Item = &'a Task>,
    max_write_bytes: usize,
) -> Vec<Result<Change, WriteError>> {
    let mut batch = Batch {
        state,
        written: HashMap::new(),
        dropped: HashSet::new(),
        last: state.revision(),
    };
    tasks
        .into_iter()
        .map(|task| match task {
            Task::Write(write) => batch.write(write, max_write_bytes),
            Task::DropSpace(space) => Ok(batch.drop_space(space)),
        })
        .collect()
}

/// The state with the batch so far on top.
struct Batch<'a> {
    state: &'a State,
    written: HashMap<(&'a str, &'a str), Option<Arc<Entry>>>,
    dropped: HashSet<&'a str>,
    last: Revision,
}

impl<'a> Batch<'a> {
    fn current(&self, space: &str, key: &str) -> Option<Arc<Entry>> {
        if let Some(written) = self.written.get(&(space, key)) {
            return written.clone();
        }
        if self.dropped.contains(space) {
            return None;
        }
        self.state.space(space)?.get(key).cloned()
    }

    fn next_revision(&mut self) -> Revision {
        self.last = Revision(self.last.0 + 1);
        self.last
    }

    fn write(&mut self, write: &'a Write, limit: usize) -> Result<Change, WriteError> {
        let size = write.space.len() + write.key.len() + write.op.template().bytes.len();
        if size > limit {
            return Err(WriteError::TooLarge { size, limit });
        }
        let previous = self.current(&write.space, &write.key);
        let is_delete = matches!(write.op, Op::Delete { .. });
        if !write.expect.holds(previous.as_deref()) || (is_delete && previous.is_none()) {
            return Err(WriteError::Conflict { current: previous });
        }
        let revision = self.next_revision();
        let entry = Arc::new(Entry {
            key: write.key.as_str().into(),
            value: write.op.template().fill(revision),
            created: previous.as_ref().map_or(revision, |entry| entry.created),
            modified: revision,
        });
        let now = (!is_delete).then(|| entry.clone());
        self.written.insert((&write.space, &write.key), now);
        let op = if is_delete { EventOp::Delete } else { EventOp::Put };
        let event = Event {
            op,
            created: previous.is_none(),
            entry,
            previous,
        };
        Ok(Change::Event {
            space: write.space.clone(),
            event: Arc::new(event),
        })
    }

    fn drop_space(&mut self, space: &'a Arc<str>) -> Change {
        self.written.retain(|(name, _), _| *name != &**space);
        self.dropped.insert(space);
        Change::DropSpace {
            space: space.clone(),
            revision: self.next_revision(),
        }
    }
}
