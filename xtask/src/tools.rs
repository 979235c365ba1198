//! Tools that tests drive, each found on the machine or installed once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::kube;
use crate::run::{cargo, run, target_dir};

/// A program that the end-to-end suites need.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Tool {
    /// The machine's own kubectl, the one in the kube cache, or one built from the Go module proxy.
    Kubectl,
    /// A Python with the `kubernetes` client, in an environment of its own.
    Python,
    /// The skopos command of this tree, built for tests.
    Skopos,
}

impl Tool {
    /// The variable in which a test finds the path.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Tool::Kubectl => "SKOPOS_KUBECTL",
            Tool::Python => "SKOPOS_PYTHON",
            Tool::Skopos => "SKOPOS_BIN",
        }
    }

    /// Where the tool is, after installing it if it was missing.
    pub(crate) fn path(self) -> anyhow::Result<PathBuf> {
        if let Some(path) = std::env::var_os(self.variable()) {
            return Ok(path.into());
        }
        match self {
            Tool::Kubectl => kubectl(),
            Tool::Python => python(),
            Tool::Skopos => skopos(),
        }
    }
}

fn kubectl() -> anyhow::Result<PathBuf> {
    let cached = kube::bin("kubectl")?;
    if cached.is_file() {
        return Ok(cached);
    }
    match on_path("kubectl") {
        Some(path) => Ok(path),
        None => kube::build_only("kubectl").context("no kubectl on this machine, and building one failed"),
    }
}

/// The first file of that name in the directories of `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The first release line that elects leaders by leases. Those before write parameters such as `watch=False` in large letters.
const PYTHON_CLIENT: &str = "kubernetes==37.0.2";

fn python() -> anyhow::Result<PathBuf> {
    let home = target_dir()?.join("python-client");
    let python = home.join("bin/python");
    if imports_client(&python) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&home)).context("make a Python environment")?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYTHON_CLIENT]))
        .context("install the Python kubernetes client")?;
    anyhow::ensure!(
        imports_client(&python),
        "the Python kubernetes client does not import"
    );
    Ok(python)
}

fn imports_client(python: &Path) -> bool {
    Command::new(python)
        .args(["-c", "import kubernetes"])
        .output()
        .is_ok_and(|output| output.status.success())
}

fn skopos() -> anyhow::Result<PathBuf> {
    run(cargo().args(["build", "--quiet", "--package", "skopos-cli"]))?;
    Ok(target_dir()?.join("debug/skopos"))
}
