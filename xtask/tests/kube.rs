//! `cargo xtask kube` on programs that only seem to be the real ones: what is started, found, and stopped again.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const STAYS: &str = "exec sleep 600\n";
const APISERVER: &str = r#"
while [ "$1" != --cert-dir ]; do shift; done
mkdir -p "$2"
touch "$2/apiserver.crt"
exec sleep 600
"#;
/// Knows what it was asked to build, and waits with the first program until somebody opens the gate.
const GO: &str = r#"
[ "$1 $2" = "mod download" ] && echo "{\"GoMod\": \"/dev/null\"}"
[ "$1" = build ] || exit 0
echo "$6" >> "$HOME/builds"
[ "$6" = k8s.io/kubernetes/cmd/kube-apiserver ] && cat "$HOME/gate"
mkdir -p "${5%/*}"
touch "$5"
"#;

/// A user with directories of his own. Whatever still runs at the end is stopped.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    /// With all programs built.
    fn new() -> Self {
        let home = Self::empty();
        for (name, script) in [
            ("etcd", STAYS),
            ("kube-apiserver", APISERVER),
            ("kube-controller-manager", STAYS),
            ("kubectl", "echo \"the one that was built: $*\"\n"),
        ] {
            home.write_program(name, script);
        }
        home
    }

    fn write_program(&self, name: &str, script: &str) {
        let source = include_str!("../src/kube/build.rs");
        let (_, version) = source.split_once("VERSION: &str = \"").unwrap();
        let (version, _) = version.split_once('"').unwrap();
        let dir = self.path().join("cache/skopos/kube").join(version).join("bin");
        write_script(&dir.join(name), script);
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn state(&self) -> PathBuf {
        self.path().join("state/skopos/kube")
    }

    fn kube(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let path = format!("{}:/usr/bin:/bin", self.path().join("programs").display());
        command
            .arg("kube")
            .args(args)
            .env("HOME", self.path())
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("PATH", path)
            // A terminal in which this is run must not be that of its group: it would send signals itself.
            .process_group(0)
            .stdin(Stdio::null());
        command
    }

    /// Runs a chore that goes well, and returns what it says.
    #[track_caller]
    fn run(&self, args: &[&str]) -> String {
        let output = self.kube(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The processes of an instance.
    fn processes(&self, instance: &str) -> Vec<u32> {
        let dir = self.state().join(instance);
        let ids = ["etcd", "kube-apiserver", "kube-controller-manager"].map(|name| {
            let text = fs::read_to_string(dir.join(format!("{name}.pid"))).ok()?;
            text.split_once(' ')?.0.parse().ok()
        });
        ids.into_iter().flatten().collect()
    }

    fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.state()).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for instance in self.instances() {
            let _ = self.kube(&["down", "--name", &instance]).output();
        }
    }
}

fn write_script(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Only its remains may be left, if nobody asked how it ended.
fn runs(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn all_run(ids: &[u32]) -> bool {
    ids.len() == 3 && ids.iter().all(|id| runs(*id))
}

/// Asks until something is so.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

fn kill(signal: &str, id: u32) {
    let sent = Command::new("kill").args([signal, &id.to_string()]).status();
    assert!(sent.unwrap().success());
}

fn lines(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

#[test]
fn instances_run_side_by_side_and_down_stops_only_its_own() {
    let home = Home::new();
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    let (one, two) = (home.run(&["up", "--name=one"]), home.run(&["up", "--name=two"]));
    assert_ne!(fs::read(one.trim()).unwrap(), fs::read(two.trim()).unwrap());
    let (ones, twos) = (home.processes("one"), home.processes("two"));
    assert!(all_run(&ones) && all_run(&twos));

    home.run(&["down", "--name=one"]);
    assert!(!ones.iter().any(|id| runs(*id)));
    assert!(all_run(&twos) && runs(bystander.id()));
    assert_eq!(home.instances(), ["two"]);
    home.run(&["down", "--name=two"]);
    assert!(!twos.iter().any(|id| runs(*id)));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn run_uses_the_kubectl_that_was_built() {
    let home = Home::new();
    let said = home.run(&["run", "--", "kubectl", "get", "namespaces"]);
    assert_eq!(said, "the one that was built: get namespaces\n");
    assert!(home.instances().is_empty());
}

#[test]
fn run_leaves_an_instance_that_it_did_not_start() {
    let home = Home::new();
    home.run(&["up", "--name=kept"]);
    let before = home.processes("kept");
    home.run(&["run", "--name=kept", "--", "true"]);
    home.run(&["run", "--name=other", "--controllers=all", "--", "true"]);
    assert_eq!(home.processes("kept"), before);
    assert!(all_run(&before));
    assert_eq!(home.instances(), ["kept"]);
}

#[test]
fn run_that_is_interrupted_stops_its_command_and_its_instance() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let home = Home::new();
        // The outer shell stays, so that what it started must be told too.
        let script = "sh -c 'echo $$; exec sleep 600'; true";
        let mut run = home
            .kube(&["run", "--name=cut", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        lines(&mut run).read_line(&mut said).unwrap();
        let (command, servers) = (said.trim().parse().unwrap(), home.processes("cut"));
        assert!(all_run(&servers) && runs(command));

        kill(signal, run.id());
        assert_eq!(run.wait().unwrap().code(), Some(code));
        until("the command ends", || !runs(command));
        assert!(!servers.iter().any(|id| runs(*id)), "{signal}");
        assert!(home.instances().is_empty(), "{signal}");
    }
}

#[test]
fn an_instance_that_is_interrupted_while_it_starts_leaves_nothing() {
    let home = Home::new();
    home.write_program("kube-apiserver", STAYS);
    let mut up = home.kube(&["up", "--name=cut"]).spawn().unwrap();
    until("two servers run", || home.processes("cut").len() == 2);
    let servers = home.processes("cut");
    kill("-TERM", up.id());
    assert_eq!(up.wait().unwrap().code(), Some(143));
    assert!(!servers.iter().any(|id| runs(*id)));
    assert!(home.instances().is_empty());
}

#[test]
fn two_first_builds_take_turns() {
    let home = Home::empty();
    write_script(&home.path().join("programs/go"), GO);
    let gate = home.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let build = || home.kube(&["build"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = build();
    let builds = home.path().join("builds");
    until("the first one builds", || builds.is_file());
    let mut second = build();
    let mut said = String::new();
    BufReader::new(second.stderr.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(said.starts_with("waiting for another build"), "{said}");
    // Whoever reads it goes on.
    fs::write(&gate, "").unwrap();
    assert!(first.wait().unwrap().success());
    assert!(second.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&builds).unwrap().lines().count(), 4);
}
