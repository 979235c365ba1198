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
    /// Cuts the file; later writes go to the new end.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
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
                let mut holder = String::new();
                // The content only helps the message; the lock is what counts.
                let _ = lock.take(32).read_to_string(&mut holder);
                return Err(TakeError::Locked {
                    holder: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(TakeError::Io(error)),
        }
        // Written through, so that a full or read-only disk shows itself now.
        lock.set_len(0).map_err(TakeError::Io)?;
        writeln!(lock, "{}", std::process::id()).map_err(TakeError::Io)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
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
        // Append mode, so that writes after a truncate go to the new end.
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Box::new(private().append(true).create_new(true).open(path)?))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(
            OpenOptions::new().append(true).open(self.path.join(name))?,
        ))
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

impl DiskFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
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
