//! The files of the journal.

use std::{
    io::{self, BufReader, Read, Write},
    path::PathBuf,
    sync::Arc,
};

use skopos_disk::{Disk, DiskFile, ReadAt};

use crate::{
    file::{Inode, Order},
    remote::Shared,
};

/// What the names of the journal begin with on the server.
const FOLDER: &str = "journal/";
/// So much is read at once from a file that is read from its beginning.
const READ_BYTES: usize = 256 << 10;

/// A directory of append-only files on a server. Clones are the same one.
///
/// What is written stays in memory until the file is synced. Reading and writing blocks, and must not be done by a
/// worker of an asynchronous runtime.
#[derive(Clone, Debug)]
pub struct RemoteDisk {
    shared: Arc<Shared>,
}

impl RemoteDisk {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn open_file(&self, inode: Arc<Inode>) -> RemoteFile {
        RemoteFile {
            shared: self.shared.clone(),
            inode,
        }
    }

    fn existing(&self, name: &str) -> io::Result<RemoteFile> {
        Ok(self.open_file(self.shared.file(&path(name))?))
    }
}

fn path(name: &str) -> String {
    format!("{FOLDER}{name}")
}

fn found(done: Option<()>, name: &str) -> io::Result<()> {
    done.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
}

impl Disk for RemoteDisk {
    fn path(&self) -> PathBuf {
        self.shared.place().into()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let all = self.shared.file_names();
        let ours = all.iter().filter_map(|name| name.strip_prefix(FOLDER));
        Ok(ours.map(str::to_owned).collect())
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(self.existing(name)?.inode.len())
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let file = self.existing(name)?;
        let reader = Reader { file, at: 0 };
        Ok(Box::new(BufReader::with_capacity(READ_BYTES, reader)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(self.existing(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let block_bytes = self.shared.config.block_bytes;
        let inode = self.shared.names().create(&path(name), block_bytes);
        Ok(Box::new(self.open_file(inode)))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.existing(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let done = self.shared.names().rename(&path(from), &path(to));
        found(done, from)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let done = self.shared.names().remove(&path(name));
        found(done, name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.shared.put_names()
    }
}

/// An open file.
#[derive(Debug)]
struct RemoteFile {
    shared: Arc<Shared>,
    inode: Arc<Inode>,
}

impl Write for RemoteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inode.append(&self.shared, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for RemoteFile {
    fn sync(&mut self) -> io::Result<()> {
        self.inode.sync(&self.shared, Order::Append)?;
        // A file nobody can find is not durable.
        self.shared.put_names()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.inode.set_len(&self.shared, len)
    }
}

impl ReadAt for RemoteFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inode.read_exact_at(&self.shared, buffer, offset)
    }
}

/// Reads from the beginning to the end.
#[derive(Debug)]
struct Reader {
    file: RemoteFile,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.inode.len().saturating_sub(self.at);
        let n = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.file.read_exact_at(&mut buffer[..n], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}
