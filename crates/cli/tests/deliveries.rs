//! `skopos top`, `dlq`, `replay`, `resume` and `explain` against a running `skopos up`.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]

#[path = "support/endpoint.rs"]
mod endpoint;
#[path = "support/reacting.rs"]
mod reacting;
mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use endpoint::{free_port, health};
use reacting::{apply, install, until, until_watching};
use serde_json::Value;
use support::{Running, run, skopos, up};

/// A receiver that answers with a status of the test's choice.
struct Hook {
    address: String,
    status: Arc<AtomicU16>,
}

impl Hook {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let status = Arc::new(AtomicU16::new(status));
        let answer = status.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 65536];
                while stream.read(&mut request).is_ok_and(|n| n > 0) {
                    let code = answer.load(Ordering::SeqCst);
                    let response = format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(response.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Self { address, status }
    }
}

fn rules(hook: &str) -> String {
    format!(
        "\
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {{name: all, namespace: ops}}
spec:
  watch: {{group: myapps.example.com, kind: Application}}
  do:
  - {{sink: hook, template: '${{object.metadata.name}}'}}
  - {{sink: log, payload: ref}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: hook, namespace: ops}}
spec: {{webhook: {{url: 'http://{hook}/'}}}}
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: log, namespace: ops}}
spec: {{file: {{path: log.jsonl}}}}
"
    )
}

fn start(dir: &Path, hook: &Hook) -> Running {
    start_with(dir, &rules(&hook.address))
}

/// Starts a process that follows these rules, and waits until it does.
fn start_with(dir: &Path, rules: &str) -> Running {
    std::fs::write(dir.join("rules.yaml"), rules).unwrap();
    let (server, _) = up(dir, &["--listen", "127.0.0.1:0", "-f", "rules.yaml"]);
    install(dir);
    until_watching(dir);
    server
}

fn lines(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("log.jsonl")).map_or(0, |text| text.lines().count())
}

#[test]
fn what_was_given_up_is_listed_shown_redriven_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(400);
    let mut server = start(dir.path(), &hook);
    apply(dir.path(), "web", 1);
    apply(dir.path(), "db", 1);
    until(dir.path(), "given up", |status| {
        status["sinks"][0]["dead"] == 2 && status["sinks"][1]["delivered"] == 2
    });

    let top = run(dir.path(), &["top", "--once"]).ok();
    for part in [
        "applications.myapps.example.com",
        "watching",
        "RULE",
        "ops/all",
        "SINK",
        "ops/hook",
        "ops/log",
    ] {
        assert!(top.contains(part), "{part} missing in {top}");
    }
    let list = run(dir.path(), &["dlq", "list"]).ok();
    assert!(
        list.starts_with("ID ") && list.lines().count() == 3 && list.contains("400"),
        "{list}"
    );
    let letters = run(dir.path(), &["dlq", "list", "--rule", "ops/all", "-o", "json"]).ok();
    let letter: Value = serde_json::from_str(letters.lines().next().unwrap()).unwrap();
    let id = letter["id"].as_str().unwrap();
    let shown = run(dir.path(), &["dlq", "show", id]).ok();
    assert!(shown.contains("would be sent:\n    web\n"), "{shown}");
    run(dir.path(), &["dlq", "show", "9-9"]).fails(1, &["no dead letter", "dlq list"]);
    run(dir.path(), &["dlq", "drop"]).fails(2, &["<ID>"]);

    hook.status.store(200, Ordering::SeqCst);
    assert_eq!(
        run(dir.path(), &["dlq", "redrive", id]).ok(),
        "1 dead letter redriven\n"
    );
    until(dir.path(), "redriven", |status| {
        status["sinks"][0]["delivered"] == 1
    });
    server.signal("TERM");
    assert_eq!(server.wait(), 0);
    // Nobody runs: the same from the data directory.
    assert_eq!(run(dir.path(), &["dlq", "list"]).ok().lines().count(), 2);
    assert_eq!(
        run(dir.path(), &["dlq", "drop", "--all", "-o", "json"]).ok(),
        "{\"dropped\":1}\n"
    );
    assert!(run(dir.path(), &["dlq", "list"]).err.contains("No dead letters"));
    run(dir.path(), &["replay", "all", "--from", "1h"]).fails(1, &["no process runs", "skopos up"]);
    run(dir.path(), &["resume", "all"]).fails(1, &["no process runs"]);
}

