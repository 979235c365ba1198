//! Capture every change durably: log, mirror and positions on disk, retention, replay.
//!
//! [`Log`] is how everyone else reads what was captured.

mod entry;
mod log;

pub use crate::{
    entry::{ChangeId, Entry, Observed, Seq},
    log::{Hole, Log, ReadError, Wanted},
};
