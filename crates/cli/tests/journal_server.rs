//! The server that keeps the journal is away when `skopos up` or `skopos run` starts.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]

#[path = "support/endpoint.rs"]
mod endpoint;
mod support;

use std::path::Path;
use std::process::Command;

use endpoint::{free_port, health};
use serde_json::Value;
use skopos_testkit::parts::{Nats, USER};
use support::{Running, run, skopos};

/// A port of this machine that nobody listens on.
const CLOSED: &str = "127.0.0.1:1";
/// What to do next.
const HINT: &str = "hint: check that the server of --journal runs, and what its address says";

fn journal_at(address: &str) -> String {
    let (user, password) = USER;
    format!("--journal=nats://{user}:{password}@{address}")
}

/// An API server that reacts to nothing by itself.
fn api_server(dir: &Path) -> Running {
    let args = ["apiserver", "--secure-port=0", "--kubeconfig=kubeconfig"];
    let server = Running::start(skopos(dir).args(args));
    server.lines.find("ready");
    server
}

/// `skopos run` on that server.
fn running(dir: &Path, journal: &str, args: &[&str]) -> Command {
    let mut command = skopos(dir);
    command
        .env("KUBECONFIG", "kubeconfig")
        .args(["run", "--data-dir=replica", journal])
        .args(args);
    command
}

#[test]
fn up_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    for (scheme, database) in [("nats", ""), ("postgres", "/db")] {
        let journal = format!("{scheme}://a:secret@{CLOSED}{database}");
        let done = run(dir.path(), &["up", "--listen=127.0.0.1:0", "--journal", &journal]);
        assert_eq!(done.code, 4, "{done:?}");
        for part in ["open the journal on its server: ", CLOSED, HINT] {
            assert!(done.err.contains(part), "{part} missing in {}", done.err);
        }
        assert_eq!(done.err.matches("refused").count(), 1, "{}", done.err);
        for part in ["secret", "data directory"] {
            assert!(!done.err.contains(part), "{part} in {}", done.err);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let _server = api_server(dir.path());
    let mut nats = Nats::start(None).await;
    nats.stop().await;
    let (journal, port) = (journal_at(&nats.address()), free_port());
    let endpoint = format!("127.0.0.1:{port}");
    // Long enough for any machine; the test waits for what happens, not for this.
    let args = ["--journal-wait=10m", "--endpoint", &endpoint];
    let mut replica = Running::start(&mut running(dir.path(), &journal, &args));
    let line = replica.errors.find("trying again");
    assert!(line.contains("WARN") && line.contains(&nats.address()), "{line}");
    // The second line comes after the first was told to whoever asks.
    replica.errors.find("trying again");
    let why = health(port, "/readyz?verbose");
    assert!(why.starts_with("HTTP/1.1 500"), "{why}");
    assert!(why.contains("the journal is not opened on its server"), "{why}");
    assert!(health(port, "/healthz").starts_with("HTTP/1.1 200"));
    nats.start_again().await;
    replica.lines.find("skopos is watching");
    replica.signal("TERM");
    assert_eq!(replica.wait(), 0);
}

#[test]
fn run_that_waits_for_it_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let _server = api_server(dir.path());
    let mut replica = Running::start(&mut running(
        dir.path(),
        &journal_at(CLOSED),
        &["--journal-wait=10m"],
    ));
    replica.errors.find("trying again");
    replica.signal("TERM");
    assert_eq!(replica.wait(), 0);
}

#[test]
fn a_leader_that_cannot_reach_it_gives_back_the_lease() {
    let dir = tempfile::tempdir().unwrap();
    let _server = api_server(dir.path());
    let namespace = "--leader-namespace=default";
    let args = ["--leader-elect", namespace, "--journal-wait=100ms"];
    let mut replica = Running::start(&mut running(dir.path(), &journal_at(CLOSED), &args));
    assert_eq!(replica.wait(), 4);
    let said = replica.errors.rest().join("\n");
    for part in ["trying again", "error: open the journal on its server", HINT] {
        assert!(said.contains(part), "{part} missing in {said}");
    }
    let lease = run(
        dir.path(),
        &["get", "lease", "skopos", "-o", "json", "--kubeconfig=kubeconfig"],
    )
    .ok();
    let lease: Value = serde_json::from_str(&lease).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "{lease}");
}
