//! A process that outlives the command that started it, known by its id and the time it started.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::proc::Stat;
use crate::run::wait_until;

/// The process written down in a pid file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    id: u32,
    /// Clock ticks since boot. With the id it names one process, though ids are used again.
    started: u64,
}

impl Process {
    /// Starts a program in a session of its own, with its output in `<name>.log` and its id in `<name>.pid`.
    pub(super) fn start(dir: &Path, name: &str, command: &mut Command) -> anyhow::Result<Process> {
        let log = File::create(dir.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A group of its own: Ctrl-C in the terminal of `up` is not meant for the server.
        std::os::unix::process::CommandExt::process_group(command, 0);
        let id = command.spawn().with_context(|| format!("start {name}"))?.id();
        let stat = Stat::of(id).with_context(|| format!("{name} ended at once"))?;
        let started = stat.started;
        std::fs::write(dir.join(format!("{name}.pid")), format!("{id} {started}\n"))?;
        Ok(Process { id, started })
    }

    /// The process that `<name>.pid` tells of, if the file is there.
    pub(super) fn read(dir: &Path, name: &str) -> Option<Process> {
        let text = std::fs::read_to_string(dir.join(format!("{name}.pid"))).ok()?;
        let (id, started) = text.trim().split_once(' ')?;
        Some(Process {
            id: id.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    /// Its id.
    pub(super) fn id(self) -> u32 {
        self.id
    }

    /// True while this very process runs.
    pub(super) fn runs(self) -> bool {
        Stat::of(self.id).is_some_and(|stat| stat.started == self.started)
    }

    /// The command that starts it once more.
    pub(super) fn command(self) -> anyhow::Result<Command> {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.id))?;
        let line = String::from_utf8(line).context("a command line that is not text")?;
        let mut words = line.split_terminator('\0');
        let mut command = Command::new(words.next().context("it has no command line")?);
        command.args(words);
        Ok(command)
    }

    /// Makes it end at once.
    pub(super) fn kill(self) -> anyhow::Result<()> {
        self.signal("-KILL")?;
        let ended = wait_until(Duration::from_secs(10), || !self.runs());
        anyhow::ensure!(ended, "process {} does not end", self.id);
        Ok(())
    }

    /// Asks it to end, and makes it end if it does not.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        for signal in ["-TERM", "-KILL"] {
            if !self.runs() {
                return Ok(());
            }
            self.signal(signal)?;
            if wait_until(Duration::from_secs(10), || !self.runs()) {
                return Ok(());
            }
        }
        anyhow::bail!("process {} does not end", self.id)
    }

    /// Also when we were told to end ourselves, which stops other commands.
    fn signal(self, signal: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill")
            .args([signal, &self.id.to_string()])
            .output()?;
        let is_done = sent.status.success() || !self.runs();
        anyhow::ensure!(is_done, "kill: {}", String::from_utf8_lossy(&sent.stderr).trim());
        Ok(())
    }
}

#[cfg(test)]
impl Process {
    /// This very process.
    pub(super) fn own() -> Process {
        let id = std::process::id();
        let started = Stat::of(id).expect("we run").started;
        Process { id, started }
    }

    /// One that had our id before us.
    pub(super) fn gone() -> Process {
        let own = Process::own();
        Process {
            started: own.started - 1,
            ..own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_process_by_its_start() {
        assert!(Process::own().runs());
        assert!(!Process::gone().runs());
    }
}
