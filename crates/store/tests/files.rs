//! The store on a real directory: locks, directories that cannot be used, a file size limit.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    env,
    error::Error,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use skopos_store::{
    Config, Expect, Op, OpenError, Revision, StorageError, Store, Template, Write, WriteError,
};

const SPACE: &str = "core/configmaps";

fn config(dir: &Path) -> Config {
    Config {
        dir: Some(dir.to_owned()),
        ..Config::default()
    }
}

fn put(key: &str, value: &str) -> Write {
    let op = Op::Put(Template::plain(value.to_owned().into_bytes()));
    Write {
        space: SPACE.into(),
        key: key.into(),
        expect: Expect::Any,
        op,
    }
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn a_directory_is_made_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("not/there/yet");
    let store = Store::open(config(&path)).unwrap();
    run(store.write(put("a", "1"))).unwrap();
    drop(store);
    let store = Store::open(config(&path)).unwrap();
    assert_eq!(&run(async { store.get(SPACE, "a") }).unwrap().value[..], b"1");
    assert_eq!(store.revision(), Revision(2));
}

#[test]
fn a_directory_in_use_is_refused_and_the_holder_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(config(dir.path())).unwrap();
    let error = Store::open(config(dir.path())).unwrap_err();
    assert!(matches!(&error, OpenError::Locked { holder, .. } if *holder == std::process::id().to_string()));
    run(store.close());
    Store::open(config(dir.path())).unwrap();
}

#[test]
fn a_path_that_cannot_be_a_directory_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below"), "/proc/skopos".into()] {
        let error = Store::open(config(&path)).unwrap_err();
        assert!(matches!(error, OpenError::Directory { .. }), "{error:?}");
        assert!(error.to_string().contains(&path.display().to_string()) && error.source().is_some());
    }
}

/// Permissions do not stop root, so this looks at what a user without rights would see only when it is one.
#[cfg(unix)]
#[test]
fn an_unwritable_directory_is_a_clear_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::write(dir.path().join("probe"), "").is_ok();
    match Store::open(config(dir.path())) {
        Ok(_) => assert!(is_root),
        Err(error) => assert!(matches!(error, OpenError::Directory { .. }), "{error:?}"),
    }
}

#[test]
fn a_later_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(run(async {
        let store = Store::open(config(dir.path())).unwrap();
        store.write(put("a", "1")).await.unwrap();
        store
    }));
    let log = dir.path().join("log-00000000000000000002");
    let mut bytes = fs::read(&log).unwrap();
    bytes[8] = 9;
    fs::write(&log, &bytes).unwrap();
    let error = Store::open(config(dir.path())).unwrap_err();
    assert!(matches!(error, OpenError::Version { found: 9, .. }), "{error:?}");
    assert_eq!(fs::read(&log).unwrap(), bytes, "left as it was");
}

const CHILD: &str = "SKOPOS_LIMIT_CHILD";

/// The operating system itself refuses to let the log grow: the same as a full disk, and needs no rights.
#[cfg(unix)]
#[test]
fn a_log_that_may_not_grow_refuses_writes_and_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 64; exec "$0" "$@""#])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "writes_until_refused", "--nocapture"])
        .env(CHILD, dir.path())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    let acknowledged: Vec<_> = output
        .lines()
        .filter_map(|line| line.strip_prefix("key "))
        .collect();
    assert!(acknowledged.len() > 5, "{output}");
    let store = Store::open(config(dir.path())).unwrap();
    assert_eq!(store.count(SPACE), acknowledged.len());
    assert!(acknowledged.iter().all(|key| store.get(SPACE, key).is_some()));
}

/// The process with the limit. Does nothing when the tests are run as usual.
#[test]
fn writes_until_refused() {
    let Some(dir) = env::var_os(CHILD) else { return };
    let store = Store::open(config(Path::new(&dir))).unwrap();
    let mut out = std::io::stdout();
    for i in 0..1_000 {
        match run(store.write(put(&format!("k{i}"), &"x".repeat(1_000)))) {
            Ok(entry) => writeln!(out, "\nkey {}", entry.key).unwrap(),
            Err(WriteError::Storage(StorageError::NoSpace { .. })) => {
                assert_eq!(store.count(SPACE), i, "what is there can still be read");
                // A smaller one still fits, now that the torn one is gone.
                let entry = run(store.write(put("small", "x"))).unwrap();
                return writeln!(out, "\nkey {}", entry.key).unwrap();
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the limit was not reached");
}
