//! Reconcilers, manager, leader election, finalizers, conditions, events.

mod fence;

pub use crate::fence::{Fence, FenceKeeper, NotLeading};
