//! What can go wrong with the engine itself.

use std::path::PathBuf;

/// The engine cannot go on, or cannot do what was asked.
///
/// After [`Storage`](Self::Storage) open it anew once there is room again: nothing is lost, some events may be sent
/// twice. The others come back until someone changes something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has the state open.
    #[error("{} is in use: stop the other process, or choose another data directory", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else, or damaged.
    #[error(
        "{} cannot be used: {what}; restore it, or move it away, after which rules begin at the newest change",
        path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The state could not be read or written.
    #[error("keep the state of deliveries")]
    Storage(#[source] Box<redb::Error>),
    /// There is no such rule in the plan.
    #[error("there is no rule {0:?}")]
    NoSuchRule(String),
    /// There is no such sink in the plan.
    #[error("there is no sink {0:?}")]
    NoSuchSink(String),
    /// There is no such dead letter.
    #[error("there is no dead letter {0:?}")]
    NoSuchLetter(String),
    /// There is no such replay; it may be finished.
    #[error("there is no replay {0:?}")]
    NoSuchReplay(String),
    /// The range of a replay is not in the journal any more.
    #[error("the journal begins at change {first}: replay from there or later")]
    NotKept {
        /// The oldest change there is.
        first: u64,
    },
    /// The reactor has stopped.
    #[error("deliveries have stopped")]
    Stopped,
}

impl<E: Into<redb::Error>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Storage(Box::new(error.into()))
    }
}
