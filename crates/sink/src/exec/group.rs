//! A command and everything it started.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The group of processes that a command leads. Dropping it kills whoever is left in it.
#[derive(Debug)]
pub(super) struct Group(Option<Pid>);

impl Group {
    /// The group of a child that was started as the leader of one.
    pub(super) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // Fails if nobody is left, which is what is wanted.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}