#[test]
fn a_range_is_replayed_and_a_change_explained() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(200);
    let _server = start(dir.path(), &hook);
    for replicas in 1..4 {
        apply(dir.path(), "web", replicas);
    }
    until(dir.path(), "delivered", |status| {
        status["sinks"][1]["delivered"] == 3
    });
    assert_eq!(lines(dir.path()), 3);
    let dry = run(
        dir.path(),
        &["replay", "ops/all", "--from", "1", "--to", "2", "--dry-run"],
    )
    .ok();
    assert!(dry.contains("done: 2 of 2 changes, 2 match (dry run"), "{dry}");
    let sent = run(dir.path(), &["replay", "all", "--from", "1h", "--sink", "log"]).ok();
    assert!(
        sent.contains("done: 3 of 3 changes, 3 matched, 6 delivered"),
        "{sent}"
    );
    // Both actions of the rule go to that sink.
    assert_eq!(lines(dir.path()), 9);
    run(dir.path(), &["replay", "nobody", "--from", "1"]).fails(1, &["there is no rule \"nobody\""]);
    run(dir.path(), &["replay", "all", "--from", "99"]).fails(2, &["no change in that range"]);
    run(dir.path(), &["replay", "all", "--from", "soon"]).fails(2, &["7d"]);
    let why = run(dir.path(), &["explain", "2"]).ok();
    assert!(why.contains("ops/all matches"), "{why}");
    let rule = run(dir.path(), &["explain", "ops/all", "-o", "json"]).ok();
    let rule: Value = serde_json::from_str(&rule).unwrap();
    assert_eq!(rule["explanations"].as_array().unwrap().len(), 3, "{rule}");
    run(dir.path(), &["explain", "nobody"]).fails(1, &["nobody", "ops/all"]);
    let table = run(dir.path(), &["history", "applications", "web"]).ok();
    assert_eq!(table.lines().count(), 4, "{table}");
    let created = table.lines().nth(1).unwrap();
    assert!(
        created.contains("default/web   skopos"),
        "who created it is known: {table}"
    );
}

#[test]
fn a_rule_that_did_too_much_goes_on_when_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(200);
    let limited = rules(&hook.address).replace("  do:\n", "  limits: {maxActionsPerMinute: 2}\n  do:\n");
    let _server = start_with(dir.path(), &limited);
    for replicas in 1..=4 {
        apply(dir.path(), "web", replicas);
    }
    until(dir.path(), "suspended", |status| {
        status["rules"][0]["suspended"].is_string() && status["sinks"][1]["delivered"] == 2
    });
    let top = run(dir.path(), &["top", "--once"]).ok();
    assert!(
        top.contains("suspended: more than 2 matches in a minute"),
        "{top}"
    );
    assert_eq!(lines(dir.path()), 2);
    run(dir.path(), &["resume", "nobody"]).fails(1, &["there is no rule \"nobody\"", "skopos top --once"]);
    assert_eq!(
        run(dir.path(), &["resume", "all"]).ok(),
        "ops/all goes on; it was suspended: more than 2 matches in a minute\n"
    );
    let status = until(dir.path(), "all delivered", |status| {
        status["sinks"][1]["delivered"] == 4
    });
    assert_eq!(status["rules"][0]["suspended"], Value::Null, "{status}");
    assert_eq!(lines(dir.path()), 4);
}

#[test]
fn a_replay_that_is_interrupted_says_how_far_it_came() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(200);
    let _server = start(dir.path(), &hook);
    for replicas in 1..=3 {
        apply(dir.path(), "web", replicas);
    }
    until(dir.path(), "delivered", |status| {
        status["sinks"][0]["delivered"] == 3 && status["sinks"][1]["delivered"] == 3
    });
    hook.status.store(503, Ordering::SeqCst);
    let replay = ["replay", "ops/all", "--from", "1"];
    let mut interrupted = Running::start(skopos(dir.path()).args(replay));
    let half = "3 of 3 changes, 3 matched, 3 delivered, 3 pending, 0 given up";
    interrupted.lines.find(half);
    interrupted.signal("INT");
    assert_eq!(interrupted.wait(), 1);
    let said = interrupted.errors.rest();
    assert_eq!(said, [format!("cancelled: {half}; what was sent was sent")]);
    until(dir.path(), "ended", |status| {
        status["replays"][0]["finished"] == true && status["sinks"][0]["pending"] == 0
    });
    hook.status.store(200, Ordering::SeqCst);
    let done = run(dir.path(), &replay).ok();
    assert!(
        done.contains("done: 3 of 3 changes, 3 matched, 6 delivered"),
        "{done}"
    );
}

#[test]
fn events_tell_the_cluster_by_the_name_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(200);
    std::fs::write(dir.path().join("rules.yaml"), rules(&hook.address)).unwrap();
    let flags = ["--listen", "127.0.0.1:0", "-f", "rules.yaml"];
    let (mut server, _) = up(dir.path(), &[&flags[..], &["--cluster-name", "prod-1"]].concat());
    install(dir.path());
    until_watching(dir.path());
    apply(dir.path(), "web", 1);
    until(dir.path(), "delivered", |status| {
        status["sinks"][1]["delivered"] == 1
    });
    let line = std::fs::read_to_string(dir.path().join("log.jsonl")).unwrap();
    let event: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(
        event["source"],
        "/clusters/prod-1/myapps.example.com/applications"
    );
    assert_eq!(event["data"]["source"]["cluster"], "prod-1");
    server.signal("TERM");
    assert_eq!(server.wait(), 0);
    // By another name each object would be there twice.
    let again = run(dir.path(), &[&["up"], &flags[..]].concat());
    again.fails(4, &["\"prod-1\"", "\"kubernetes\"", "a place of its own"]);
    run(dir.path(), &["up", "--cluster-name", "Prod_1"]).fails(2, &["--cluster-name"]);
}

