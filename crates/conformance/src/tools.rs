//! Finds the programs that the tests drive.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::Context;

/// The skopos command of this tree.
pub fn skopos() -> anyhow::Result<PathBuf> {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    tool(&PATH, "SKOPOS_BIN", "skopos")
}

/// The kubectl to test with.
pub fn kubectl() -> anyhow::Result<PathBuf> {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    tool(&PATH, "SKOPOS_KUBECTL", "kubectl")
}

/// A Python that has the `kubernetes` client.
pub fn python() -> anyhow::Result<PathBuf> {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    tool(&PATH, "SKOPOS_PYTHON", "python")
}

/// Takes the path from the variable that `cargo xtask test` sets, or asks xtask to find or install the tool.
fn tool(known: &OnceLock<PathBuf>, variable: &str, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = known.get() {
        return Ok(path.clone());
    }
    let path = match std::env::var_os(variable) {
        Some(path) => path.into(),
        None => ask_xtask(name).with_context(|| format!("find {name} (or set {variable})"))?,
    };
    Ok(known.get_or_init(|| path).clone())
}

fn ask_xtask(name: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let args = ["run", "--quiet", "--package", "xtask", "--", "tool", name];
    let output = Command::new(cargo).current_dir(root).args(args).output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
