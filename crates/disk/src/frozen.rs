//! A directory that is only read.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use crate::{Directory, Disk, DiskFile, ReadAt, TakeError};

/// A real directory that is left as it is, such as one on a disk that cannot be written to: what is there is read, and
/// what would be written goes nowhere.
#[derive(Debug)]
pub struct Frozen(Directory);

impl Frozen {
    /// Looks at a directory that no process writes to.
    ///
    /// # Errors
    /// If a process has it, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, TakeError> {
        let lock = match File::open(path.join("LOCK")) {
            Ok(lock) => lock,
            // A copy may have none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                File::open(path).map_err(TakeError::Io)?
            }
            Err(error) => return Err(TakeError::Io(error)),
        };
        if let Err(TryLockError::WouldBlock) = lock.try_lock_shared() {
            return Err(TakeError::Locked {
                holder: Directory::holder(lock),
            });
        }
        Ok(Self(Directory::locked(path, lock)))
    }
}

impl Disk for Frozen {
    fn path(&self) -> PathBuf {
        self.0.path()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.0.len(name)
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        self.0.read(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        self.0.open(name)
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Nowhere))
    }

    fn append(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Nowhere))
    }

    fn resume(&self, _: &str, _: u64) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Nowhere))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that takes everything and keeps nothing.
#[derive(Debug)]
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for Nowhere {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
