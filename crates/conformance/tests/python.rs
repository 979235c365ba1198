//! The Python `kubernetes` client, as its users write it.

use std::path::Path;
use std::process::{Command, ExitCode};

use skopos_conformance::{Tour, python};

fn main() -> ExitCode {
    let tour = Tour {
        more_checks: &["dynamic_client"],
        needs: &[("python3", "install Python 3 with venv")],
        prepare,
    };
    tour.run()
}

fn prepare() -> anyhow::Result<Command> {
    let mut tour = Command::new(python()?);
    tour.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/python/tour.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(tour)
}
