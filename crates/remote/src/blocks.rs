//! What is asked of a server.

use std::{fmt::Debug, ops::Range};

use bytes::Bytes;
use futures_core::future::BoxFuture;

/// The number of a file. It is never used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// One block of a file. Empty bytes mean that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Of which file.
    pub file: FileId,
    /// Which one, from 0 on.
    pub number: u32,
    /// What is in it.
    pub bytes: Bytes,
}

/// Where a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Which file.
    pub file: FileId,
    /// Its last block that is not empty.
    pub last: u32,
    /// The bytes of that block.
    pub last_len: u32,
}

/// A server did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlocksError {
    /// Someone else opened the same blocks later. Nothing will be written any more.
    #[error("another replica took over what is kept in {0}; this one must stop")]
    TakenOver(String),
    /// The server no longer has all that it acknowledged. Going on would leave files with holes in them.
    #[error(
        "{0} went back to an earlier state, as after a failover to a server that lagged; this replica must stop, and the \
         next start goes on from what is there"
    )]
    WentBack(String),
    /// It is not known whether it was done. To be tried again: doing it twice changes nothing.
    #[error("{0}")]
    Unavailable(String),
}

/// Blocks of files on a server, as the one who may write them has them.
///
/// Opening takes them over: whoever opened before is refused from then on, also with what is still under way.
pub trait Blocks: Debug + Send + Sync + 'static {
    /// The server, for messages; without secrets.
    fn place(&self) -> &str;

    /// Writes blocks, each at most once, in this order. If it fails, some of the first may be written.
    fn put<'a>(&'a self, blocks: &'a [Block]) -> BoxFuture<'a, Result<(), BlocksError>>;

    /// Some blocks of a file, one after the other; those that are not there are empty.
    fn get(&self, file: FileId, numbers: Range<u32>) -> BoxFuture<'_, Result<Vec<Bytes>, BlocksError>>;

    /// The files that have blocks, in order.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Extent>, BlocksError>>;

    /// Removes the blocks of a file whose number will not be used again.
    fn remove(&self, file: FileId) -> BoxFuture<'_, Result<(), BlocksError>>;
}
