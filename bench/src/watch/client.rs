//! One client in a process of its own, and what the system says it uses.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use skopos_conformance::memory_of;

/// A client that waits for commands. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// Resident bytes before it began.
    idle: u64,
}

/// What it took to have everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sync {
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
    /// Resident bytes above what the idle process had, once everything is quiet, for each object.
    pub(super) bytes_per_object: f64,
    /// The most that was ever resident, by what stays.
    pub(super) peak: f64,
}

/// What the events took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Events {
    pub(super) per_s: f64,
    /// How many of them the handler was told one by one; the rest it was told as one with a later one.
    pub(super) told_per_s: f64,
    pub(super) cpu_us: f64,
}

/// How long after the sync memory is measured: collectors and allocators may give back what they like.
const SETTLE: Duration = Duration::from_secs(3);
/// Events before the clock starts.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Counts {
    at: Instant,
    told: f64,
    applied: f64,
    cpu_s: f64,
}

impl Client {
    /// Starts a program with its arguments and waits until it is ready.
    pub(crate) fn start(program: &Path, args: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let commands = child.stdin.take().context("no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut client = Self {
            child,
            commands,
            answers,
            idle: 0,
        };
        client.expect("ready")?;
        client.idle = memory_of(client.child.id())?.0;
        Ok(client)
    }

    /// Lets it list and cache `objects` objects.
    pub(super) fn sync(&mut self, objects: usize) -> anyhow::Result<Sync> {
        let cpu = self.cpu_s()?;
        let begun = Instant::now();
        writeln!(self.commands, "start")?;
        let synced: usize = self.expect("synced")?.trim().parse()?;
        let (wall_s, cpu_s) = (begun.elapsed().as_secs_f64(), self.cpu_s()? - cpu);
        anyhow::ensure!(synced == objects, "synced with {synced} objects of {objects}");
        pause(SETTLE);
        let (resident, peak) = memory_of(self.child.id())?;
        Ok(Sync {
            cpu_s,
            wall_s,
            bytes_per_object: resident.saturating_sub(self.idle) as f64 / objects as f64,
            peak: peak as f64 / resident as f64,
        })
    }

    /// Lets events come for a while.
    pub(super) fn events(&mut self, time: Duration) -> anyhow::Result<Events> {
        writeln!(self.commands, "start")?;
        self.expect("synced")?;
        pause(WARM_UP);
        let before = self.counts()?;
        pause(time);
        let after = self.counts()?;
        let seconds = (after.at - before.at).as_secs_f64();
        let applied = after.applied - before.applied;
        anyhow::ensure!(applied > 0.0, "no events came");
        Ok(Events {
            per_s: applied / seconds,
            told_per_s: (after.told - before.told) / seconds,
            cpu_us: (after.cpu_s - before.cpu_s) * 1e6 / applied,
        })
    }

    fn counts(&mut self) -> anyhow::Result<Counts> {
        writeln!(self.commands, "count")?;
        let answer = self.expect("count")?;
        let (told, applied) = answer.trim().split_once(' ').context("two counts")?;
        Ok(Counts {
            at: Instant::now(),
            told: told.parse()?,
            applied: applied.parse()?,
            cpu_s: self.cpu_s()?,
        })
    }

    /// Waits for a line that begins with a word, and returns the rest.
    pub(crate) fn expect(&mut self, word: &str) -> anyhow::Result<String> {
        let line = self.answers.next().context("the client ended")??;
        let rest = line.strip_prefix(word);
        rest.map(str::to_owned)
            .with_context(|| format!("expected {word}, not {line}"))
    }

    /// Resident bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        Ok(memory_of(self.child.id())?.0)
    }

    /// Gives it a command.
    pub(crate) fn say(&mut self, command: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.commands, "{command}")?)
    }

    pub(crate) fn cpu_s(&self) -> anyhow::Result<f64> {
        crate::cpu::seconds_of(self.child.id())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "time passes for another process; nothing else runs in this one"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
