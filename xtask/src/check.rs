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
    tally.count(part("rustdoc", || {
        let mut doc = cargo();
        doc.args([
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
            "--quiet",
        ]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    }));
    // The binary is named as the library `skopos` is, so its documentation needs a place of its own.
    tally.count(part("rustdoc of the command", || {
        let mut doc = cargo();
        doc.args(["doc", "--workspace", "--bin", "skopos", "--no-deps"]);
        doc.args(["--document-private-items", "--quiet"]);
        doc.args(["--target-dir", "target/command"]);
        doc.args(["--config", "build.build-dir=\"target\""]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    }));
    tally
}

/// Runs every check and says the sum.
pub(crate) fn run_command() -> Tally {
    let tally = run_all();
    println!("{} passed, {} failed", tally.passed, tally.failed);
    tally
}
