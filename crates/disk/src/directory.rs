//! What is asked of a directory, and a real one.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// A flat directory of files.
pub trait Disk: Debug + Send + Sync + 'static {
    /// The path, for messages.
    fn path(&self) -> PathBuf;
    /// The names of the files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// The length of a file.
    fn len(&self, name: &str) -> io::Result<u64>;
    /// A file from its beginning.
    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;
    /// A file to be read anywhere, also while it grows.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>>;
    /// A new, empty file; replaces an old one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// An existing file, to be written at its end.
    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// An existing file, to be written from `end` on; behind it are only zeros, which stay as room where there is such a
    /// thing, and are cut off where there is not.
    fn resume(&self, name: &str, end: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut file = self.append(name)?;
        if self.len(name)? > end {
            file.truncate(end)?;
        }
        Ok(file)
    }
    /// Gives a file another name, and replaces an old one of that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file that is only ever appended to or cut.
pub trait DiskFile: Write + Debug + Send {
    /// Makes contents and length durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file, and the room behind it; later writes go to the new end.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// Makes room for so many bytes: zeros behind the end, which later writes replace. A sync of what fits in there need
    /// not make a new length durable, which takes a file system longer than the contents. Does nothing by default.
    fn reserve(&mut self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

/// An open file that is read anywhere.
pub trait ReadAt: Debug + Send + Sync {
    /// Fills a buffer from an offset on; a file that ends before is an error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A real directory, locked against a second process.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

/// Why the directory could not be taken.
#[derive(Debug)]
pub enum TakeError {
    /// Another process has it.
    Locked {
        /// Its process id, if it is known.
        holder: String,
    },
    /// It cannot be made or written to.
    Io(io::Error),
}

impl Directory {
    /// Creates the directory if need be, and locks it until this is dropped or the process ends.
    pub fn take(path: &Path) -> Result<Self, TakeError> {
        create_dir(path).map_err(TakeError::Io)?;
        let name = path.join("LOCK");
        let mut lock = private()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .map_err(TakeError::Io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(TakeError::Locked {
                    holder: Self::holder(lock),
                });
            }
            Err(TryLockError::Error(error)) => return Err(TakeError::Io(error)),
        }
        // Written through, so that a full or read-only disk shows itself now.
        lock.set_len(0).map_err(TakeError::Io)?;
        writeln!(lock, "{}", std::process::id()).map_err(TakeError::Io)?;
        Ok(Self::locked(path, lock))
    }

    pub(crate) fn locked(path: &Path, lock: File) -> Self {
        Self {
            path: path.to_owned(),
            _lock: lock,
        }
    }

    /// Who has the lock. That only helps the message; the lock is what counts.
    pub(crate) fn holder(lock: File) -> String {
        let mut holder = String::new();
        let _ = lock.take(32).read_to_string(&mut holder);
        holder.trim().to_owned()
    }
}

impl Disk for Directory {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The length of a file.
    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path.join(name))?.len())
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::BufReader::with_capacity(
            256 << 10,
            File::open(self.path.join(name))?,
        )))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = private().write(true).create_new(true).open(path)?;
        Ok(Box::new(Growing { file, end: 0 }))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        let end = file.metadata()?.len();
        Ok(Box::new(Growing { file, end }))
    }

    fn resume(&self, name: &str, end: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        Ok(Box::new(Growing { file, end }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Creates a directory and those above it, and makes their names durable: a log in a directory that is
/// gone after a power cut is no log.
fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create_dir(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        outcome => outcome?,
    }
    File::open(parent)?.sync_all()
}

/// Options for files that only the owner may read: the store holds Secrets.
#[cfg(unix)]
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Options for new files; access is what the directory grants.
#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
}

/// A file that is written from `end` on, whatever lies behind.
#[derive(Debug)]
struct Growing {
    file: File,
    end: u64,
}

/// Zeros are written in pieces of this size.
const ZEROS: usize = 64 << 10;

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = write_at(&self.file, bytes, self.end)?;
        self.end += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for Growing {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.end = len;
        Ok(())
    }

    // Written, not only allocated: blocks that were never written must be marked when they first are, which a sync has
    // to wait for as it waits for a length.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let (mut at, wanted) = (self.file.metadata()?.len().max(self.end), self.end + bytes);
        let zeros = vec![0; ZEROS];
        while at < wanted {
            let piece = usize::try_from(wanted - at).unwrap_or(ZEROS).min(ZEROS);
            match write_at(&self.file, &zeros[..piece], at) {
                Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
                Ok(n) => at += n as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    file.write(bytes)
}

#[cfg(unix)]
impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }
}

/// Each read through a handle of its own: positions of one handle are shared.
#[cfg(not(unix))]
impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        use io::Seek as _;
        let mut file = self.try_clone()?;
        file.seek(io::SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }
}

/// Writes everything. A file that takes no more counts as a full disk.
pub fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error goes away when there is room.
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
