//! A file for a database.

use std::{io, sync::Arc};

use redb::StorageBackend;

use crate::{
    file::{Inode, Order},
    remote::Shared,
};

/// The size of its blocks: that of a page, so that little is written that did not change.
const BLOCK_BYTES: u32 = 4 << 10;

/// A file on a server for a `redb` database.
///
/// What is written stays in memory until the database syncs. Reading and writing blocks, and must not be done by a worker
/// of an asynchronous runtime.
#[derive(Debug)]
pub struct RemoteBackend {
    shared: Arc<Shared>,
    inode: Arc<Inode>,
}

impl RemoteBackend {
    pub(crate) fn new(shared: Arc<Shared>, name: &str) -> Self {
        let inode = {
            let mut names = shared.names();
            let known = names.files.get(name).cloned();
            known.unwrap_or_else(|| names.create(name, BLOCK_BYTES))
        };
        Self { shared, inode }
    }
}

impl StorageBackend for RemoteBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inode.read_exact_at(&self.shared, out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inode.set_len(&self.shared, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inode.sync(&self.shared, Order::Anywhere)?;
        self.shared.put_names()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inode.write_at(&self.shared, data, offset)
    }
}
