//! controller-runtime's envtest, with `skopos` in the place of kube-apiserver and etcd.
//!
//! Building controller-runtime takes a minute on a machine that never did, so it is done only on demand.

use std::path::Path;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use skopos_conformance::{build_with, client_sources, skopos};

const ON_DEMAND: &str = "SKOPOS_ENVTEST";

#[expect(clippy::print_stdout, reason = "tells why it is skipped")]
fn main() -> ExitCode {
    let is_wanted = std::env::var_os(ON_DEMAND).is_some();
    if !is_wanted {
        println!("skipped: set {ON_DEMAND}=1 to run it; it needs Go");
    }
    let trial = Trial::test("envtest_runs_a_controller", || {
        run().map_err(|error| Failed::from(format!("{error:#}")))
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(!is_wanted)]).exit_code()
}

fn run() -> anyhow::Result<()> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-envtest");
    let mut go = Command::new("go");
    go.current_dir(client_sources("envtest"));
    build_with(go.arg("build").arg("-o").arg(&program).arg("."))?;
    let assets = tempfile::tempdir()?;
    let mut envtest = Command::new(program);
    for (name, variable) in [
        ("kube-apiserver", "TEST_ASSET_KUBE_APISERVER"),
        ("etcd", "TEST_ASSET_ETCD"),
    ] {
        let link = assets.path().join(name);
        std::os::unix::fs::symlink(skopos()?, &link)?;
        envtest.env(variable, link);
    }
    let definition = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/fixtures/crd.yaml");
    build_with(envtest.arg(definition))
}
