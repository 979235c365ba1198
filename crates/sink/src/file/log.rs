//! The file itself: appended to, synced, rotated, found again.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::repair::repair;

/// Where and how much.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) path: PathBuf,
    pub(super) max_bytes: u64,
    pub(super) max_files: u32,
}

/// The one writer of a path.
#[derive(Debug)]
pub(super) struct Log {
    settings: Settings,
    open: Option<Open>,
}

/// The file that is written to now. It is locked.
#[derive(Debug)]
struct Open {
    file: File,
    len: u64,
}

impl Log {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, open: None }
    }

    /// Appends whole lines. After an error none of them is in the file.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) if is_at(&open.file, &self.settings.path)? => open,
            _ => open_at(&self.settings.path)?,
        };
        let len = lines.len() as u64;
        if open.len > 0 && open.len + len > self.settings.max_bytes {
            // Locked until the new one is, so that nobody comes between.
            let before = open;
            rotate(&self.settings)?;
            open = open_at(&self.settings.path)?;
            drop(before);
        }
        append(&mut open.file, open.len, lines)?;
        open.len += len;
        // After an error the file is opened anew next time, and looked at from the start.
        self.open = Some(open);
        Ok(())
    }
}

/// What appending needs of a file.
trait Appended: Write {
    fn sync(&self) -> io::Result<()>;
    fn truncate(&self, len: u64) -> io::Result<()>;
}

impl Appended for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

fn append(file: &mut impl Appended, len: u64, lines: &[u8]) -> io::Result<()> {
    let written = file.write_all(lines).and_then(|()| file.sync());
    if written.is_err() {
        // If this fails too, the next one who opens the file repairs it.
        let _ = file.truncate(len);
    }
    written
}

/// Whether the path still names this file: someone may have moved or deleted it.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok(there.dev() == ours.dev() && there.ino() == ours.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn open_at(path: &Path) -> io::Result<Open> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(io::Error::other(
                "another writer has it; give each sink a path of its own",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let len = repair(&mut file)?;
    if len == 0 {
        sync_directory(path)?;
    }
    Ok(Open { file, len })
}

/// Moves `path` to `path.1`, that to `path.2` and so on; the last one goes.
fn rotate(settings: &Settings) -> io::Result<()> {
    let Settings { path, max_files, .. } = settings;
    let old = |n: u32| {
        let mut name = path.clone().into_os_string();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    if *max_files == 0 {
        fs::remove_file(path)?;
    }
    for n in (0..*max_files).rev() {
        let from = if n == 0 { path.clone() } else { old(n) };
        match fs::rename(from, old(n + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_directory(path)
}

/// Makes new names survive a crash.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A disk with room for so many bytes.
    struct Disk {
        room: usize,
        content: Mutex<Vec<u8>>,
    }

    impl Write for Disk {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            let mut content = self.content.lock().unwrap();
            let n = data.len().min(self.room - content.len());
            content.extend_from_slice(&data[..n]);
            match n {
                0 => Err(io::ErrorKind::StorageFull.into()),
                n => Ok(n),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Appended for Disk {
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, len: u64) -> io::Result<()> {
            self.content
                .lock()
                .unwrap()
                .truncate(usize::try_from(len).unwrap());
            Ok(())
        }
    }

    #[test]
    fn full_disk_keeps_no_half_line() {
        let mut disk = Disk {
            room: 10,
            content: Mutex::default(),
        };
        append(&mut disk, 0, b"{\"a\":1}\n").unwrap();
        let error = append(&mut disk, 8, b"{\"b\":2}\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(*disk.content.lock().unwrap(), b"{\"a\":1}\n");
    }
}
