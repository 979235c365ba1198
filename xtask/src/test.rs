//! `cargo xtask test`: everything a change must pass, with one sum at the end.

use std::process::ExitCode;
use std::time::Instant;

use crate::check;
use crate::kube::{self, Controllers, Instance};
use crate::parts;
use crate::programs::{Programs, Which, run_tests, suite};
use crate::run::{Tally, cargo, part, seconds};
use crate::tools::Tool;

/// What to leave out, what to add.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only unit tests: no checks, no end-to-end suites.
    #[arg(long)]
    fast: bool,
    /// Leave out the suites on a real kube-apiserver (which is built on first use: several minutes).
    #[arg(long)]
    embedded: bool,
}

const OUTER: &str = "skopos-conformance";

/// What runs on a real server.
const REAL: [(&str, Which<'_>); 7] = [
    ("end to end and side by side", Which::of(OUTER, &[])),
    ("behaviour", Which::of("skopos-apiserver", &["behaviour"])),
    (
        "leadership and events",
        Which::of("skopos-controller", &["leader_processes", "events"]),
    ),
    (
        "simulation",
        Which {
            filter: Some("through_a_proxy"),
            ..Which::of("skopos-testkit", &["simulation"])
        },
    ),
    ("the example", Which::of("skopos-example-myapp", &[])),
    ("kills at random", Which::of("skopos-cli", &["crash"])),
    ("in a cluster with rights", Which::of("skopos-cli", &["cluster"])),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let mut tally = Tally::default();
    tally.count(part("servers that tests start", parts::install));
    if !args.fast {
        tally.add(check::run_all());
    }
    let mut built = None;
    tally.count(part("build the tests", || {
        built = Some(Programs::build()?);
        Ok(())
    }));
    if let Some(programs) = &built {
        let inner = Which {
            except: Some(OUTER),
            ..Which::default()
        };
        tally.add(programs.run("unit tests", inner, &[]));
        tally.add(doc_tests());
        if !args.fast {
            tally.add(outer_suites(programs, args.embedded));
        }
    }
    println!("took {}", seconds(start.elapsed()));
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally.exit_code())
}

/// The examples in documentation, which only cargo can run.
fn doc_tests() -> Tally {
    suite("examples in documentation", |tally| {
        let mut test = cargo();
        test.args(["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
        run_tests(&mut test, tally)
    })
}

fn outer_suites(programs: &Programs, embedded_only: bool) -> Tally {
    let mut tally = Tally::default();
    let mut env = vec![(
        Tool::Skopos.variable().to_owned(),
        programs.skopos.display().to_string(),
    )];
    for tool in [Tool::Kubectl, Tool::Python] {
        let installed = part(&format!("tool {tool:?}"), || {
            env.push((tool.variable().to_owned(), tool.path()?.display().to_string()));
            Ok(())
        });
        tally.count(installed);
    }
    let outer = Which::of(OUTER, &[]);
    tally.add(programs.run("end to end, embedded server", outer, &env));
    let skipped = match (embedded_only, kube::can_start()) {
        (true, _) => Some("--embedded"),
        (false, false) => Some("there is no go to build it with"),
        (false, true) => None,
    };
    match skipped {
        Some(why) => println!("── skipped {} suites on a real kube-apiserver: {why}", REAL.len()),
        None => tally.add(on_real(programs, &env)),
    }
    tally
}

fn on_real(programs: &Programs, env: &[(String, String)]) -> Tally {
    let mut tally = Tally::default();
    let mut started = None;
    tally.count(part("start a real kube-apiserver", || {
        started = Some(Instance::start_own("test", Controllers::Embedded)?);
        Ok(())
    }));
    let Some(instance) = started else { return tally };
    let kubeconfig = instance.kubeconfig().display().to_string();
    let mut env = env.to_vec();
    env.push(("SKOPOS_TARGET".into(), kubeconfig.clone()));
    env.push(("SKOPOS_TEST_KUBECONFIG".into(), kubeconfig));
    match instance.how_to_crash() {
        Ok(how) => env.extend(how),
        Err(error) => eprintln!("the real server will not be killed: {error:#}"),
    }
    for (title, which) in REAL {
        tally.add(programs.run(&format!("{title}, real server"), which, &env));
    }
    tally.count(part("stop the real kube-apiserver", || instance.stop()));
    tally
}
