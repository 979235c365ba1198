//! Files that only this user may read, written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::PkiError;

/// Longest key, certificate bundle or token that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads a small text file.
pub(in super::super) fn read(path: &Path) -> Result<String, PkiError> {
    let failed = |source| PkiError::Read {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let n_read = File::open(path)
        .map_err(failed)?
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if n_read as u64 > MAX_BYTES {
        let too_large = io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {MAX_BYTES} bytes"),
        );
        return Err(failed(too_large));
    }
    Ok(text)
}

/// Writes a file with mode 0600 beside its place and moves it there, so that a reader sees the old or the new.
pub(in super::super) fn write_private(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    write_atomically(path, content).map_err(|source| PkiError::Write {
        path: path.to_owned(),
        source,
    })
}

fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_string_lossy();
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let beside = dir.join(format!(".{name}.{}", uuid::Uuid::new_v4().simple()));
    let written = write_new(&beside, content).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = fs::remove_file(&beside);
        return written;
    }
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes the directory, for this user only, if it is not there.
pub(super) fn create_dir(dir: &Path) -> Result<(), PkiError> {
    let mut builder = DirBuilder::new();
    private_dir(builder.recursive(true))
        .create(dir)
        .map_err(|source| PkiError::Write {
            path: dir.to_owned(),
            source,
        })
}

#[cfg(unix)]
fn private_dir(builder: &mut DirBuilder) -> &mut DirBuilder {
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700)
}

#[cfg(not(unix))]
fn private_dir(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}
