//! Capture every change durably: log, mirror and positions on disk, retention, replay.

mod entry;

pub use crate::entry::{ChangeId, Entry, Observed, Seq};
