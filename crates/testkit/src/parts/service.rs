//! A server program that a test runs.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// How long a program may take to be ready: several start at once on few cores.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// How long a program may take to end when it is asked to.
const STOPPING: Duration = Duration::from_secs(30);
/// How often it is looked whether it is.
pub(super) const EVERY: Duration = Duration::from_millis(20);

/// A program with a directory of its own, which can be started more than once.
#[derive(Debug)]
pub(super) struct Service {
    name: &'static str,
    dir: TempDir,
    /// What its log says when it is ready.
    ready: &'static str,
    running: Option<Child>,
}

impl Service {
    pub(super) fn new(name: &'static str, ready: &'static str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix(&format!("skopos-{name}-"))
            .tempdir()
            .expect("a directory for temporary files");
        Self {
            name,
            dir,
            ready,
            running: None,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file into the directory and returns its path.
    pub(super) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir().join(name);
        fs::write(&path, content).expect("a file in our own directory");
        path
    }

    /// Starts the program and waits until it is ready.
    pub(super) async fn start(&mut self, mut command: Command) {
        let log = self.dir().join("log");
        let file = File::create(&log).expect("a file in our own directory");
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle on a file"))
            .stderr(file)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{} does not start: {error}", self.name));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = fs::read(&log).unwrap_or_default();
            let told = String::from_utf8_lossy(&told);
            if told.contains(self.ready) {
                break;
            }
            let ended = child.try_wait().expect("our own child");
            if ended.is_some() || Instant::now() > deadline {
                panic!("{} is not ready ({ended:?}); it said:\n{told}", self.name);
            }
            sleep(EVERY).await;
        }
        self.running = Some(child);
    }

    /// Waits until the program says something.
    pub(super) async fn says(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = fs::read(self.dir().join("log")).unwrap_or_default();
            let told = String::from_utf8_lossy(&told);
            if told.contains(text) {
                return;
            }
            if Instant::now() > deadline {
                panic!("{} never said {text:?}; it said:\n{told}", self.name);
            }
            sleep(EVERY).await;
        }
    }

    /// Sends a signal and goes on.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.running {
            signal_group(child, signal);
        }
    }

    /// Stops the program, and waits until it does nothing any more: a signal takes a moment to reach every thread.
    pub(super) async fn pause(&self) {
        self.signal(Signal::STOP);
        let id = self.running.as_ref().and_then(Child::id);
        while id.is_some_and(|id| !is_paused(id)) {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Ends the program with a signal and waits until it has ended.
    pub(super) async fn stop(&mut self, signal: Signal) {
        let Some(mut child) = self.running.take() else {
            return;
        };
        signal_group(&child, signal);
        if timeout(STOPPING, child.wait()).await.is_err() {
            signal_group(&child, Signal::KILL);
            let _ = child.wait().await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &self.running {
            signal_group(child, Signal::KILL);
        }
    }
}

/// Whether no thread of a process runs; one that cannot be looked at counts as such.
fn is_paused(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return true;
    };
    threads.filter_map(Result::ok).all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets and may hold any character.
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

fn signal_group(child: &Child, signal: Signal) {
    let id = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(id) = id {
        let _ = kill_process_group(id, signal);
    }
}

/// A port of the loopback interface that nobody uses now.
pub(super) fn free_port() -> u16 {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on the loopback interface");
    listener
        .local_addr()
        .expect("a bound listener has an address")
        .port()
}

/// The first of the places where there is a file.
///
/// # Panics
/// If there is none, with what to do.
pub(super) fn find(name: &str, places: &[PathBuf]) -> PathBuf {
    match places.iter().find(|place| place.is_file()) {
        Some(place) => place.clone(),
        None => panic!("{name} is not installed; `cargo xtask parts` installs it"),
    }
}
