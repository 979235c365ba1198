//! What can go wrong with the engine itself.

use std::{io, path::PathBuf};

use skopos_disk::is_no_space;

/// The engine cannot go on, or cannot do what was asked.
///
/// After [`NoSpace`](Self::NoSpace) try again once there is room: nothing is lost. After [`Storage`](Self::Storage) open
/// it anew: some events may be sent twice. The others come back until someone changes something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has the state open.
    #[error("{} is in use: stop the other process, or choose another data directory", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made, read or written.
    #[error("open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
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
    /// There is no room on the disk for the state.
    #[error("there is no room for the state of deliveries: {0}")]
    NoSpace(String),
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

impl Error {
    /// What the system said, if there was no room on the disk.
    pub fn no_space(&self) -> Option<String> {
        match self {
            Self::NoSpace(what) => Some(what.clone()),
            Self::Open { source, .. } if is_no_space(source) => Some(source.to_string()),
            _ => None,
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Error {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Io(error) if is_no_space(&error) => Self::NoSpace(error.to_string()),
            error => Self::Storage(Box::new(error)),
        }
    }
}
