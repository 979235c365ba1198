//! Go's `client-go`: the dynamic and the typed client, shared informers of both factories, leader election.

use std::path::Path;
use std::process::{Command, ExitCode};

use skopos_conformance::{Tour, build_with, client_sources};

fn main() -> ExitCode {
    let tour = Tour {
        more_checks: &["informer_follows"],
        needs: &[("go", "install Go 1.26 or later (https://go.dev/dl)")],
        prepare: build,
    };
    tour.run()
}

/// Go's own cache makes the second build a matter of a second.
fn build() -> anyhow::Result<Command> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-client");
    let mut go = Command::new("go");
    go.current_dir(client_sources("go"));
    build_with(go.arg("build").arg("-o").arg(&program).arg("./tour"))?;
    Ok(Command::new(program))
}
