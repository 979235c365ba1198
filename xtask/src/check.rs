//! The checks that read the code: format, clippy, rustdoc, tidy.

use crate::run::{Tally, cargo, part, run};
use crate::tidy;

/// Runs every check, also after one has failed.
pub(crate) fn run_all() -> Tally {
    let mut tally = Tally::default();
    tally.count(part("format", || run(cargo().args(["fmt", "--all", "--check"]))));
    tally.count(part("tidy", tidy::run));
    tally.count(part("clippy", || {
        run(cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]))
    }));
    // The command is named as the library `skopos` is: both have their documentation in the same place,
    // and that of the library stays.
    for (name, which) in [
        (
            "rustdoc of the command",
            &["--package=skopos-cli", "--bin=skopos"][..],
        ),
        ("rustdoc", &["--workspace"]),
    ] {
        tally.count(part(name, || {
            let mut doc = cargo();
            doc.arg("doc").args(which);
            doc.args(["--no-deps", "--document-private-items", "--quiet"]);
            run(doc.env("RUSTDOCFLAGS", "-D warnings"))
        }));
    }
    tally
}

/// Runs every check and says the sum.
pub(crate) fn run_command() -> Tally {
    let tally = run_all();
    println!("{} passed, {} failed", tally.passed, tally.failed);
    tally
}