#[test]
fn a_replay_of_which_some_is_given_up_ends_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(200);
    let _server = start(dir.path(), &hook);
    apply(dir.path(), "web", 1);
    until(dir.path(), "delivered", |status| {
        status["sinks"][0]["delivered"] == 1 && status["sinks"][1]["delivered"] == 1
    });
    hook.status.store(400, Ordering::SeqCst);
    let name = "ops/all/replay-1";
    let said = [
        "1 delivery was given up",
        &format!("skopos dlq list --rule {name}"),
    ];
    run(dir.path(), &["replay", "ops/all", "--from", "1"]).fails(1, &said);
    let letters = run(dir.path(), &["dlq", "list", "--rule", name, "-o", "json"]).ok();
    let letter: Value = serde_json::from_str(&letters).unwrap();
    let shown = run(dir.path(), &["dlq", "show", letter["id"].as_str().unwrap()]).ok();
    assert!(shown.contains("would be sent:\n    web\n"), "{shown}");
    hook.status.store(200, Ordering::SeqCst);
    assert_eq!(
        run(dir.path(), &["dlq", "redrive", "--rule", name]).ok(),
        "1 dead letter redriven\n"
    );
    until(dir.path(), "redriven", |status| {
        status["replays"][0]["delivered"] == 2 && status["sinks"][0]["dead"] == 0
    });
}

/// Runs a line of a shell in a terminal of its own. Keys are written to its standard input.
fn in_terminal(dir: &Path, line: &str) -> Running {
    // From util-linux; Debian has it always.
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--command", line, "/dev/null"])
        .current_dir(dir)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped());
    Running::start(&mut command)
}

/// Presses a key once the screen shows what it should, and sees that the terminal is left as it was.
fn check_screen(dir: &Path, key: &str) {
    let skopos = env!("CARGO_BIN_EXE_skopos");
    // The shell must outlive a Ctrl-C.
    let line = format!(
        "trap : INT; stty rows 40 cols 200; stty -g; NO_COLOR=1 {skopos} top --every 1; echo left $?; stty -g"
    );
    let mut terminal = in_terminal(dir, &line);
    let before = terminal.lines.next();
    let first = terminal.lines.find("journal: change 1 (-/s), 1 objects");
    assert!(
        first.starts_with("\x1b[?1049h") && first.contains("\x1b[H"),
        "{first:?}"
    );
    terminal.lines.find("applications.myapps.example.com   watching");
    terminal.lines.find("RULE      BEHIND   LAG");
    terminal.lines.find("ops/all   0        0.0s   1         -");
    terminal.lines.find("ops/log ");
    // The next frame knows how much happened since the first.
    terminal.lines.find("\x1b[Hjournal: change 1 (0.0/s)");
    terminal.lines.find("ops/all   0        0.0s   1         0.0");
    let mut keys = terminal.child.stdin.take().unwrap();
    keys.write_all(key.as_bytes()).unwrap();
    let left = terminal.lines.find("left ");
    assert!(left.ends_with("\x1b[?1049lleft 0"), "{left:?}");
    assert_eq!(terminal.lines.next(), before);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn the_screen_of_top_is_drawn_again_and_again_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::start(200);
    let _server = start(dir.path(), &hook);
    apply(dir.path(), "web", 1);
    until(dir.path(), "delivered", |status| {
        status["sinks"][0]["delivered"] == 1 && status["sinks"][1]["delivered"] == 1
    });
    for key in ["q", "\x03"] {
        check_screen(dir.path(), key);
    }
}

#[test]
fn run_is_not_ready_while_the_server_is_away_and_says_what_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".kube")).unwrap();
    let port = free_port();
    let start_server = || {
        let mut command = skopos(dir.path());
        command.args(["apiserver", "--kubeconfig=.kube/config", "--data-dir=server"]);
        let server = Running::start(command.arg(format!("--secure-port={port}")));
        server.lines.find("ready");
        server
    };
    // Dropped means killed.
    drop(start_server());
    let endpoint = free_port();
    let address = format!("127.0.0.1:{endpoint}");
    let process = Running::start(skopos(dir.path()).args(["run", "--no-install", "--endpoint", &address]));
    let line = process.errors.find("nothing is planned yet");
    assert!(
        line.contains("WARN") && line.contains("rules.skopos.dev ("),
        "{line}"
    );
    let why = health(endpoint, "/readyz?verbose");
    assert!(why.starts_with("HTTP/1.1 500"), "{why}");
    assert!(
        why.contains("nothing is planned yet: rules.skopos.dev ("),
        "{why}"
    );
    let _server = start_server();
    let began = Instant::now();
    while !health(endpoint, "/readyz").starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < Duration::from_secs(60), "never ready");
    }
}
