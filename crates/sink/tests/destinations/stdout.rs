//! The standard output, of a process of its own.

use std::process::Stdio;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::support::{Known, event, sink, told};

const VARIABLE: &str = "SKOPOS_TEST_STDOUT";

/// Runs [`process`] in another process.
fn start(mode: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "stdout::process", "--nocapture", "--test-threads=2"])
        .env(VARIABLE, mode);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What the other process does; nothing in the run of all tests.
#[tokio::test]
async fn process() {
    let Ok(mode) = std::env::var(VARIABLE) else { return };
    // The parent closes our input when it has closed our output.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let destination = sink("stdout: {}", &Known::default()).await;
    let sent = destination.send(&[event(0, "a"), event(1, "a")]).await;
    let failure = sent.failure.map(|failure| told(&failure)).unwrap_or_default();
    match mode.as_str() {
        "open" => assert_eq!((sent.n_delivered, failure.as_str()), (2, "")),
        _ => {
            let text =
                "destination is not available: cannot write to standard output: Broken pipe (os error 32)";
            assert_eq!((sent.n_delivered, failure.as_str()), (0, text));
            // The harness could not tell its result either.
            std::process::exit(0);
        }
    }
}

#[tokio::test]
async fn standard_output_gets_lines() {
    let mut child = start("open");
    drop(child.stdin.take());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        // The harness speaks there too.
        if let Ok(event) = serde_json::from_str::<Value>(&line) {
            ids.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    assert!(child.wait().await.unwrap().success());
    assert_eq!(ids, ["a/0", "a/1"]);
}

#[tokio::test]
async fn closed_standard_output_is_a_failure() {
    let mut child = start("closed");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Until then the harness would notice before the destination does.
    while lines.next_line().await.unwrap().unwrap() != "running 1 test" {}
    drop(lines);
    drop(child.stdin.take());
    assert!(child.wait().await.unwrap().success());
}
