//! Who may hold back a write, and hears of those that went through.

use std::error::Error as StdError;

use tokio::time::Instant;

use crate::{Answer, Call};

/// Is asked before every write of a [`Client`](crate::Client), and told of every write that succeeded.
///
/// For those who may write only under a condition, such as being the leader, and for those who have to know
/// what was written. A write is any request but a GET. Reads, lists and watches are not asked about.
pub trait WriteGuard: Send + Sync {
    /// Says until when the write has to be answered, if there is such a time, or why it must not be sent.
    ///
    /// Asked again before each repetition. A write that is not answered in time is dropped; it may have happened.
    fn admit(&self, call: &Call) -> Result<Option<Instant>, Box<dyn StdError + Send + Sync>>;

    /// Hears that the server did it.
    fn written(&self, call: &Call, answer: &Answer);

    /// Hears that a write which was admitted is over, once for each time it was; also if nobody waits for it any more.
    fn ended(&self, call: &Call, fate: Fate) {
        let _ = (call, fate);
    }
}

/// Whether it is known what became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server did it, or refused it.
    Known,
    /// It may have happened, and may still happen: the answer was lost, late, or not waited for.
    Unknown,
}

/// A write on its way. Dropped with the future that waits for its answer.
pub(crate) struct Sent<'a> {
    pub(crate) guard: &'a dyn WriteGuard,
    pub(crate) call: &'a Call,
    pub(crate) fate: Fate,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.guard.ended(self.call, self.fate);
    }
}
