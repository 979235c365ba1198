//! Where a running process answers, and what it takes to be heard: a file in its data directory.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The file in the data directory that says where a running process answers.
pub const ADMIN_FILE: &str = "admin.json";

/// Where a running process answers, and the token that it wants to see.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// Where it listens.
    pub address: SocketAddr,
    /// What must stand in `Authorization: Bearer …`.
    pub token: String,
    /// The process.
    pub pid: u32,
}

/// The file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// It could not be written.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said, or what is wrong with it.
        #[source]
        source: io::Error,
    },
}

impl Door {
    /// Makes a new token for an address of this process.
    pub(crate) fn new(address: SocketAddr) -> Self {
        // Two of them are 244 bits of the system's randomness.
        let token = format!(
            "{}{}",
            uuid::Uuid::new_v4().simple(),
            uuid::Uuid::new_v4().simple()
        );
        Self {
            address,
            token,
            pid: std::process::id(),
        }
    }

    /// Reads the file of a data directory; nothing if there is none.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, DoorError> {
        let path = data_dir.join(ADMIN_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(DoorError::Read { path, source }),
        };
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(|error| DoorError::Read {
            path,
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        })
    }

    /// Writes the file, for the owner's eyes only, whole or not at all.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<(), DoorError> {
        let path = data_dir.join(ADMIN_FILE);
        self.replace(data_dir, &path)
            .map_err(|source| DoorError::Write { path, source })
    }

    fn replace(&self, data_dir: &Path, path: &Path) -> io::Result<()> {
        let new = data_dir.join(format!(".{ADMIN_FILE}.{}", self.pid));
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
        drop(file);
        fs::rename(&new, path)
    }

    /// Removes the file, unless another process has written its own meanwhile.
    pub(crate) fn remove(&self, data_dir: &Path) {
        if matches!(Self::read(data_dir), Ok(Some(door)) if door == *self) {
            // If it stays, nobody answers there: who reads it notices.
            let _ = fs::remove_file(data_dir.join(ADMIN_FILE));
        }
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        f.debug_struct("Door")
            .field("address", &self.address)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}
