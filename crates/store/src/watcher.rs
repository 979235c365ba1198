//! A cursor over the events of one space.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tokio::sync::watch;

use crate::{
    commit::Core,
    entry::{Compacted, Event, Revision},
    state::State,
    stats::add,
};

/// Follows the events of one space under a prefix, in order and without gaps.
///
/// It holds a position in the space's history and no buffer of its own: a slow watcher costs nothing, and
/// one that is slower than the history is long gets [`Compacted`].
#[derive(Debug)]
pub struct Watcher {
    core: Arc<Core>,
    space: Box<str>,
    prefix: Box<str>,
    cursor: Revision,
    bell: watch::Receiver<()>,
}

// Bounds what one call copies under the lock and hands out.
const MAX_EVENTS_PER_CALL: usize = 1_000;

impl Watcher {
    pub(crate) fn new(
        core: Arc<Core>,
        space: &str,
        prefix: &str,
        after: Revision,
    ) -> Result<Self, Compacted> {
        let bell = listen(&core, space, after)?;
        core.counters.watchers.fetch_add(1, Relaxed);
        Ok(Self {
            core,
            space: space.into(),
            prefix: prefix.into(),
            cursor: after,
            bell,
        })
    }

    /// Waits for the next events: at least one, at most a thousand, oldest first. Cancel-safe. After the
    /// store is closed it waits for ever.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Compacted> {
        loop {
            self.bell.borrow_and_update();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.bell.changed().await.is_err() {
                // The space was dropped, and its history with it.
                let oldest = self.core.read().floor(&self.space);
                return Err(self.cut_off(oldest));
            }
        }
    }

    /// Takes the events that are there now, without waiting; empty if there are none.
    pub fn take(&mut self) -> Result<Vec<Arc<Event>>, Compacted> {
        let core = self.core.clone();
        let state = core.read();
        if self.cursor < state.lost(&self.space) {
            return Err(self.cut_off(state.floor(&self.space)));
        }
        let pending = self.pending(&state);
        let events: Vec<_> = pending.take(MAX_EVENTS_PER_CALL).cloned().collect();
        self.cursor = match events.last() {
            Some(last) if events.len() == MAX_EVENTS_PER_CALL => last.revision(),
            // A watcher from a future revision must not be moved back.
            _ => self.cursor.max(state.revision()),
        };
        Ok(events)
    }

    /// The revision up to which every event was handed out. Moves on with writes to other spaces too.
    pub fn progress(&self) -> Revision {
        let state = self.core.read();
        let behind = self.cursor < state.lost(&self.space) || self.pending(&state).next().is_some();
        if behind {
            self.cursor
        } else {
            self.cursor.max(state.revision())
        }
    }

    /// Whether it waits for a revision that is still to come, so that it can say nothing of progress.
    pub fn is_ahead(&self) -> bool {
        self.cursor > self.core.read().revision()
    }

    fn pending<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Arc<Event>> {
        let space = state.space(&self.space);
        let newer = space
            .into_iter()
            .flat_map(|space| space.events_after(self.cursor));
        newer.filter(|event| event.entry.key.starts_with(&*self.prefix))
    }

    fn cut_off(&self, oldest: Revision) -> Compacted {
        add(&self.core.counters.cut_off_watchers, 1);
        Compacted {
            requested: self.cursor,
            oldest,
        }
    }
}

/// Subscribes to what rings on new events. Only the first watch of a space that is not there yet has to
/// hold up the readers.
fn listen(core: &Core, space: &str, after: Revision) -> Result<watch::Receiver<()>, Compacted> {
    let state = core.read();
    state.check_watch(space, after)?;
    if let Some(space) = state.space(space) {
        return Ok(space.listen());
    }
    drop(state);
    let mut state = core.write();
    state.check_watch(space, after)?;
    Ok(state.space_mut(space).listen())
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.core.counters.watchers.fetch_sub(1, Relaxed);
    }
}
