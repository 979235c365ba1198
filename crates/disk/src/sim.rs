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

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    synced: usize,
    /// What was there before writes to reserved room that are not synced, and where, oldest first.
    replaced: Vec<(usize, Vec<u8>)>,
}

impl Inode {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let overlap = bytes.len().min(self.bytes.len().saturating_sub(at));
        if overlap > 0 {
            let room = &mut self.bytes[at..at + overlap];
            self.replaced.push((at, room.to_vec()));
            room.copy_from_slice(&bytes[..overlap]);
        }
        self.bytes.extend_from_slice(&bytes[overlap..]);
    }

    fn sync(&mut self) {
        self.synced = self.bytes.len();
        self.replaced.clear();
    }

    fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.synced = self.synced.min(len);
        self.replaced.retain_mut(|(at, old)| {
            old.truncate(len.saturating_sub(*at));
            !old.is_empty()
        });
    }

    /// Takes writes back that no sync made durable, where `survives` says no.
    fn lose(&mut self, mut survives: impl FnMut(usize) -> bool) {
        for (at, old) in std::mem::take(&mut self.replaced).into_iter().rev() {
            for (at, old) in (at..).zip(old) {
                if !survives(at) {
                    self.bytes[at] = old;
                }
            }
        }
    }
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
    /// What was written to reserved room counts as the first of the rest.
    pub fn crashed(&self, mut keep: impl FnMut(usize) -> usize) -> SimDisk {
        self.after_a_crash(|inode| {
            let replaced = inode.replaced.iter().map(|(_, old)| old.len()).sum::<usize>();
            let from = inode.replaced.first().map_or(0, |(at, _)| *at);
            let unsynced = replaced + inode.bytes.len() - inode.synced;
            let kept = keep(unsynced).min(unsynced);
            inode.lose(|at| at < from + kept);
            inode.bytes.truncate(inode.synced + kept.saturating_sub(replaced));
        })
    }

    /// The directory after the machine went down while sectors were written in any order: each that was not synced is as
    /// it is now or as it was, as `survives` says; lengths are those of now.
    pub fn crashed_in_any_order(&self, mut survives: impl FnMut() -> bool) -> SimDisk {
        self.after_a_crash(|inode| {
            let sectors = inode.bytes.len().div_ceil(SECTOR);
            let fate: Vec<bool> = (0..sectors).map(|_| survives()).collect();
            inode.lose(|at| fate[at / SECTOR]);
            let synced = inode.synced;
            for (at, byte) in inode.bytes.iter_mut().enumerate().skip(synced) {
                if !fate[at / SECTOR] {
                    *byte = 0;
                }
            }
        })
    }

    fn after_a_crash(&self, mut crash: impl FnMut(&mut Inode)) -> SimDisk {
        let after = SimDisk::default();
        for (name, file) in &self.lock().files {
            let mut inode = lock(file).clone();
            crash(&mut inode);
            inode.sync();
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
        inode.sync();
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
            end: 0,
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
            end: 0,
        }))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.resume(name, self.len(name)?)
    }

    fn resume(&self, name: &str, end: u64) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SimFile {
            disk: self.clone(),
            inode: self.file(name)?,
            end: end as usize,
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
    /// Where writes go; what lies behind is reserved.
    end: usize,
}

impl SimFile {
    /// How many of the bytes that make the file longer there is room for.
    fn take_space(faults: &mut Faults, wanted: usize) -> usize {
        let Some(space) = &mut faults.space else {
            return wanted;
        };
        let taken = wanted.min(*space);
        *space -= taken;
        taken
    }
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
        let mut inode = lock(&self.inode);
        let reserved = n.min(inode.bytes.len().saturating_sub(self.end));
        n = reserved + Self::take_space(faults, n - reserved);
        if n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inode.write(self.end, &bytes[..n]);
        self.end += n;
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
        lock(&self.inode).sync();
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let faults = &mut self.disk.lock().faults;
        let mut inode = lock(&self.inode);
        let missing = (self.end + bytes as usize).saturating_sub(inode.bytes.len());
        let got = Self::take_space(faults, missing);
        let len = inode.bytes.len() + got;
        inode.bytes.resize(len, 0);
        match got < missing {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let faults = &mut self.disk.lock().faults;
        if faults.truncate {
            return Err(io::Error::other("injected truncate error"));
        }
        let mut inode = lock(&self.inode);
        let freed = inode.bytes.len() - len as usize;
        inode.truncate(len as usize);
        self.end = len as usize;
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
