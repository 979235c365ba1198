//! The test programs of the workspace: built once, with one set of features, and run by name.
//!
//! `cargo test --package X` chooses the features of dependencies for X alone, so each suite would compile dozens of
//! crates once more.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::run::{Tally, cargo, command, metadata, part, run_seeing};

/// All of them.
#[derive(Debug)]
pub(crate) struct Programs {
    tests: Vec<Program>,
    /// The command `skopos`, with the same features.
    pub(crate) skopos: PathBuf,
}

/// The tests of a library or binary, or one file of `tests/`.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    package: String,
    name: String,
    file: PathBuf,
    dir: PathBuf,
}

/// Which programs to run, and which tests of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Which<'a> {
    /// Of this package only.
    pub(crate) package: Option<&'a str>,
    /// Of all packages but this one.
    pub(crate) except: Option<&'a str>,
    /// Of these names; all if there are none.
    pub(crate) names: &'a [&'a str],
    /// Tests whose name contains this.
    pub(crate) filter: Option<&'a str>,
}

impl<'a> Which<'a> {
    /// These programs of a package; all if none is named.
    pub(crate) const fn of(package: &'a str, names: &'a [&'a str]) -> Self {
        Self {
            package: Some(package),
            except: None,
            names,
            filter: None,
        }
    }

    fn takes(&self, program: &Program) -> bool {
        self.package.is_none_or(|package| package == program.package)
            && self.except != Some(program.package.as_str())
            && (self.names.is_empty() || self.names.contains(&program.name.as_str()))
    }
}

impl Programs {
    /// Builds them all.
    pub(crate) fn build() -> anyhow::Result<Self> {
        let mut build = cargo();
        build.args(["test", "--workspace", "--no-run", "--quiet"]);
        build.arg("--message-format=json-render-diagnostics");
        let output = build.stderr(std::process::Stdio::inherit()).output()?;
        anyhow::ensure!(output.status.success(), "the tests do not compile");
        Self::read(&String::from_utf8(output.stdout)?, &metadata(&["--no-deps"])?)
    }

    /// Reads what cargo says it built.
    fn read(messages: &str, metadata: &Value) -> anyhow::Result<Self> {
        let mut tests = Vec::new();
        let mut skopos = None;
        for message in messages.lines() {
            let built: Value = serde_json::from_str(message).context("read a message of cargo")?;
            let Some(file) = built["executable"].as_str().map(PathBuf::from) else {
                continue;
            };
            let name = built["target"]["name"].as_str().unwrap_or_default();
            if built["profile"]["test"] == true {
                let manifest = built["manifest_path"]
                    .as_str()
                    .context("a target without a package")?;
                tests.push(Program {
                    package: package_at(metadata, manifest)?,
                    name: name.to_owned(),
                    file,
                    dir: PathBuf::from(manifest)
                        .parent()
                        .context("a manifest without a directory")?
                        .into(),
                });
            } else if name == "skopos" {
                skopos = Some(file);
            }
        }
        // They come in the order in which they were finished, which differs.
        tests.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
        let skopos = skopos.context("cargo did not build the command skopos")?;
        Ok(Self { tests, skopos })
    }

    /// Runs some of them one after the other, and adds up their result lines.
    pub(crate) fn run(&self, title: &str, which: Which<'_>, env: &[(String, String)]) -> Tally {
        suite(title, |tally| {
            let chosen: Vec<_> = self.tests.iter().filter(|program| which.takes(program)).collect();
            anyhow::ensure!(!chosen.is_empty(), "there are no such tests");
            let failed: Vec<_> = chosen
                .into_iter()
                .filter(|program| program.run(which.filter, env, tally).is_err())
                .map(|program| format!("{} {}", program.package, program.name))
                .collect();
            anyhow::ensure!(failed.is_empty(), "{}", failed.join(", "));
            Ok(())
        })
    }
}

/// A part that counts tests.
pub(crate) fn suite(title: &str, work: impl FnOnce(&mut Tally) -> anyhow::Result<()>) -> Tally {
    let mut tally = Tally::default();
    let ok = part(title, || work(&mut tally));
    // A program that dies has no result line to tell of it.
    if !ok && tally.failed == 0 {
        tally.failed = 1;
    }
    tally
}

/// Runs a program and adds up its result lines.
pub(crate) fn run_tests(test: &mut Command, tally: &mut Tally) -> anyhow::Result<()> {
    run_seeing(test, |line| {
        tally.add(parse_result(line).unwrap_or_default());
    })
}

impl Program {
    fn run(&self, filter: Option<&str>, env: &[(String, String)], tally: &mut Tally) -> anyhow::Result<()> {
        println!("{} {}", self.package, self.name);
        let mut test = command(&self.file);
        test.current_dir(&self.dir).arg("--quiet").args(filter);
        test.envs(env.iter().map(|(name, value)| (name, value)));
        run_tests(&mut test, tally)
    }
}

/// The package whose manifest this is.
fn package_at(metadata: &Value, manifest: &str) -> anyhow::Result<String> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let found = packages
        .iter()
        .find(|package| package["manifest_path"] == manifest);
    let name = found.and_then(|package| package["name"].as_str());
    Ok(name
        .with_context(|| format!("no package has {manifest}"))?
        .to_owned())
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
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn check(line: &str, expect: Option<(u64, u64)>) {
        let expect = expect.map(|(passed, failed)| Tally { passed, failed });
        assert_eq!(parse_result(line), expect, "{line}");
    }

    #[test]
    fn reads_the_counts_of_a_test_program() {
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            Some((12, 0)),
        );
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored", Some((3, 2)));
        check("test tests::reads_the_counts ... ok", None);
        check("test result: nonsense", None);
    }

    fn artifact(name: &str, is_test: bool, file: &str) -> String {
        let manifest = "/w/crates/cli/Cargo.toml";
        json!({"reason": "compiler-artifact", "manifest_path": manifest, "target": {"name": name},
            "profile": {"test": is_test}, "executable": file})
        .to_string()
    }

    #[test]
    fn knows_what_cargo_built() {
        let metadata =
            json!({"packages": [{"name": "skopos-cli", "manifest_path": "/w/crates/cli/Cargo.toml"}]});
        let library = json!({"reason": "compiler-artifact", "executable": null, "target": {"name": "serde"}});
        let messages = [
            library.to_string(),
            artifact("skopos", false, "/t/skopos"),
            artifact("crash", true, "/t/crash-1"),
        ];
        let programs = Programs::read(&messages.join("\n"), &metadata).unwrap();
        assert_eq!(programs.skopos, Path::new("/t/skopos"));
        let [crash] = &programs.tests[..] else {
            panic!("{programs:?}")
        };
        assert_eq!(
            (crash.package.as_str(), crash.name.as_str()),
            ("skopos-cli", "crash")
        );
        assert_eq!(crash.dir, Path::new("/w/crates/cli"));
        assert!(Which::of("skopos-cli", &["crash"]).takes(crash));
        assert!(!Which::of("skopos-cli", &["cluster"]).takes(crash));
        assert!(
            !Which {
                except: Some("skopos-cli"),
                ..Which::default()
            }
            .takes(crash)
        );
    }
}
