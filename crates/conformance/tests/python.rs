//! The Python `kubernetes` client, as its users write it.

use std::path::Path;
use std::process::Command;

use skopos_conformance::{Target, python};

#[test]
fn serves_the_python_client() -> anyhow::Result<()> {
    let target = Target::start()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/python/tour.py");
    let crd = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/fixtures/crd.yaml");
    let mut tour = Command::new(python()?);
    tour.arg(script)
        .arg(crd)
        .env("KUBECONFIG", target.kubeconfig())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tour.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{said}{complaint}");
    Ok(())
}
