//! Reconcilers, manager, leader election, finalizers, conditions, events.

mod fence;
mod leader;

pub use crate::fence::{Fence, FenceKeeper, NotLeading};
pub use crate::leader::{Elector, Holder, LeaderConfig, LeaderConfigError, Release, Resigned};
