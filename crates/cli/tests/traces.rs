//! The trace of a change, as the log of `skopos up` and a receiver of its deliveries see it.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    dead_code,
    reason = "not every test uses everything that is there to start servers"
)]

#[path = "support/reacting.rs"]
mod reacting;
mod support;

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use reacting::{apply, install, until_watching};
use serde_json::Value;
use support::{Running, run, skopos};

/// What a receiver got.
struct Received {
    id: String,
    traceparent: String,
    attribute: String,
}

/// A receiver that is not available for the first request.
fn receiver() -> (String, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Nobody sends more; one that did would wait.
    let (send, receive) = sync_channel(64);
    std::thread::spawn(move || {
        let mut answers = ["503 Busy"].into_iter();
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            while let Some(text) = request(&mut stream) {
                let received = Received {
                    id: header(&text, "ce-id"),
                    traceparent: header(&text, "traceparent"),
                    attribute: header(&text, "ce-traceparent"),
                };
                let answer = answers.next().unwrap_or("200 OK");
                let response = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
                let answered = stream.get_mut().write_all(response.as_bytes());
                if send.send(received).is_err() || answered.is_err() {
                    break;
                }
            }
        }
    });
    (address, receive)
}

/// The head of a request, after all of it was read.
fn request(stream: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut body = vec![0; header(&head, "content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

fn header(request: &str, name: &str) -> String {
    let mut headers = request.lines().filter_map(|line| line.split_once(": "));
    let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value).to_owned()
}

fn rules(hook: &str) -> String {
    format!(
        "\
apiVersion: skopos.dev/v1alpha1
kind: Rule
metadata: {{name: all, namespace: ops}}
spec:
  watch: {{group: myapps.example.com, kind: Application}}
  do: [{{sink: hook, payload: ref}}]
---
apiVersion: skopos.dev/v1alpha1
kind: Sink
metadata: {{name: hook, namespace: ops}}
spec: {{webhook: {{url: 'http://{hook}/'}}}}
"
    )
}

fn start(dir: &Path) -> Running {
    let mut command = skopos(dir);
    command.env("SKOPOS_LOG", "error,skopos::trace=debug").args([
        "up",
        "--log-format=json",
        "--listen=127.0.0.1:0",
        "-f=rules.yaml",
    ]);
    let server = Running::start(&mut command);
    server.lines.find("skopos is ready");
    server
}

/// The next lines of the log with these messages, in whatever order they come: of each its span and its own fields.
#[track_caller]
fn said<const N: usize>(server: &Running, messages: [&str; N]) -> [(Value, Value); N] {
    let mut found = messages.map(|_| None);
    while found.iter().any(Option::is_none) {
        let line: Value = serde_json::from_str(&server.errors.next()).unwrap_or_default();
        let message = line["fields"]["message"].as_str().unwrap_or_default();
        if let Some(place) = messages.iter().position(|wanted| *wanted == message) {
            found[place].get_or_insert((line["span"].clone(), line["fields"].clone()));
        }
    }
    found.map(Option::unwrap)
}

#[track_caller]
fn next(received: &Receiver<Received>) -> Received {
    received
        .recv_timeout(Duration::from_secs(30))
        .expect("another delivery")
}

/// Fails unless the receiver was told to go on from this span.
#[track_caller]
fn check_told(received: &Received, span: &Value) {
    let part = |name: &str| span[name].as_str().unwrap().to_owned();
    let expect = format!("00-{}-{}-01", part("trace_id"), part("span_id"));
    assert_eq!((&received.traceparent, &received.attribute), (&expect, &expect));
    assert_eq!(expect.len(), 55);
}

#[test]
fn one_trace_leads_from_the_change_to_each_acknowledgement_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (address, received) = receiver();
    std::fs::write(dir.path().join("rules.yaml"), rules(&address)).unwrap();
    let mut server = start(dir.path());
    install(dir.path());
    until_watching(dir.path());
    apply(dir.path(), "web", 1);

    // A rule may see the change before its capture is told that it is durable.
    let [
        (capture, durable),
        (matched, match_fields),
        (failed, why),
        (delivered, at_last),
    ] = said(&server, ["durable", "matched", "not delivered", "delivered"]);
    let all = [&capture, &matched, &failed, &delivered];
    let names = all.map(|span| span["name"].as_str().unwrap());
    assert_eq!(names, ["capture", "match", "deliver", "deliver"]);
    for span in all {
        for (field, value) in [
            ("trace_id", &capture["trace_id"]),
            ("change.id", &capture["change.id"]),
            ("object.kind", &"Application".into()),
            ("object.namespace", &"default".into()),
            ("object.name", &"web".into()),
        ] {
            assert_eq!(&span[field], value, "{field} of {span}");
        }
        assert!(span["observed_at"].is_string(), "{span}");
    }
    assert_eq!(matched["parent_span_id"], capture["span_id"]);
    for (span, attempt) in [(&failed, 1), (&delivered, 2)] {
        assert_eq!(span["parent_span_id"], matched["span_id"]);
        assert_eq!(
            (&span["rule"], &span["sink"]),
            (&"ops/all".into(), &"ops/hook".into())
        );
        assert_eq!(span["attempt"], attempt);
    }
    assert_ne!(failed["span_id"], delivered["span_id"]);
    for (fields, time) in [
        (&durable, "capture_ms"),
        (&match_fields, "match_ms"),
        (&why, "deliver_ms"),
        (&at_last, "deliver_ms"),
        (&at_last, "total_ms"),
    ] {
        assert!(fields[time].is_f64(), "{time} of {fields}");
    }
    let first = next(&received);
    check_told(&first, &failed);
    check_told(&next(&received), &delivered);

    server.signal("TERM");
    assert_eq!(server.wait(), 0);
    // Another process delivers the same change once more: it is the same trace.
    let server = start(dir.path());
    until_watching(dir.path());
    run(dir.path(), &["replay", "ops/all", "--from", "1"]).ok();
    let [(again, _)] = said(&server, ["delivered"]);
    let last = next(&received);
    check_told(&last, &again);
    assert_eq!(last.id, first.id);
    assert_eq!(again["trace_id"], capture["trace_id"]);
}
