//! Runs the built binary: servers that stop when dropped, commands with their output, lines as they come.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// What does not happen within this time never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// The binary under test, told nothing by the environment of the tests.
pub(crate) fn skopos(dir: &Path) -> Command {
    skopos_as(Path::new(env!("CARGO_BIN_EXE_skopos")), dir)
}

/// The binary under another name.
pub(crate) fn skopos_as(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env("HOME", dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "SKOPOS_LOG"] {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("OTEL_")) {
            command.env_remove(name);
        }
    }
    command
}

/// The example manifests of the repository.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A finished command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Returns standard output of a command that went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Fails unless the command ended with this code and said all of this.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in parts {
            let is_said = self.err.contains(part) || self.out.contains(part);
            assert!(is_said, "{part} missing in {self:?}");
        }
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs a command to its end.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Done {
    skopos(dir).args(args).output().unwrap().into()
}

/// Runs a command with a text on standard input.
pub(crate) fn run_with(dir: &Path, args: &[&str], input: &str) -> Done {
    let file = dir.join("stdin.txt");
    std::fs::write(&file, input).unwrap();
    let stdin = std::fs::File::open(&file).unwrap();
    skopos(dir).args(args).stdin(stdin).output().unwrap().into()
}

/// A command that goes on, its output line by line. Killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: Lines,
    pub(crate) errors: Lines,
}

/// Lines of a stream as they come.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    fn of(stream: impl std::io::Read + Send + 'static) -> Self {
        // Full means that the test does not read: the writer waits.
        let (send, receive) = sync_channel(1024);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self(receive)
    }

    /// Waits for the next line.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.next_within(PATIENCE)
    }

    /// Waits for the next line, longer than usual.
    #[track_caller]
    pub(crate) fn next_within(&self, patience: Duration) -> String {
        self.0.recv_timeout(patience).expect("another line")
    }

    /// Waits for a line that contains the text.
    #[track_caller]
    pub(crate) fn find(&self, text: &str) -> String {
        loop {
            let line = self.next();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Reads what is left once the process has ended.
    #[track_caller]
    pub(crate) fn rest(&self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            match self.0.recv_timeout(PATIENCE) {
                Ok(line) => all.push(line),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("the stream did not end"),
            }
        }
    }
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let errors = Lines::of(child.stderr.take().unwrap());
        Self { child, lines, errors }
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn wait(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `skopos up` in a directory and waits until it is ready; returns it with its address.
pub(crate) fn up(dir: &Path, args: &[&str]) -> (Running, String) {
    let server = Running::start(skopos(dir).arg("up").args(args));
    let ready = server.lines.next();
    let address = ready.strip_prefix("skopos is ready at https://").expect(&ready);
    let (address, _) = address.split_once(' ').expect(&ready);
    (server, address.to_owned())
}

/// Starts a server in memory on a free port.
pub(crate) fn up_in_memory(dir: &Path) -> Running {
    up(dir, &["--in-memory", "--listen", "127.0.0.1:0"]).0
}
