//! Java's fabric8 client: generic and typed resources, an informer, leader election.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use skopos_conformance::{Tour, build_with, client_sources};

fn main() -> ExitCode {
    let tour = Tour {
        more_checks: &["informer_follows"],
        needs: &[
            ("java", "install a JDK, 17 or later"),
            ("javac", "install a JDK, 17 or later"),
            ("mvn", "install Maven, 3.8 or later"),
        ],
        prepare: build,
    };
    tour.run()
}

/// Maven only fetches what the client needs, and only when that changes; javac compiles it.
fn build() -> anyhow::Result<Command> {
    let sources = client_sources("java");
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-client");
    let (libraries, classes) = (home.join("lib"), home.join("classes"));
    std::fs::create_dir_all(&home)?;
    let files = java_files(&sources)?;
    once(&home.join("fetched"), &[sources.join("pom.xml")], || {
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "dependency:copy-dependencies"]);
        maven.args([
            "-DincludeScope=runtime",
            &format!("-DoutputDirectory={}", libraries.display()),
        ]);
        build_with(maven.arg("--file").arg(sources.join("pom.xml")))
    })?;
    let class_path = format!("{}/*", libraries.display());
    once(&home.join("compiled"), &files, || {
        let mut javac = Command::new("javac");
        javac
            .args(["-Xlint:all,-processing,-try", "-Werror", "-cp", &class_path, "-d"])
            .arg(&classes);
        build_with(javac.args(&files))
    })?;
    let mut java = Command::new("java");
    // A short run is over before the better compiler pays.
    java.args([
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &format!("{class_path}:{}", classes.display()),
        "Tour",
    ]);
    Ok(java)
}

fn java_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "java") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Does the work unless it was done for these very sources, which `stamp` then holds.
fn once(stamp: &Path, sources: &[PathBuf], work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut wanted = String::new();
    for source in sources {
        wanted.push_str(&std::fs::read_to_string(source)?);
    }
    if std::fs::read_to_string(stamp).is_ok_and(|done| done == wanted) {
        return Ok(());
    }
    work()?;
    Ok(std::fs::write(stamp, wanted)?)
}
