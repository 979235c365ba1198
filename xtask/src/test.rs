//! `cargo xtask test`: everything a change must pass, with one sum at the end.

use std::process::ExitCode;
use std::time::Instant;

use crate::check;
use crate::kube::{self, Controllers, Instance};
use crate::parts;
use crate::run::{Tally, cargo, part, run_seeing, seconds};
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

/// What runs on a real server; one of them is [`OUTER`], which compares both servers there.
const REAL_SUITES: usize = 7;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let mut tally = Tally::default();
    tally.count(part("servers that tests start", parts::install));
    if args.fast {
        tally.add(suite("unit tests", &["--workspace", "--exclude", OUTER], &[]));
    } else {
        tally.add(check::run_all());
        tally.add(suite("unit tests", &["--workspace", "--exclude", OUTER], &[]));
        tally.add(outer_suites(args.embedded));
    }
    println!("took {}", seconds(start.elapsed()));
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally.exit_code())
}

fn outer_suites(embedded_only: bool) -> Tally {
    let mut tally = Tally::default();
    let mut env = Vec::new();
    for tool in [Tool::Skopos, Tool::Kubectl, Tool::Python] {
        let installed = part(&format!("tool {tool:?}"), || {
            env.push((tool.variable().to_owned(), tool.path()?.display().to_string()));
            Ok(())
        });
        tally.count(installed);
    }
    tally.add(suite("end to end, embedded server", &["--package", OUTER], &env));
    let skipped = match (embedded_only, kube::can_start()) {
        (true, _) => Some("--embedded"),
        (false, false) => Some("there is no go to build it with"),
        (false, true) => None,
    };
    match skipped {
        Some(why) => println!("── skipped {REAL_SUITES} suites on a real kube-apiserver: {why}"),
        None => tally.add(on_real(&env)),
    }
    tally
}

fn on_real(env: &[(String, String)]) -> Tally {
    let mut tally = Tally::default();
    let mut started = None;
    tally.count(part("start a real kube-apiserver", || {
        started = Some(Instance::start("test", Controllers::Embedded)?);
        Ok(())
    }));
    let Some(instance) = started else { return tally };
    let kubeconfig = instance.kubeconfig().display().to_string();
    let mut env = env.to_vec();
    env.push(("SKOPOS_TARGET".into(), kubeconfig.clone()));
    env.push(("SKOPOS_TEST_KUBECONFIG".into(), kubeconfig));
    let outer = ["--package", OUTER];
    tally.add(suite("end to end and side by side, real server", &outer, &env));
    let behaviour = ["--package", "skopos-apiserver", "--test", "behaviour"];
    tally.add(suite("behaviour, real server", &behaviour, &env));
    let controller = [
        "--package",
        "skopos-controller",
        "--test",
        "leader_processes",
        "--test",
        "events",
    ];
    tally.add(suite("leadership and events, real server", &controller, &env));
    let simulation = [
        "--package",
        "skopos-testkit",
        "--test",
        "simulation",
        "through_a_proxy",
    ];
    tally.add(suite("simulation, real server", &simulation, &env));
    let example = ["--package", "skopos-example-myapp"];
    tally.add(suite("the example, real server", &example, &env));
    let crash = ["--package", "skopos-cli", "--test", "crash"];
    tally.add(suite("kills at random, real server", &crash, &env));
    let cluster = ["--package", "skopos-cli", "--test", "cluster"];
    tally.add(suite("in a cluster with rights, real server", &cluster, &env));
    tally.count(part("stop the real kube-apiserver", || instance.stop()));
    tally
}

/// Runs `cargo test` and adds up its result lines.
fn suite(title: &str, args: &[&str], env: &[(String, String)]) -> Tally {
    let mut tally = Tally::default();
    let ok = part(title, || {
        let mut test = cargo();
        test.args(["test", "--no-fail-fast", "--quiet"]).args(args);
        test.envs(env.iter().map(|(name, value)| (name, value)));
        run_seeing(&mut test, |line| {
            tally.add(parse_result(line).unwrap_or_default());
        })
    });
    // A suite that does not compile, or dies, has no result line to tell of it.
    if !ok && tally.failed == 0 {
        tally.failed = 1;
    }
    tally
}

/// Reads `test result: ok. 12 passed; 0 failed; …`.
fn parse_result(line: &str) -> Option<Tally> {
    let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    let number = |word: &str| {
        let part = counts.split(';').find(|part| part.trim().ends_with(word))?;
        part.trim().split(' ').next()?.parse().ok()
    };
    Some(Tally {
        passed: number("passed")?,
        failed: number("failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<(u64, u64)>) {
        let expect = expect.map(|(passed, failed)| Tally { passed, failed });
        assert_eq!(parse_result(line), expect, "{line}");
    }

    #[test]
    fn reads_the_counts_of_cargo_test() {
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            Some((12, 0)),
        );
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored", Some((3, 2)));
        check("test tests::reads_the_counts ... ok", None);
        check("test result: nonsense", None);
    }
}
