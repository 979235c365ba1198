//! Builds kube-apiserver, kube-controller-manager, kubectl and etcd from the Go module proxy by name.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::user_dir;
use crate::interrupt;
use crate::run::{run, wait_until};

/// The release of Kubernetes that is ground truth here.
pub(crate) const VERSION: &str = "v1.36.3";
/// The version of the libraries that are published with [`VERSION`].
const STAGING: &str = "v0.36.3";
const ETCD: &str = "go.etcd.io/etcd/server/v3@v3.6.8";
const PROGRAMS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kubectl", "etcd"];

/// So long another build is waited for.
const LONGEST_BUILD: Duration = Duration::from_secs(3600);

const ETCD_MAIN: &str = r#"package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"#;

/// Where a program of the real control plane is, or will be.
pub(crate) fn bin(program: &str) -> anyhow::Result<PathBuf> {
    Ok(home()?.join("bin").join(program))
}

fn home() -> anyhow::Result<PathBuf> {
    Ok(user_dir("XDG_CACHE_HOME", ".cache")?
        .join("skopos/kube")
        .join(VERSION))
}

/// Whether all four programs are there.
pub(crate) fn is_built() -> bool {
    let there = |program| bin(program).is_ok_and(|path| path.is_file());
    PROGRAMS.into_iter().all(there)
}

/// Builds whatever of the four programs is missing.
pub(crate) fn all() -> anyhow::Result<()> {
    for program in PROGRAMS {
        build_only(program)?;
    }
    Ok(())
}

/// Builds one program, if it is missing, and returns its path.
pub(crate) fn build_only(program: &str) -> anyhow::Result<PathBuf> {
    let path = bin(program)?;
    if path.is_file() {
        return Ok(path);
    }
    let _turn = take_turn()?;
    if path.is_file() {
        return Ok(path);
    }
    eprintln!("building {program} {VERSION} (once; several minutes)");
    let module = home()?.join("src");
    prepare_module(&module)?;
    let package = match program {
        "etcd" => "./etcd".to_owned(),
        other => format!("k8s.io/kubernetes/cmd/{other}"),
    };
    // Built beside its place and moved there, so that a build cut short leaves no half program behind.
    let unfinished = path.with_extension("unfinished");
    let mut build = go(&module);
    build
        .args(["build", "-ldflags", &linker_flags(), "-o"])
        .arg(&unfinished)
        .arg(package);
    run(&mut build).with_context(|| format!("build {program}"))?;
    std::fs::rename(&unfinished, &path)?;
    Ok(path)
}

/// Keeps others from building until it is dropped: they would write the same files.
fn take_turn() -> anyhow::Result<File> {
    let home = home()?;
    std::fs::create_dir_all(&home)?;
    let lock = File::create(home.join("lock"))?;
    if lock.try_lock().is_ok() {
        return Ok(lock);
    }
    eprintln!("waiting for another build in {}", home.display());
    let is_ours = wait_until(LONGEST_BUILD, || lock.try_lock().is_ok() || interrupt::is_told());
    interrupt::check()?;
    anyhow::ensure!(is_ours, "the other build does not end");
    Ok(lock)
}

fn linker_flags() -> String {
    let package = "k8s.io/component-base/version";
    format!("-X {package}.gitVersion={VERSION} -X {package}.gitMajor=1 -X {package}.gitMinor=36")
}

fn go(module: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(module).env("GOFLAGS", "-mod=mod");
    go
}

/// Writes a module that requires Kubernetes with its libraries at their published versions.
///
/// It is made beside its place and moved there: one that was interrupted half-way would be taken for whole.
fn prepare_module(module: &Path) -> anyhow::Result<()> {
    if is_prepared(module) {
        return Ok(());
    }
    let unfinished = module.with_extension("unfinished");
    for old in [module, &unfinished] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    std::fs::create_dir_all(unfinished.join("etcd"))?;
    std::fs::write(unfinished.join("etcd/main.go"), ETCD_MAIN)?;
    write_go_mod(&unfinished)?;
    Ok(std::fs::rename(&unfinished, module)?)
}

/// Whether the module requires what is built: `go mod init` alone writes a file that requires nothing.
fn is_prepared(module: &Path) -> bool {
    let go_mod = std::fs::read_to_string(module.join("go.mod")).unwrap_or_default();
    let required = format!("k8s.io/kubernetes {VERSION}");
    go_mod.contains(&required) && module.join("etcd/main.go").is_file()
}

fn write_go_mod(module: &Path) -> anyhow::Result<()> {
    run(go(module).args(["mod", "init", "skopos.dev/kube"])).context("go is needed to build Kubernetes")?;
    let kubernetes = format!("k8s.io/kubernetes@{VERSION}");
    let output = go(module)
        .args(["mod", "download", "-json", &kubernetes])
        .output()?;
    let answer: Value = serde_json::from_slice(&output.stdout).context("go mod download")?;
    let upstream = answer["GoMod"]
        .as_str()
        .with_context(|| format!("download {kubernetes}: {answer}"))?;
    let mut edit = go(module);
    edit.args([
        "mod",
        "edit",
        &format!("-require={kubernetes}"),
        &format!("-require={ETCD}"),
    ]);
    for library in staging_libraries(&std::fs::read_to_string(upstream)?) {
        edit.arg(format!("-replace={library}={library}@{STAGING}"));
    }
    run(&mut edit)
}

/// The libraries that Kubernetes' own module takes from its tree: those required at `v0.0.0`.
fn staging_libraries(go_mod: &str) -> Vec<&str> {
    let required = go_mod
        .lines()
        .filter_map(|line| line.trim().strip_suffix(" v0.0.0"));
    required
        .map(|line| line.trim_start_matches("require "))
        .filter(|name| name.starts_with("k8s.io/"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `go mod init` was done and what follows was not: every later build failed, until somebody deleted the file.
    #[test]
    fn a_module_that_requires_nothing_is_not_prepared() {
        let module = std::env::temp_dir().join(format!("skopos-module-{}", std::process::id()));
        std::fs::create_dir_all(module.join("etcd")).unwrap();
        std::fs::write(module.join("etcd/main.go"), ETCD_MAIN).unwrap();
        let is_prepared_with = |go_mod: &str| {
            std::fs::write(module.join("go.mod"), go_mod).unwrap();
            is_prepared(&module)
        };
        assert!(!is_prepared_with("module skopos.dev/kube\n\ngo 1.26\n"));
        let whole = format!("module skopos.dev/kube\n\nrequire (\n\tk8s.io/kubernetes {VERSION}\n)\n");
        assert!(is_prepared_with(&whole));
        std::fs::remove_dir_all(&module).unwrap();
    }

    #[test]
    fn finds_the_libraries_that_come_from_the_tree() {
        let go_mod = "require (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n\tk8s.io/kms v0.0.0\n)\n\
                      replace k8s.io/api => ./staging/src/k8s.io/api\n";
        assert_eq!(staging_libraries(go_mod), ["k8s.io/api", "k8s.io/kms"]);
    }
}
