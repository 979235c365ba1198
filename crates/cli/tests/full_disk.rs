//! `skopos run` on a disk that is really full: a small file system of its own, which only root can make.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]
#![expect(
    clippy::print_stderr,
    reason = "who runs the tests should know what was left out"
)]

#[path = "support/endpoint.rs"]
mod endpoint;
#[path = "support/reacting.rs"]
mod reacting;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use endpoint::{free_port, health};
use reacting::{install, until, until_watching};
use serde_json::Value;
use support::{Running, run_with, skopos};

/// A mounted file system, gone at the end.
struct Mounted(PathBuf);

impl Mounted {
    /// Nothing if it cannot be made here.
    fn new(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(&path);
        let done = mount.output().ok()?;
        if !done.status.success() {
            eprintln!("skipped: only root can mount a small file system");
            return None;
        }
        Some(Self(path))
    }

    /// Takes all the room there is.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("something-else");
        let mut file = fs::File::create(&path).unwrap();
        for size in [65536, 4096, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

const RULES: &str = "\
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {name: all, namespace: ops}
spec:
  watch: {group: myapps.example.com, kind: Application}
  do: [{sink: log}]
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {name: log, namespace: ops}
spec: {file: {path: log.jsonl}}
";

/// A rule whose deliveries never arrive, so that more and more of them must be kept.
fn hopeless() -> String {
    let actions = ["{sink: nowhere}"; 50].join(", ");
    format!(
        "\
---
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {{name: hopeless, namespace: ops}}
spec:
  watch: {{group: myapps.example.com, kind: Application}}
  do: [{actions}]
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: nowhere, namespace: ops}}
spec: {{webhook: {{url: 'http://127.0.0.1:1/'}}}}
"
    )
}

/// An API server elsewhere, with applications.
fn api_server(dir: &Path) -> Running {
    fs::create_dir(dir.join(".kube")).unwrap();
    let args = [
        "apiserver",
        "--secure-port=0",
        "--kubeconfig=.kube/config",
        "--data-dir=server",
    ];
    let server = Running::start(skopos(dir).args(args));
    server.lines.find("ready");
    install(dir);
    fs::write(dir.join("rules.yaml"), RULES.to_owned() + &hopeless()).unwrap();
    server
}

fn start(dir: &Path, port: u16) -> Running {
    let endpoint = format!("127.0.0.1:{port}");
    Running::start(skopos(dir).args(["run", "-f", "rules.yaml", "--endpoint", &endpoint]))
}

/// Makes so many applications what they should be.
fn apply_all(dir: &Path, n: u32, replicas: u32) {
    let one = |name| {
        format!(
            "apiVersion: myapps.example.com/v1\nkind: Application\nmetadata: {{name: app{name}}}\nspec: {{image: nginx, replicas: {replicas}}}\n"
        )
    };
    let all: Vec<String> = (0..n).map(one).collect();
    run_with(dir, &["apply", "-f", "-"], &all.join("---\n")).ok();
}

/// What arrived, by object and in order, without repetitions.
fn arrived(dir: &Path) -> BTreeMap<String, Vec<Value>> {
    let text = fs::read_to_string(dir.join("log.jsonl")).unwrap_or_default();
    let mut objects: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if seen.insert(event["id"].as_str().unwrap().to_owned()) {
            let subject = event["subject"].as_str().unwrap().to_owned();
            let replicas = event["data"]["after"]["spec"]["replicas"].clone();
            objects.entry(subject).or_default().push(replicas);
        }
    }
    objects
}

fn delivering(status: &Value) -> &Value {
    let all = status["rules"][0]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == "Delivering"));
    found.unwrap_or(&Value::Null)
}

#[test]
fn deliveries_wait_for_room_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(dir.path().join(".skopos")) else {
        return;
    };
    // The journal has room, so that there is something to deliver.
    fs::create_dir(dir.path().join("journal")).unwrap();
    symlink(dir.path().join("journal"), dir.path().join(".skopos/journal")).unwrap();
    let _server = api_server(dir.path());
    let port = free_port();
    let mut process = start(dir.path(), port);
    // Asked before it has its data directory, the question would open that itself.
    process.lines.find("skopos is watching");
    until_watching(dir.path());
    const OBJECTS: u32 = 40;
    apply_all(dir.path(), OBJECTS, 1);
    until(dir.path(), "delivered", |status| {
        status["rules"][0]["routes"][0]["delivered"] == u64::from(OBJECTS)
    });

    let other = mounted.fill();
    let mut last = 1;
    while delivering(&until(dir.path(), "there", |status| {
        status["rules"][0].is_object()
    }))["reason"]
        != "NoSpace"
    {
        assert!(last < 200, "the disk never was full");
        last += 1;
        apply_all(dir.path(), OBJECTS, last);
    }
    let why = health(port, "/readyz?verbose");
    assert!(why.starts_with("HTTP/1.1 500"), "{why}");
    assert!(
        why.contains("deliveries") && why.contains("there is no room"),
        "{why}"
    );
    let metrics = health(port, "/metrics");
    assert!(metrics.contains("skopos_delivery_no_space 1"));
    assert!(metrics.contains("process_resident_memory_bytes"));
    apply_all(dir.path(), OBJECTS, last + 1);

    fs::remove_file(other).unwrap();
    until(dir.path(), "delivered", |status| {
        let rule = &status["rules"][0];
        delivering(status)["reason"] == "UpToDate"
            && rule["lagChanges"] == 0
            && rule["routes"][0]["pending"] == 0
    });
    let expected: Vec<Value> = (1..=last + 1).map(Value::from).collect();
    let arrived = arrived(dir.path());
    assert_eq!(arrived.len(), usize::try_from(OBJECTS).unwrap());
    for (object, got) in arrived {
        assert_eq!(got, expected, "{object}");
    }
    process.signal("TERM");
    assert_eq!(process.wait(), 0);
}

#[test]
fn run_waits_for_room_at_the_start_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(dir.path().join(".skopos")) else {
        return;
    };
    let _server = api_server(dir.path());
    let other = mounted.fill();
    let port = free_port();
    let mut process = start(dir.path(), port);
    let line = process.errors.find("trying again");
    assert!(
        line.contains("WARN") && line.contains("there is no room in .skopos"),
        "{line}"
    );
    let why = health(port, "/readyz?verbose");
    assert!(why.contains("there is no room"), "{why}");
    fs::remove_file(other).unwrap();
    process.lines.find("skopos is watching");
    process.signal("TERM");
    assert_eq!(process.wait(), 0);
}
