//! Data directories that cannot be written to, or that somebody else writes to.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]

#[path = "support/journal.rs"]
mod journal;
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use journal::{Step, record};
use support::{Done, Running, run, skopos, skopos_as};

/// A directory that everybody may read and nobody may write to. Its permissions come back at the end.
struct ReadOnly<'a>(&'a Path);

impl<'a> ReadOnly<'a> {
    fn new(path: &'a Path) -> Self {
        let parent = path.parent().unwrap();
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
        permit(path, 0o555, 0o444);
        Self(path)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        permit(self.0, 0o755, 0o644);
    }
}

fn permit(path: &Path, dirs: u32, files: u32) {
    let is_dir = path.is_dir();
    let mode = if is_dir { dirs } else { files };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten() {
        permit(&entry.unwrap().path(), dirs, files);
    }
}

/// Permissions do not stop root: then somebody else runs the command, who may not reach where it was built.
fn without_rights(dir: &Path, args: &[&str]) -> Done {
    let mut command = match fs::metadata(dir).unwrap().uid() {
        0 => {
            let mut command = skopos_as(&within_reach(dir), dir);
            command.uid(65534).gid(65534);
            command
        }
        _ => skopos(dir),
    };
    command.args(args).output().unwrap().into()
}

/// The program in a directory that everybody may read.
fn within_reach(dir: &Path) -> PathBuf {
    let (built, place) = (Path::new(env!("CARGO_BIN_EXE_skopos")), dir.join("skopos"));
    // It may be on another file system.
    if fs::hard_link(built, &place).is_err() {
        fs::copy(built, &place).unwrap();
    }
    place
}

/// Every file below, with its length.
fn content(path: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(content(&path)),
            false => all.push((path.clone(), fs::metadata(&path).unwrap().len())),
        }
    }
    all.sort();
    all
}

#[test]
fn history_reads_a_journal_that_cannot_be_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join(".skopos");
    record(
        &data,
        &[
            Step::Put(10, "default/web", "{image: nginx, replicas: 1}"),
            Step::Put(20, "default/web", "{image: nginx, replicas: 3}"),
        ],
    );
    let args = ["history", "applications", "web", "-n", "default"];
    let expected = run(dir.path(), &args).ok();
    let before = content(&data);
    let read_only = ReadOnly::new(&data);
    assert_eq!(without_rights(dir.path(), &args).ok(), expected);
    assert_eq!(content(&data), before, "it is left as it was");
    drop(read_only);
}

/// A directory with a kubeconfig of a server that is not there, and an empty data directory.
fn unserved() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = "\
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
";
    let file = dir.path().join("kubeconfig");
    fs::write(&file, kubeconfig).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    dir
}

const RUN: [&str; 6] = [
    "run",
    "--kubeconfig",
    "kubeconfig",
    "--data-dir",
    "data",
    "--no-install",
];
const HINT: &str = "choose a directory that you may write to with --data-dir";

#[test]
fn run_says_that_its_journal_cannot_be_written() {
    let dir = unserved();
    let data = dir.path().join("data");
    let _read_only = ReadOnly::new(&data);
    let done = without_rights(dir.path(), &RUN);
    done.fails(4, &["data/journal", "Permission denied", HINT]);
    assert!(!done.err.contains("another process"), "{done:?}");
}

#[test]
fn run_says_that_the_state_of_deliveries_cannot_be_written() {
    let dir = unserved();
    let (data, journal) = (dir.path().join("data"), dir.path().join("data/journal"));
    fs::create_dir(&journal).unwrap();
    let read_only = ReadOnly::new(&data);
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o777)).unwrap();
    let done = without_rights(dir.path(), &RUN);
    done.fails(4, &["data/react.redb", "Permission denied", HINT]);
    assert!(
        !done.err.contains("move it away"),
        "nothing is wrong with what is there: {done:?}"
    );
    drop(read_only);
}

#[test]
fn a_second_process_is_told_that_the_directory_is_in_use() {
    let dir = unserved();
    let mut first = Running::start(skopos(dir.path()).args(RUN));
    first.lines.find("skopos is watching");
    let second = run(dir.path(), &RUN);
    second.fails(
        4,
        &[
            "data/journal is used by another process",
            "hint: is another process using this data directory?",
        ],
    );
    first.signal("TERM");
    assert_eq!(first.wait(), 0, "the first goes on");
    let third = Running::start(skopos(dir.path()).args(RUN));
    third.lines.find("skopos is watching");
}
