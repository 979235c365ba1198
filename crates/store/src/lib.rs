//! Durable revisioned store: log with group commit, snapshot, recovery, watch hub.
//!
//! Start at [`Store`]. Every write gets the next [`Revision`] of one global counter and is visible to
//! readers and watchers only once it is on disk. Values are opaque bytes in ordered *spaces* (one per
//! resource); each space keeps a bounded ring of recent events, from which watches resume and from which
//! reads at an older revision are answered.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use skopos_store::{Config, Expect, Op, Range, Store, Template, Write};
//!
//! let store = Store::open(Config::default())?; // no directory: memory only
//! let template = Template::with_revision_at(br#"{"resourceVersion":""}"#.to_vec(), 20);
//! let entry = store
//!     .write(Write { space: "core/pods".into(), key: "default/a".into(), expect: Expect::Absent, op: Op::Put(template) })
//!     .await?;
//! assert_eq!(&entry.value[..], br#"{"resourceVersion":"2"}"#);
//! assert_eq!(store.list("core/pods", &Range::default())?.items.len(), 1);
//! store.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # On disk
//!
//! `log-<revision>` files hold the writes from that revision on, in checksummed frames of one sync each, and may end
//! in zeros, which are room for those to come;
//! `snapshot-<revision>` holds the whole state at that revision and replaces the log before it; `LOCK` keeps a
//! second process out. Opening loads the newest snapshot, applies the log after it, and cuts off the one
//! write that a crash may have left unfinished. Damage anywhere else is an [`OpenError`] that names file and
//! place. A full disk refuses writes until there is room; a failed sync ends writes until a restart, because
//! what is on disk is then unknown. Reads go on in both cases.

mod commit;
mod entries;
mod entry;
mod frame;
mod journal;
mod log;
mod plan;
mod recover;
mod snapshot;
mod space;
mod state;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod watcher;
mod write;

pub use crate::{
    entry::{Compacted, Entry, Event, EventOp, Revision},
    recover::{LogSummary, OpenError, read_log},
    space::History,
    state::{Page, Range},
    stats::Stats,
    store::{Config, Store},
    watcher::Watcher,
    write::{Expect, Op, StorageError, Template, Write, WriteError},
};
