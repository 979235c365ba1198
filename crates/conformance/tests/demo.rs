//! The tour that a newcomer takes: `skopos demo --once`.

use std::process::{Command, Stdio};

use skopos_conformance::skopos;

#[test]
fn takes_the_tour_and_ends_well() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut demo = Command::new(skopos()?);
    demo.args(["demo", "--once"])
        .current_dir(dir.path())
        .env("HOME", dir.path())
        .stdin(Stdio::null());
    let output = demo.env_remove("KUBECONFIG").output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {said}{complaint}", output.status);
    for word in ["application", "replicas", ": 0 lost, 0 out of order"] {
        anyhow::ensure!(
            said.to_lowercase().contains(word),
            "the tour does not speak of {word}: {said}"
        );
    }
    Ok(())
}
