//! A directory in memory that fails, fills up and crashes on demand.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Disk, DiskFile, ReadAt};

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Bytes that still fit, over all files; cutting and removing gives some back.
    pub space: Option<usize>,
    /// Syncs fail from now on.
    pub sync: bool,
    /// Writes fail with an error that is not about space, after so many bytes.
    pub write_after: Option<usize>,
    /// Cutting fails.
    pub truncate: bool,
    /// New files cannot be made.
    pub create: bool,
    /// Each write takes at most so many bytes.
    pub short: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    synced: usize,
}

#[derive(Debug, Default)]
struct Shared {
    files: BTreeMap<String, Arc<Mutex<Inode>>>,
    faults: Faults,
}

/// The directory; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    shared: Arc<Mutex<Shared>>,
}

impl SimDisk {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Says what goes wrong from now on.
    pub fn set(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// The directory after the machine went down: of each file the synced part is there, and of the rest
    /// whatever `keep` says (given its length). Names are as they were.
    pub fn crashed(&self, mut keep: impl FnMut(usize) -> usize) -> SimDisk {
        let after = SimDisk::default();
        for (name, file) in &self.lock().files {
            let mut inode = lock(file).clone();
            let unsynced = inode.bytes.len() - inode.synced;
            let len = inode.synced + keep(unsynced).min(unsynced);
            inode.bytes.truncate(len);
            inode.synced = len;
            after
                .lock()
                .files
                .insert(name.clone(), Arc::new(Mutex::new(inode)));
        }
        after
    }

    /// Changes the bytes of one file.
    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let file = self.lock().files[name].clone();
        let mut inode = lock(&file);
        edit(&mut inode.bytes);
        inode.synced = inode.bytes.len();
    }

    /// The names that begin so.
    pub fn names_with(&self, prefix: &str) -> Vec<String> {
        self.lock()
            .files
            .keys()
            .filter(|name| name.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// The bytes of one file, synced or not.
    pub fn content(&self, name: &str) -> Vec<u8> {
        lock(&self.lock().files[name]).bytes.clone()
    }

    fn file(&self, name: &str) -> io::Result<Arc<Mutex<Inode>>> {
        self.lock()
            .files
            .get(name)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for SimDisk {
    fn path(&self) -> PathBuf {
        "sim".into()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.names_with(""))
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(lock(&*self.file(name)?).bytes.len() as u64)
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        self.file(name)?;
        Ok(Box::new(io::Cursor::new(self.content(name))))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode: self.file(name)?,
        }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut shared = self.lock();
        if shared.faults.create {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let inode = Arc::new(Mutex::new(Inode::default()));
        shared.files.insert(name.to_owned(), inode.clone());
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode: self.file(name)?,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.file(from)?;
        let mut shared = self.lock();
        shared.files.remove(from);
        shared.files.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let freed = lock(&*self.file(name)?).bytes.len();
        let mut shared = self.lock();
        shared.files.remove(name);
        if let Some(space) = &mut shared.faults.space {
            *space += freed;
        }
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: Arc<Mutex<Inode>>,
}

impl Write for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let faults = &mut self.disk.lock().faults;
        let mut n = bytes.len().min(faults.short.unwrap_or(usize::MAX));
        if let Some(left) = &mut faults.write_after {
            n = n.min(*left);
            *left -= n;
            if n == 0 {
                return Err(io::Error::other("injected write error"));
            }
        }
        if let Some(space) = &mut faults.space {
            n = n.min(*space);
            *space -= n;
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        lock(&self.inode).bytes.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn sync(&mut self) -> io::Result<()> {
        if self.disk.lock().faults.sync {
            return Err(io::Error::other("injected sync error"));
        }
        let mut inode = lock(&self.inode);
        inode.synced = inode.bytes.len();
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let faults = &mut self.disk.lock().faults;
        if faults.truncate {
            return Err(io::Error::other("injected truncate error"));
        }
        let mut inode = lock(&self.inode);
        let freed = inode.bytes.len() - len as usize;
        inode.bytes.truncate(len as usize);
        inode.synced = inode.synced.min(len as usize);
        if let Some(space) = &mut faults.space {
            *space += freed;
        }
        Ok(())
    }
}

impl ReadAt for SimFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let inode = lock(&self.inode);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = inode.bytes.get(from..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
