//! Regenerates the table of built-in kinds that `skopos-builtin` carries.
//!
//! Two sources are joined: a running kube-apiserver (discovery and OpenAPI, read with
//! `kubectl get --raw`) and the Go modules of the same release, whose struct tags hold what OpenAPI
//! leaves out: protobuf field numbers, pointers and `omitempty`. Only names, types and flags are kept.

mod golang;
mod kinds;
mod types;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// The release of the Go modules that belong to the server; the two must be of one release.
const MODULES: &str = "v0.36.3";

/// Regenerates the table from the API server of `KUBECONFIG`; with `check` only reads the committed one.
pub(crate) fn run(check: bool) -> Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/builtin/src/table");
    if check {
        return check_committed(&folder);
    }
    let served = kinds::read()?;
    let packages = golang::Packages::read(&module_cache()?)?;
    let types = types::table(&served, &packages)?;
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("types.txt"), types)?;
    std::fs::write(folder.join("kinds.txt"), kinds::table(&served))?;
    check_committed(&folder)
}

/// Fetches one path of the API server as JSON.
fn get(path: &str) -> Result<Value> {
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let output = Command::new(&kubectl)
        .args(["get", "--raw", path])
        .output()
        .with_context(|| format!("run {kubectl}; set KUBECTL to its path"))?;
    if !output.status.success() {
        bail!("get {path}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("parse {path}"))
}

fn module_cache() -> Result<PathBuf> {
    if let Ok(folder) = std::env::var("GOMODCACHE") {
        return Ok(folder.into());
    }
    let home = std::env::var("HOME").context("neither GOMODCACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join("go/pkg/mod"))
}

fn check_committed(folder: &std::path::Path) -> Result<()> {
    let types = std::fs::read_to_string(folder.join("types.txt")).context("read types.txt")?;
    let names: Vec<&str> = types
        .lines()
        .map(|line| line.split('\t').next().unwrap_or_default())
        .collect();
    ensure!(
        names.is_sorted(),
        "types.txt is not sorted by name, so lookups would miss"
    );
    let kinds = std::fs::read_to_string(folder.join("kinds.txt")).context("read kinds.txt")?;
    for line in kinds.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        ensure!(
            columns.len() == kinds::COLUMNS,
            "kinds.txt: wrong number of columns in {line:?}"
        );
        ensure!(
            names.binary_search(&columns[0]).is_ok(),
            "kinds.txt: unknown type {}",
            columns[0]
        );
    }
    Ok(())
}
