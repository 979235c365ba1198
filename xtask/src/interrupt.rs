//! Ctrl-C, and being told to end: passed on to the commands that run, and noted, so that whoever started servers stops them.
//!
//! Servers are in process groups of their own and hear nothing of it.

use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::proc::{Stat, all};

/// The number of the last signal, or 0.
static TOLD: AtomicU8 = AtomicU8::new(0);

const INTERRUPT: u8 = 2;
const TERMINATE: u8 = 15;

/// Hears from now on.
pub(crate) fn listen() -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let registered = runtime.block_on(async {
        Ok::<_, std::io::Error>((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    });
    let (mut interrupt, mut terminate) = registered.context("listen to signals")?;
    // It ends with the program.
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => hear(INTERRUPT),
                    _ = terminate.recv() => hear(TERMINATE),
                }
            }
        });
    });
    Ok(())
}

/// Whether we were told to end.
pub(crate) fn is_told() -> bool {
    TOLD.load(SeqCst) != 0
}

/// Fails if we were told to end: nothing new is begun then.
pub(crate) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!is_told(), "interrupted");
    Ok(())
}

/// What a program that was told to end ends with.
pub(crate) fn exit_code() -> Option<ExitCode> {
    is_told().then(|| ExitCode::from(128 + TOLD.load(SeqCst)))
}

/// Tells a command that was started just now, in case it came too late to hear of it with the others.
pub(crate) fn pass_on(child: &Child) {
    if is_told() {
        send(TOLD.load(SeqCst), &[child.id()]);
    }
}

fn hear(number: u8) {
    // First of all, so that nobody falls between this and `pass_on`.
    TOLD.store(number, SeqCst);
    let me = std::process::id();
    let Some(own) = Stat::of(me) else { return };
    // A terminal tells everybody itself.
    if number == INTERRUPT && own.foreground == own.group {
        return;
    }
    send(number, &commands(me, &own, &all()));
}

/// All that was started by us and by whom we started, but for servers.
fn commands(me: u32, own: &Stat, processes: &[(u32, Stat)]) -> Vec<u32> {
    let mut found = vec![me];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let is_one = |stat: &Stat| stat.parent == parent && stat.group == own.group;
        found.extend(
            processes
                .iter()
                .filter(|(_, stat)| is_one(stat))
                .map(|(id, _)| *id),
        );
        at += 1;
    }
    found.split_off(1)
}

fn send(number: u8, ids: &[u32]) {
    if ids.is_empty() {
        return;
    }
    let ids = ids.iter().map(u32::to_string);
    // One that has ended meanwhile is told of on standard error, and does not matter.
    let _ = Command::new("kill").arg(format!("-{number}")).args(ids).output();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_hear_of_it_and_theirs_but_servers_and_others_do_not() {
        let stat = |parent, group| Stat {
            parent,
            group,
            foreground: -1,
            started: 0,
        };
        let processes = [
            (10, stat(1, 7)),   // us
            (11, stat(10, 7)),  // a command
            (12, stat(11, 7)),  // what it started
            (13, stat(10, 13)), // a server
            (14, stat(13, 13)),
            (15, stat(1, 7)), // somebody else in our group
        ];
        assert_eq!(commands(10, &stat(1, 7), &processes), [11, 12]);
    }
}
