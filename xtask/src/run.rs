//! Runs child programs with a line of progress and the time each one took.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::interrupt;

/// Where this program is. First asked when it begins: building the tests puts another one in its place, and the system
/// then calls the one that runs deleted.
pub(crate) fn own_program() -> anyhow::Result<&'static Path> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(program) = PROGRAM.get() {
        return Ok(program);
    }
    let program = std::env::current_exe().context("the path of this program")?;
    Ok(PROGRAM.get_or_init(|| program))
}

/// How many parts of a run went well.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Counts one part.
    pub(crate) fn count(&mut self, ok: bool) {
        if ok {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Adds the counts of another part.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// The exit code of a program whose parts these are.
    pub(crate) fn exit_code(self) -> ExitCode {
        if self.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// The root of the source tree.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
}

/// A command in the root of the tree.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Cargo, as it was called. It is not told that a package of ours is being run: build scripts of others look at that,
/// and would run again, with all that depends on them, whenever cargo is called by hand and by us in turns.
pub(crate) fn cargo() -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if of_package
            .iter()
            .any(|start| name.to_string_lossy().starts_with(start))
        {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The directory that cargo builds into.
pub(crate) fn target_dir() -> anyhow::Result<PathBuf> {
    let metadata = metadata(&["--no-deps"])?;
    let dir = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(dir))
}

/// What `cargo metadata` says.
pub(crate) fn metadata(args: &[&str]) -> anyhow::Result<serde_json::Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1"])
        .args(args)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs a part under a title and says how long it took. The result tells whether it went well.
pub(crate) fn part(title: &str, work: impl FnOnce() -> anyhow::Result<()>) -> bool {
    println!("── {title}");
    let start = Instant::now();
    let result = work();
    let took = seconds(start.elapsed());
    match &result {
        Ok(()) => println!("── {title}: ok ({took})"),
        Err(error) => println!("── {title}: FAILED ({took}): {error:#}"),
    }
    // A pipe holds our lines back while the children write through at once.
    let _ = std::io::stdout().flush();
    result.is_ok()
}

/// Starts a command, unless we were told to end.
pub(crate) fn start(command: &mut Command) -> anyhow::Result<Child> {
    interrupt::check()?;
    let started = command.spawn();
    let child = started.with_context(|| format!("start {}", name(command)))?;
    interrupt::pass_on(&child);
    Ok(child)
}

/// Runs a command to its end; an exit code other than zero is an error.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = start(command)?.wait()?;
    anyhow::ensure!(status.success(), "{} ended with {status}", name(command));
    Ok(())
}

/// Runs a command, printing each line of its standard output and handing it to `see`.
pub(crate) fn run_seeing(command: &mut Command, mut see: impl FnMut(&str)) -> anyhow::Result<()> {
    let mut child = start(command.stdout(Stdio::piped()))?;
    let stdout = child.stdout.take().context("no standard output")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "{} ended with {status}", name(command));
    Ok(())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A duration for people: `3.2 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Waits until `ready` says yes, asking ever more seldom; false when `limit` has passed.
#[expect(
    clippy::disallowed_methods,
    reason = "a chore without a runtime polls another process"
)]
pub(crate) fn wait_until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(5);
    while !ready() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    true
}
