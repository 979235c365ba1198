//! One file: what is not written yet, and where the rest comes from.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use bytes::Bytes;

use crate::{Block, Extent, FileId, remote::Shared};

/// So many bytes are read ahead when a file is read from its beginning to its end.
const READ_AHEAD_BYTES: u32 = 1 << 20;

/// A file, with or without a name.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) id: FileId,
    pub(crate) block_bytes: u32,
    /// One write at a time. Before `state`.
    changing: Mutex<()>,
    /// One sync at a time. Before `state`.
    syncing: Mutex<()>,
    /// Before the cache.
    state: Mutex<State>,
    /// The block after the last one that was read.
    read_next: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    len: u64,
    /// Not on the server yet; an empty one is to go.
    dirty: BTreeMap<u32, Vec<u8>>,
    /// On the way to the server.
    leaving: BTreeMap<u32, Bytes>,
    /// The server has no block from this one on.
    n_there: u32,
    /// Counts what was written to the server: what was read before must not go to the cache after.
    version: u64,
}

/// In which order blocks are written, where a crash may leave only the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From front to back, so that what is there has no gaps; what is cut off goes first, from the end.
    Append,
    /// The end first, so that everything has a place, then from back to front; what is cut off goes last.
    Anywhere,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inode {
    pub(crate) fn new(id: FileId, block_bytes: u32) -> Self {
        Self {
            id,
            block_bytes,
            changing: Mutex::default(),
            syncing: Mutex::default(),
            state: Mutex::default(),
            read_next: AtomicU32::new(0),
        }
    }

    /// A file that the server has, or whose blocks were never written.
    pub(crate) fn known(id: FileId, block_bytes: u32, extent: Option<&Extent>) -> Self {
        let inode = Self::new(id, block_bytes);
        if let Some(extent) = extent {
            let mut state = lock(&inode.state);
            state.len = u64::from(extent.last) * u64::from(block_bytes) + u64::from(extent.last_len);
            state.n_there = extent.last + 1;
        }
        inode
    }

    pub(crate) fn len(&self) -> u64 {
        lock(&self.state).len
    }

    /// Fills a buffer; a file that ends before is an error.
    pub(crate) fn read_exact_at(&self, shared: &Shared, mut out: &mut [u8], offset: u64) -> io::Result<()> {
        if offset + out.len() as u64 > self.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = offset;
        let last = self.place(offset + out.len() as u64).0;
        while !out.is_empty() {
            let (number, start) = self.place(at);
            let bytes = self.block(shared, number, last)?;
            let n = out.len().min(self.block_bytes as usize - start);
            let (now, rest) = out.split_at_mut(n);
            copy_padded(bytes.get(start..).unwrap_or_default(), now);
            at += n as u64;
            out = rest;
        }
        Ok(())
    }

    /// Writes anywhere; the file grows if need be.
    pub(crate) fn write_at(&self, shared: &Shared, mut bytes: &[u8], offset: u64) -> io::Result<()> {
        let _turn = lock(&self.changing);
        let end = offset + bytes.len() as u64;
        let mut changed: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut at = offset;
        while !bytes.is_empty() {
            let (number, start) = self.place(at);
            let n = bytes.len().min(self.block_bytes as usize - start);
            let mut block = match start == 0 && n == self.block_bytes as usize {
                true => Vec::new(),
                false => self.block(shared, number, number)?.to_vec(),
            };
            block.resize(block.len().max(start + n), 0);
            block[start..start + n].copy_from_slice(&bytes[..n]);
            changed.push((number, block));
            at += n as u64;
            bytes = &bytes[n..];
        }
        let mut state = lock(&self.state);
        state.dirty.extend(changed);
        state.len = state.len.max(end);
        Ok(())
    }

    /// Writes at the end.
    pub(crate) fn append(&self, shared: &Shared, bytes: &[u8]) -> io::Result<()> {
        self.write_at(shared, bytes, self.len())
    }

    /// Cuts the file, or lets it grow by zeros.
    pub(crate) fn set_len(&self, shared: &Shared, len: u64) -> io::Result<()> {
        let _turn = lock(&self.changing);
        if len == self.len() {
            return Ok(());
        }
        let (number, start) = self.place(len);
        let first_gone = number + u32::from(start > 0);
        // A file ends with its last block that is not empty, so that one is written anew.
        let last = match first_gone.checked_sub(1) {
            Some(last) => {
                let mut block = self.block(shared, last, last)?.to_vec();
                block.resize((len - u64::from(last) * u64::from(self.block_bytes)) as usize, 0);
                Some((last, block))
            }
            None => None,
        };
        let mut state = lock(&self.state);
        state.dirty.retain(|number, _| *number < first_gone);
        let n_leaving = state.leaving.last_key_value().map_or(0, |(last, _)| last + 1);
        for gone in first_gone..state.n_there.max(n_leaving) {
            state.dirty.insert(gone, Vec::new());
        }
        state.dirty.extend(last);
        state.len = len;
        Ok(())
    }

    /// Has everything written.
    pub(crate) fn sync(&self, shared: &Shared, order: Order) -> io::Result<()> {
        let _turn = lock(&self.syncing);
        let batch = self.take_dirty(order);
        if batch.is_empty() {
            return Ok(());
        }
        let outcome = shared.put(batch);
        let mut state = lock(&self.state);
        let left = std::mem::take(&mut state.leaving);
        match &outcome {
            Ok(()) => {
                state.version += 1;
                let mut cache = shared.cache();
                for (number, bytes) in left {
                    state.n_there = state.n_there.max(number + 1);
                    match bytes.is_empty() {
                        true => cache.remove((self.id, number)),
                        false => cache.insert((self.id, number), bytes),
                    }
                }
            }
            Err(_) => {
                for (number, bytes) in left {
                    state.dirty.entry(number).or_insert_with(|| bytes.to_vec());
                }
            }
        }
        outcome
    }

    fn take_dirty(&self, order: Order) -> Vec<Block> {
        let mut state = lock(&self.state);
        let dirty = std::mem::take(&mut state.dirty);
        state.leaving = dirty
            .into_iter()
            .map(|(number, bytes)| (number, bytes.into()))
            .collect();
        let blocks = state.leaving.iter().map(|(number, bytes)| Block {
            file: self.id,
            number: *number,
            bytes: bytes.clone(),
        });
        let (mut gone, mut there): (Vec<Block>, Vec<Block>) =
            blocks.partition(|block| block.bytes.is_empty());
        gone.reverse();
        match order {
            Order::Append => {
                gone.append(&mut there);
                gone
            }
            Order::Anywhere => {
                there.reverse();
                there.append(&mut gone);
                there
            }
        }
    }

    /// One block as it is now. If it must be fetched, those up to `last` come along, and more if the file is read on.
    fn block(&self, shared: &Shared, number: u32, last: u32) -> io::Result<Bytes> {
        let (version, n_there) = {
            let state = lock(&self.state);
            if let Some(bytes) = self.cached(shared, &state, number) {
                return Ok(bytes);
            }
            (state.version, state.n_there)
        };
        let is_read_on = self.read_next.load(Relaxed) == number;
        let ahead = match is_read_on {
            true => last.saturating_add(READ_AHEAD_BYTES / self.block_bytes),
            false => last,
        };
        let end = n_there.min(ahead.saturating_add(1)).max(number + 1);
        let fetched = shared.get(self.id, number..end)?;
        self.read_next.store(end, Relaxed);
        let state = lock(&self.state);
        if state.version == version {
            let mut cache = shared.cache();
            for (number, bytes) in (number..).zip(&fetched) {
                cache.insert((self.id, number), bytes.clone());
            }
        }
        Ok(fetched.into_iter().next().unwrap_or_default())
    }

    /// A block that need not be fetched.
    fn cached(&self, shared: &Shared, state: &State, number: u32) -> Option<Bytes> {
        if let Some(bytes) = state.dirty.get(&number) {
            return Some(Bytes::copy_from_slice(bytes));
        }
        if let Some(bytes) = state.leaving.get(&number) {
            return Some(bytes.clone());
        }
        if number >= state.n_there {
            return Some(Bytes::new());
        }
        shared.cache().get((self.id, number))
    }

    /// The block that an offset is in, and where in it.
    fn place(&self, offset: u64) -> (u32, usize) {
        let size = u64::from(self.block_bytes);
        let number = u32::try_from(offset / size).unwrap_or(u32::MAX);
        (number, (offset % size) as usize)
    }
}

/// Copies what there is; the rest is zeros.
fn copy_padded(from: &[u8], to: &mut [u8]) {
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
    to[n..].fill(0);
}
