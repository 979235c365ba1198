//! How captured changes are read, whatever keeps them.

use std::{error::Error, fmt};

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use skopos_object::{ObjectKey, Op};
use tokio::sync::watch;

use crate::{Entry, Seq};

/// A durable log of changes. What it shows is on disk.
pub trait Log: Send + Sync + fmt::Debug {
    /// The number of the oldest change that is kept; one more than [`head`](Self::head) if there is none.
    fn first(&self) -> Seq;

    /// The number of the newest change; 0 if there never was one.
    fn head(&self) -> Seq;

    /// Tells each time there is a new head.
    fn advanced(&self) -> watch::Receiver<Seq>;

    /// Reads changes after a number, in order: as many as are wanted, fewer only at the head, if they are large, or after
    /// looking at many that were not wanted. The second value is up to where it has looked, from where to go on.
    fn read<'a>(
        &'a self,
        after: Seq,
        wanted: &'a Wanted,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, Seq), ReadError>>;

    /// Reads one change; nothing if it is not kept any more.
    fn get(&self, seq: Seq) -> BoxFuture<'_, Result<Option<Entry>, ReadError>>;

    /// The objects that exist now, each as the last change that made it what it is. Of the kind and the namespaces wanted;
    /// `after` is the key to go on after. Fewer than `limit` are the last ones; there are more if several have the key of
    /// the last, as those of a kind that is known by itself and by namespace. One whose last state is damaged comes
    /// without `before` and `after`, with the time of the newest change.
    fn current<'a>(
        &'a self,
        wanted: &'a Wanted,
        after: Option<&'a ObjectKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Entry>, ReadError>>;

    /// The holes, the newest last: where changes may be missing, because the source no longer had them.
    fn holes(&self) -> Vec<Hole>;

    /// Keeps changes after `seq` from being removed by retention, on behalf of `name`, for as long as that name asks for it.
    /// `None` lets go. Not durable: said anew at each start, before retention begins.
    fn hold(&self, name: &str, seq: Option<Seq>);
}

/// Which changes to read. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only of this source.
    pub source: Option<String>,
    /// Only of this group and kind (or plural), in any version.
    pub kind: Option<(String, String)>,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only of this name.
    pub name: Option<String>,
    /// Only these operations; empty means all.
    pub ops: Vec<Op>,
    /// Only changes written down at or after this.
    pub since: Option<Timestamp>,
    /// Only changes written down before this.
    pub until: Option<Timestamp>,
}

/// A time for which a kind's changes are not completely known: a later list was compared with what was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Which kind, as `plural.group`.
    pub collection: String,
    /// Everything before this is known.
    pub from: Timestamp,
    /// Everything after this is known.
    pub to: Timestamp,
    /// Why, such as `expired`.
    pub reason: String,
    /// The first change that was found by the comparison; the others follow.
    pub seq: Seq,
}

/// A change could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// What was asked for has been removed by retention.
    #[error("changes up to {0} are no longer kept")]
    Removed(Seq),
    /// A part of the log is damaged; what is before and after it can be read.
    #[error("change {seq} cannot be read: {what}")]
    Damaged {
        /// From this one on.
        seq: Seq,
        /// Up to and including this one.
        to: Seq,
        /// What is wrong and where.
        what: String,
    },
    /// The storage failed.
    #[error("read the journal")]
    Storage(#[source] Box<dyn Error + Send + Sync>),
}
