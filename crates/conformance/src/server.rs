//! The embedded server as a process of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::{Endpoint, Kubeconfig};

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Start {
    /// The skopos command.
    pub program: PathBuf,
    /// Where it keeps its certificates, its kubeconfig and, unless in memory, its data.
    pub dir: PathBuf,
    /// Keep no data on disk.
    pub in_memory: bool,
    /// The port; zero takes a free one.
    pub port: u16,
}

/// A running `skopos up` or `skopos apiserver`, killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    kubeconfig: PathBuf,
    ready_after: Duration,
}

impl Server {
    /// Starts the server with all that watches and reacts, and waits for the line that says it is ready.
    pub fn start(start: &Start) -> anyhow::Result<Server> {
        let mut command = Command::new(&start.program);
        command.arg("up").arg("--data-dir").arg(&start.dir);
        command.args(["--listen", &format!("127.0.0.1:{}", start.port)]);
        if start.in_memory {
            command.arg("--in-memory");
        }
        Self::spawn(start, command)
    }

    /// Starts the API server alone, and waits for the line that says it is ready.
    pub fn start_alone(start: &Start) -> anyhow::Result<Server> {
        let mut command = Command::new(&start.program);
        let dir = match start.in_memory {
            true => "--cert-dir",
            false => "--data-dir",
        };
        command.arg("apiserver").arg(dir).arg(&start.dir);
        command.args(["--secure-port", &start.port.to_string()]);
        Self::spawn(start, command)
    }

    fn spawn(start: &Start, mut command: Command) -> anyhow::Result<Server> {
        std::fs::create_dir_all(&start.dir)?;
        let log_path = start.dir.join("server.log");
        let log = File::options().create(true).append(true).open(&log_path)?;
        let begun = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = match lines.next() {
            Some(line) => line?,
            None => anyhow::bail!("the server ended: {}", std::fs::read_to_string(&log_path)?),
        };
        let ready_after = begun.elapsed();
        // The server must be able to go on writing; nobody reads it.
        std::thread::spawn(move || lines.for_each(drop));
        let kubeconfig = kubeconfig_in(&line, &start.dir)?;
        Ok(Server {
            child,
            kubeconfig,
            ready_after,
        })
    }

    /// The administrator's kubeconfig that the server wrote.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// From the start of the process to its ready line.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// A client with the administrator's credentials.
    pub fn endpoint(&self) -> anyhow::Result<Endpoint> {
        Endpoint::new(&Kubeconfig::read(&self.kubeconfig)?)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in bytes, and the highest it ever was.
    pub fn memory(&self) -> anyhow::Result<(u64, u64)> {
        memory_of(self.child.id())
    }

    /// Ends the process without a warning, as `kill -9` does.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks the server to end, and returns how it ended.
    pub fn stop(mut self) -> anyhow::Result<std::process::ExitStatus> {
        let status = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()?;
        anyhow::ensure!(status.success(), "kill: {status}");
        Ok(self.child.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path in the ready line: the first word that is a file.
fn kubeconfig_in(line: &str, dir: &Path) -> anyhow::Result<PathBuf> {
    let words = line
        .split_whitespace()
        .map(|word| word.rsplit_once('=').map_or(word, |(_, value)| value));
    let paths = words.map(|word| PathBuf::from(word.trim_matches(|c: char| "'\"`,;()".contains(c))));
    let mut files = paths.filter(|path| path.is_file());
    let found = files
        .next()
        .or_else(|| Some(dir.join("kubeconfig")).filter(|path| path.is_file()));
    found.with_context(|| format!("the ready line names no kubeconfig: {line}"))
}

/// Resident memory of a process in bytes, and the highest it ever was.
pub fn memory_of(id: u32) -> anyhow::Result<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let field = |name: &str| -> anyhow::Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("{name} is missing"))?;
        let kilobytes: u64 = line.trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes * 1024)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}
