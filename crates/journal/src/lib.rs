//! Capture every change durably: log, mirror and positions on disk, retention, replay.
//!
//! A [`Journal`] keeps, for each collection that is captured, what happened to its objects, a mirror of the objects
//! that exist, and up to where it is known, all written in one transaction. [`Capture`] fills it, [`Log`] is how everyone else reads it.
//!
//! # On disk
//!
//! `segment-<n>` files hold records with a checksum each: changes, positions, collections, holes. The last record of a
//! transaction says so, and what follows the last such record is cut off at the next start. A state before and after is
//! compressed as one. The mirror is in memory only as keys, versions and places in the segments; `checkpoint-<n>` saves
//! reading the segments before it, `index-<n>` where in a complete segment what stands. A segment is
//! written anew without what nobody needs when that is half of it, after the last states of objects that still exist were copied
//! to the end of the log. `LOCK` keeps a
//! second process out.

mod answer;
mod bytes;
mod capture;
mod checkpoint;
mod commit;
mod compact;
mod entry;
mod existing;
mod header;
mod holes;
mod journal;
mod log;
mod metrics;
mod read;
mod record;
mod recover;
mod redact;
mod retain;
mod scan;
mod segment;
mod sidecar;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod writers;

pub use crate::{
    capture::{Asked, Capture, CaptureConfig, CaptureStatus, Phase, Selection, SelectionPart},
    commit::CommitError,
    entry::{ChangeId, Entry, Observed, Seq},
    journal::{Captured, Journal, JournalConfig, JournalStats, OpenError},
    log::{Hole, Log, ReadError, Wanted},
    recover::Damage,
    redact::{BadPath, FieldPath, REDACTED},
    retain::{Limits, Retention},
    trace::{BadId, Sampling, SpanId, TRACE_TARGET, TraceId},
    writers::Writer,
};
