//! The API server whose objects are watched, and how it is killed.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    endpoint::free_port,
    support::{Running, skopos},
};

/// The chores' program and the name of the server that they started: with these it can be killed.
const CHORES: &str = "SKOPOS_XTASK";
const NAME: &str = "SKOPOS_TARGET_NAME";

/// One of our own, or a real one that somebody started.
pub(crate) enum Server {
    Own {
        dir: PathBuf,
        port: u16,
        /// So many events are all that watches can go back to.
        history: Option<u32>,
        running: Option<Running>,
    },
    Real {
        kubeconfig: PathBuf,
        /// Kills it and starts it again.
        crash: Option<(OsString, OsString)>,
        /// Whether it may be made to forget.
        forgets: bool,
    },
}

impl Server {
    /// The real one if there is one, or one of our own; it forgets soon, or not so soon.
    pub(crate) fn start(dir: &Path, forgets: bool, rng: &mut fastrand::Rng) -> Self {
        if let Some(kubeconfig) = std::env::var_os("SKOPOS_TARGET") {
            return Self::Real {
                kubeconfig: kubeconfig.into(),
                crash: std::env::var_os(CHORES).zip(std::env::var_os(NAME)),
                forgets,
            };
        }
        let mut server = Self::Own {
            dir: dir.to_owned(),
            port: free_port(),
            history: forgets.then(|| rng.u32(60..120)),
            running: None,
        };
        server.crash();
        server
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Own { dir, .. } => dir.join("kubeconfig"),
            Self::Real { kubeconfig, .. } => kubeconfig.clone(),
        }
    }

    /// Whether it may be killed.
    pub(crate) fn is_ours(&self) -> bool {
        match self {
            Self::Own { .. } => true,
            Self::Real { crash, .. } => crash.is_some(),
        }
    }

    /// After so many changes it can be made to forget what was before them; nothing if it cannot.
    pub(crate) fn forgets_after(&self) -> Option<u32> {
        match self {
            Self::Own { history, .. } => history.map(|events| events + 1),
            Self::Real { forgets, .. } => (*forgets && self.is_ours()).then_some(1),
        }
    }

    /// Forgets. Ours has done so by itself; the real one remembers for minutes, but not beyond its own end.
    pub(crate) fn forget(&mut self) {
        if let Self::Real { .. } = self {
            self.crash();
        }
    }

    /// Kills it and starts it again, if it may be killed.
    pub(crate) fn crash(&mut self) {
        match self {
            Self::Own {
                dir,
                port,
                history,
                running,
            } => {
                // Dropped means killed.
                drop(running.take());
                let mut command = skopos(dir);
                command.args(["apiserver", "--data-dir=server", "--kubeconfig=kubeconfig"]);
                command.arg(format!("--secure-port={port}"));
                command.args(history.map(|events| format!("--default-watch-cache-size={events}")));
                let started = Running::start(&mut command);
                started.lines.find("ready");
                *running = Some(started);
            }
            Self::Real { crash, .. } => {
                if let Some((chores, name)) = crash {
                    let mut command = Command::new(chores);
                    let killed = command.args(["kube", "crash", "--name"]).arg(name).output();
                    let killed = killed.unwrap();
                    assert!(killed.status.success(), "{killed:?}");
                }
            }
        }
    }
}
