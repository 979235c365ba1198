//! Runs clients in other languages, and reports each of their checks as a test.
//!
//! A client is a program in `clients/` that does what its users do on the server that `KUBECONFIG` names and prints
//! `ok <check>` or `not ok <check>: why` for each thing it tried. All clients do the same [`CHECKS`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};

use crate::Target;
use crate::aged::forget_beginning;
use crate::transcript::scripts;

/// What every client does.
const CHECKS: [&str; 14] = [
    "custom_resource_crud",
    "built_in_crud",
    "json_patch",
    "merge_patch",
    "strategic_merge_patch",
    "server_side_apply",
    "status_subresource",
    "scale_subresource",
    "pages_and_selectors",
    "stale_update_conflicts",
    "finalizer_holds_deletion",
    "watch_resumes",
    "watch_from_expired_version",
    "leader_election",
];

/// A client in another language.
#[derive(Debug)]
pub struct Tour {
    /// What it does beside what all do.
    pub more_checks: &'static [&'static str],
    /// A program that it needs, and how to get it.
    pub needs: &'static [(&'static str, &'static str)],
    /// Builds the client, or finds it as it was, and returns how to start it. The file of the custom resource's
    /// definition follows as its argument.
    pub prepare: fn() -> anyhow::Result<Command>,
}

/// What a client said: its checks with what went wrong, and everything it wrote.
struct Said {
    checks: BTreeMap<String, Option<String>>,
    text: String,
}

impl Tour {
    /// The `main` of a test without a harness.
    #[expect(clippy::print_stdout, reason = "it is a test's")]
    pub fn run(self) -> ExitCode {
        let missing = self.needs.iter().find(|(program, _)| !is_on_path(program));
        if let Some((program, how)) = missing {
            println!("skipped: there is no {program} on this machine; {how}");
        }
        let prepare = self.prepare;
        let said: Arc<OnceLock<Result<Said, String>>> = Arc::default();
        let trial = |name: &&'static str| {
            let (name, said) = (*name, said.clone());
            let check = move || {
                let said = said.get_or_init(|| take(prepare).map_err(|error| format!("{error:#}")));
                outcome(said, name).map_err(Into::into)
            };
            Trial::test(name, check).with_ignored_flag(missing.is_some())
        };
        let trials = CHECKS.iter().chain(self.more_checks).map(trial).collect();
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }
}

fn is_on_path(program: &str) -> bool {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&dirs).any(|dir| dir.join(program).is_file())
}

/// Runs the client on a server; a check that failed is for its own test to tell.
fn take(prepare: fn() -> anyhow::Result<Command>) -> anyhow::Result<Said> {
    let target = Target::start()?;
    let mut client = std::thread::scope(|scope| {
        let aging = scope.spawn(|| match target.embedded() {
            Some(_) => forget_beginning(&target.endpoint()?),
            None => Ok(()),
        });
        let client = prepare();
        aging.join().expect("it does not panic")?;
        client
    })?;
    client
        .arg(scripts().join("fixtures/crd.yaml"))
        .env("KUBECONFIG", target.kubeconfig());
    let output = client.output()?;
    let written = String::from_utf8_lossy(&output.stdout);
    let text = format!("{written}{}", String::from_utf8_lossy(&output.stderr));
    let checks = written.lines().filter_map(read_line).collect();
    Ok(Said { checks, text })
}

/// Reads `ok <check>` or `not ok <check>: why`.
fn read_line(line: &str) -> Option<(String, Option<String>)> {
    if let Some(name) = line.strip_prefix("ok ") {
        return Some((name.to_owned(), None));
    }
    let (name, why) = line.strip_prefix("not ok ")?.split_once(": ")?;
    Some((name.to_owned(), Some(why.to_owned())))
}

fn outcome(said: &Result<Said, String>, name: &str) -> Result<(), String> {
    let said = said.as_ref().map_err(String::clone)?;
    match said.checks.get(name) {
        Some(None) => Ok(()),
        Some(Some(why)) => Err(why.clone()),
        None => Err(format!("the client does not say; it says:\n{}", said.text)),
    }
}

/// Where the sources of a client are.
pub fn client_sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(language)
}

/// Runs a command of a build; what it says is the error.
pub fn build_with(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let written = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(output.status.success(), "{command:?} failed:\n{written}{said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_client_says_of_its_checks() {
        let check = |line: &str, expect: Option<(&str, Option<&str>)>| {
            let expect = expect.map(|(name, why)| (name.to_owned(), why.map(str::to_owned)));
            assert_eq!(read_line(line), expect, "{line}");
        };
        check("ok json_patch", Some(("json_patch", None)));
        check(
            "not ok json_patch: 409: conflict",
            Some(("json_patch", Some("409: conflict"))),
        );
        check("I1116 leader election", None);
    }

    #[test]
    fn a_check_that_is_not_told_fails() {
        let said = Ok(Said {
            checks: BTreeMap::new(),
            text: "panic".to_owned(),
        });
        assert!(outcome(&said, "json_patch").unwrap_err().contains("panic"));
    }
}
