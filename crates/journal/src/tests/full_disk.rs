//! A disk that is really full: a small file system of its own, which only root can make.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Asked, Capture, CaptureConfig, Phase};

/// A mounted file system, gone at the end.
struct Mounted {
    dir: tempfile::TempDir,
}

impl Mounted {
    /// Nothing if it cannot be made here.
    fn new(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path());
        let done = mount.output().ok()?;
        done.status.success().then_some(Self { dir })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Takes so many bytes.
fn fill(dir: &Path, size: usize) -> PathBuf {
    let file = dir.join("something-else");
    std::fs::write(&file, vec![7; size]).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::print_stderr,
    reason = "who runs the tests should know what was left out"
)]
async fn capture_waits_for_room_on_a_full_disk_and_loses_nothing() {
    let Some(mounted) = Mounted::new("2m") else {
        eprintln!("skipped: only root can mount a small file system");
        return;
    };
    let other = fill(mounted.path(), 1 << 20);
    let config = JournalConfig {
        segment_bytes: 100_000,
        ..JournalConfig::new(mounted.path().join("journal"))
    };
    let journal = Journal::open(config.clone()).unwrap();
    let source = ModelSource::new();
    let capture = Capture::new(
        journal.clone(),
        Arc::new(One(Some(source.clone()).into())),
        CaptureConfig {
            full_retry: Duration::from_millis(20),
            ..CaptureConfig::default()
        },
    );
    capture.ask(vec![Asked::from("widgets.example.com")]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(capture.clone().run(stop.clone()));
    let mut n_put = 0;
    let is_paused = || matches!(capture.status().first(), Some(one) if matches!(one.phase, Phase::Paused(_)));
    while !is_paused() {
        assert!(n_put < 10_000, "the disk never was full");
        // Of bytes that cannot be compressed much.
        let text: String = (0..4000).map(|_| fastrand::alphanumeric()).collect();
        source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: w{n_put}, namespace: home}}, spec: {{text: {text}}}}}"
        )));
        n_put += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let head = journal.head();
    std::fs::remove_file(other).unwrap();
    // The phase follows a little after the changes.
    while journal.head().0 < n_put || is_paused() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(head.0 < n_put, "nothing had to wait");
    stop.cancel();
    task.await.unwrap();
    journal.close().await;
    // The lock goes with the last handle.
    drop((journal, capture));
    let again = Journal::open(config).unwrap();
    assert_eq!(mirror(&again).await, source.objects());
    assert_eq!(again.holes(), []);
    assert_eq!(again.damage(), []);
    again.close().await;
}
