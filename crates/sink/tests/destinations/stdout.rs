//! The standard output, of a process of its own.

use std::{io::Write as _, process::Stdio, time::Duration};

use serde_json::Value;
use skopos_sink::{Destination, Event};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::{
    silence::threads,
    support::{Known, deliver, event, sink, told},
};

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
        .stderr(Stdio::piped())
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
    if mode == "unread" {
        write_unread(&*destination).await;
    }
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

/// Writes to a pipe that nobody reads, again and again, as whoever delivers does; then the parent reads.
async fn write_unread(destination: &dyn Destination) -> ! {
    let large = Event {
        content_type: "text/plain",
        data: vec![b'x'; 1 << 20].into(),
        ..event(0, "a")
    };
    let mut last = String::new();
    for _ in 0..50 {
        let sending = destination.send(std::slice::from_ref(&large));
        if let Ok(sent) = tokio::time::timeout(Duration::from_millis(20), sending).await {
            last = told(&sent.failure.unwrap());
        }
    }
    // The harness could not tell a failure: its output is the same.
    let report = format!("{} threads, {last}\n", threads().len());
    std::io::stderr().write_all(report.as_bytes()).unwrap();
    deliver(destination, &[event(1, "a")]).await;
    std::process::exit(0);
}

/// The ids of the lines that a process wrote.
async fn ids(child: &mut Child) -> Vec<String> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        // The harness speaks there too.
        if let Ok(event) = serde_json::from_str::<Value>(&line) {
            ids.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    ids
}

/// `skopos up | less`: each attempt kept a thread, and wrote its copy once someone read on.
#[tokio::test]
async fn standard_output_that_nobody_reads_is_written_to_once() {
    let mut child = start("unread");
    drop(child.stdin.take());
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut report = String::new();
    while !report.contains(" threads, ") {
        report.clear();
        assert!(errors.read_line(&mut report).await.unwrap() > 0);
    }
    let (n_threads, last) = report.trim_end().split_once(" threads, ").unwrap();
    assert!(n_threads.parse::<usize>().unwrap() < 10, "{report}");
    assert!(
        last.ends_with("cannot write to standard output: the last write has not ended"),
        "{report}"
    );
    assert_eq!(ids(&mut child).await, ["a/0", "a/1"]);
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn standard_output_gets_lines() {
    let mut child = start("open");
    drop(child.stdin.take());
    assert_eq!(ids(&mut child).await, ["a/0", "a/1"]);
    assert!(child.wait().await.unwrap().success());
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
