//! The names of all files: one block, written anew when a name changes.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Block, BlocksError, Extent, FileId, file::Inode};

/// The file that has the names.
pub(crate) const NAMES: FileId = FileId(0);
const FORMAT: u32 = 1;

/// All files by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) files: BTreeMap<String, Arc<Inode>>,
    next: u64,
    /// Counts changes.
    version: u64,
    /// Of these the server knows so many.
    written: u64,
    /// Without a name, but perhaps still being read.
    nameless: Vec<Arc<Inode>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Written {
    format: u32,
    /// No file has this number or a higher one.
    next: u64,
    files: BTreeMap<String, WrittenFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenFile {
    id: u64,
    block: u32,
}

/// The names as a server has them, and the files that have none.
pub(crate) struct Found {
    pub(crate) names: Names,
    pub(crate) nameless: Vec<FileId>,
}

impl Names {
    /// Reads the names, which are empty on a new server.
    pub(crate) fn read(block: &[u8], extents: &[Extent], place: &str) -> Result<Found, BlocksError> {
        let unusable = |what: String| {
            BlocksError::Unavailable(format!("what is kept in {place} cannot be used: {what}"))
        };
        let written = match block.is_empty() {
            true => Written {
                format: FORMAT,
                next: 1,
                files: BTreeMap::new(),
            },
            false => serde_json::from_slice(block)
                .map_err(|error| unusable(format!("the names of its files are damaged ({error})")))?,
        };
        if written.format != FORMAT {
            return Err(unusable(format!(
                "it has format {}, this version reads {FORMAT}",
                written.format
            )));
        }
        let lengths: BTreeMap<FileId, Extent> = extents.iter().map(|extent| (extent.file, *extent)).collect();
        let mut named: Vec<FileId> = vec![NAMES];
        let mut names = Names {
            // A writer that was taken over may have begun files that nobody knows.
            next: extents
                .iter()
                .map(|extent| extent.file.0 + 1)
                .fold(written.next, u64::max),
            version: 1,
            ..Names::default()
        };
        for (name, file) in written.files {
            let id = FileId(file.id);
            named.push(id);
            let inode = Inode::known(id, file.block, lengths.get(&id));
            names.files.insert(name, Arc::new(inode));
        }
        let nameless = lengths.into_keys().filter(|file| !named.contains(file));
        Ok(Found {
            nameless: nameless.collect(),
            names,
        })
    }

    /// A new, empty file; one that had the name before has none any more.
    pub(crate) fn create(&mut self, name: &str, block_bytes: u32) -> Arc<Inode> {
        let inode = Arc::new(Inode::new(FileId(self.next), block_bytes));
        self.next += 1;
        self.version += 1;
        self.nameless
            .extend(self.files.insert(name.to_owned(), inode.clone()));
        inode
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let inode = self.files.remove(from)?;
        self.version += 1;
        self.nameless.extend(self.files.insert(to.to_owned(), inode));
        Some(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<()> {
        let inode = self.files.remove(name)?;
        self.version += 1;
        self.nameless.push(inode);
        Some(())
    }

    /// The block to write and the version that it has, if the server does not have it yet.
    pub(crate) fn unwritten(&self) -> Option<(Block, u64)> {
        if self.written == self.version {
            return None;
        }
        let files = self.files.iter().map(|(name, inode)| {
            let file = WrittenFile {
                id: inode.id.0,
                block: inode.block_bytes,
            };
            (name.clone(), file)
        });
        let written = Written {
            format: FORMAT,
            next: self.next,
            files: files.collect(),
        };
        let bytes = serde_json::to_vec(&written).expect("names and numbers are JSON");
        let block = Block {
            file: NAMES,
            number: 0,
            bytes: Bytes::from(bytes),
        };
        Some((block, self.version))
    }

    /// Notes that the server has a version. Returns the files without a name that nobody reads any more.
    pub(crate) fn note_written(&mut self, version: u64) -> Vec<FileId> {
        self.written = version;
        if self.written != self.version {
            // One of them may have lost its name since, which the server does not know.
            return Vec::new();
        }
        let (unused, used) = std::mem::take(&mut self.nameless)
            .into_iter()
            .partition(|inode| Arc::strong_count(inode) == 1);
        self.nameless = used;
        let unused: Vec<Arc<Inode>> = unused;
        unused.iter().map(|inode| inode.id).collect()
    }
}
