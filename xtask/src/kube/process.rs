//! A process that outlives the command that started it, known by its id and the time it started.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::run::{run, wait_until};

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
        let started = start_time(id).with_context(|| format!("{name} ended at once"))?;
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
        start_time(self.id) == Some(self.started)
    }

    /// Asks it to end, and makes it end if it does not.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        for signal in ["-TERM", "-KILL"] {
            if !self.runs() {
                return Ok(());
            }
            run(Command::new("kill").args([signal, &self.id.to_string()]))?;
            if wait_until(Duration::from_secs(10), || !self.runs()) {
                return Ok(());
            }
        }
        anyhow::bail!("process {} does not end", self.id)
    }
}

/// When a process started, from the 22nd field of its stat file. None when it is gone or only its remains are left.
fn start_time(id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_process_by_its_start() {
        let id = std::process::id();
        let started = start_time(id).unwrap();
        assert!(Process { id, started }.runs());
        assert!(
            !Process {
                id,
                started: started + 1
            }
            .runs()
        );
    }
}
