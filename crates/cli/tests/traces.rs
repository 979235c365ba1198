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
    busy_at_first(|request| {
        Some(Received {
            id: request.header("ce-id"),
            traceparent: request.header("traceparent"),
            attribute: request.header("ce-traceparent"),
        })
    })
}

/// A request as a server got it.
struct Request {
    head: String,
    body: Vec<u8>,
    is_answered_well: bool,
}

/// A server that is not available for the first request, and tells what it makes of each before it answers.
fn busy_at_first<T: Send + 'static>(make: fn(&Request) -> Option<T>) -> (String, Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Nobody sends more; one that did would wait.
    let (send, receive) = sync_channel(64);
    std::thread::spawn(move || {
        let mut answers = ["503 Busy"].into_iter();
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            while let Some((head, body)) = read(&mut stream) {
                let answer = answers.next().unwrap_or("200 OK");
                let request = Request {
                    head,
                    body,
                    is_answered_well: answer == "200 OK",
                };
                if let Some(made) = make(&request)
                    && send.send(made).is_err()
                {
                    return;
                }
                let response = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
                if stream.get_mut().write_all(response.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (address, receive)
}

/// The head and the body of a request.
fn read(stream: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut body = vec![0; header(&head, "content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

impl Request {
    fn header(&self, name: &str) -> String {
        header(&self.head, name)
    }
}

fn header(head: &str, name: &str) -> String {
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
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
fn next<T>(received: &Receiver<T>) -> T {
    received
        .recv_timeout(Duration::from_secs(30))
        .expect("another request")
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

/// A receiver of traces that is not available for the first request; of those it took, what is in them.
fn collector() -> (String, Receiver<Value>) {
    let (address, received) = busy_at_first(|request| {
        assert!(request.head.starts_with("POST /v1/traces "), "{}", request.head);
        assert_eq!(request.header("content-type"), "application/json");
        let body = serde_json::from_slice::<Value>(&request.body).unwrap();
        request.is_answered_well.then(|| body["resourceSpans"][0].clone())
    });
    (format!("http://{address}"), received)
}

/// Everything that was taken of the trace that a receiver was told of, ordered by the beginnings of the spans.
struct Trace {
    id: String,
    spans: Vec<Value>,
}

impl Trace {
    fn told(received: &Received) -> Self {
        let id = received.traceparent.split('-').nth(1).unwrap().to_owned();
        Self {
            id,
            spans: Vec::new(),
        }
    }

    fn add(&mut self, taken: &Value) {
        let spans = taken["scopeSpans"][0]["spans"].as_array().unwrap();
        let ours = spans.iter().filter(|span| span["traceId"] == *self.id);
        self.spans.extend(ours.cloned());
        // Of the same length, so that text is ordered as numbers are.
        self.spans
            .sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap().to_owned());
    }

    /// Fails unless there are exactly these, each by its name, its status, and which of them is its parent.
    #[track_caller]
    fn check(&self, expect: &[(&str, i32, Option<usize>)]) {
        let ids: Vec<_> = self.spans.iter().map(|span| &span["spanId"]).collect();
        let found: Vec<_> = self
            .spans
            .iter()
            .map(|span| {
                let parent = span.get("parentSpanId");
                let place = parent.map(|parent| ids.iter().position(|id| *id == parent).expect("a parent"));
                let status = span["status"]["code"].as_i64().unwrap();
                (
                    span["name"].as_str().unwrap(),
                    i32::try_from(status).unwrap(),
                    place,
                )
            })
            .collect();
        assert_eq!(found, expect);
    }
}

fn start_exporting(dir: &Path, args: &[&str], env: (&str, &str)) -> Running {
    let mut command = skopos(dir);
    command
        .env(env.0, env.1)
        .args(["up", "--listen=127.0.0.1:0", "-f=rules.yaml"])
        .args(args);
    let server = Running::start(&mut command);
    server.lines.find("skopos is ready");
    server
}

/// Told to stop, it sends what is left before it ends.
#[track_caller]
fn interrupt(mut server: Running) {
    server.signal("INT");
    assert_eq!(server.wait(), 0);
}

#[test]
fn a_collector_gets_each_trace_whole() {
    let dir = tempfile::tempdir().unwrap();
    let ((hook, received), (collector, taken)) = (receiver(), collector());
    std::fs::write(dir.path().join("rules.yaml"), rules(&hook)).unwrap();
    let endpoint = format!("--otlp-endpoint={collector}");
    let server = start_exporting(dir.path(), &[&endpoint], ("OTEL_SERVICE_NAME", "watcher"));
    install(dir.path());
    until_watching(dir.path());

    apply(dir.path(), "web", 1);
    let told = [next(&received), next(&received)];
    let mut first = Trace::told(&told[0]);
    while first.spans.len() < 4 {
        let taken = next(&taken);
        assert_eq!(
            taken["resource"]["attributes"][0]["value"]["stringValue"],
            "watcher"
        );
        first.add(&taken);
    }
    first.check(&[
        ("capture Application", 0, None),
        ("match ops/all", 0, Some(0)),
        ("deliver ops/hook", 2, Some(1)),
        ("deliver ops/hook", 1, Some(1)),
    ]);
    let message = first.spans[2]["status"]["message"].as_str().unwrap();
    assert!(message.contains("503"), "{message}");
    // What a receiver does is below the attempt that it got.
    for (told, span) in told.iter().zip(&first.spans[2..]) {
        let id = span["spanId"].as_str().unwrap();
        assert_eq!(told.traceparent, format!("00-{}-{id}-01", first.id));
    }

    apply(dir.path(), "web", 2);
    let mut second = Trace::told(&next(&received));
    interrupt(server);
    taken.try_iter().for_each(|taken| second.add(&taken));
    second.check(&[
        ("capture Application", 0, None),
        ("match ops/all", 0, Some(0)),
        ("deliver ops/hook", 1, Some(1)),
    ]);
    assert_ne!(first.id, second.id);

    // Another process goes on with the same traces.
    let server = start_exporting(dir.path(), &[], ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector));
    until_watching(dir.path());
    run(dir.path(), &["replay", "ops/all", "--from", "1"]).ok();
    let told = [next(&received), next(&received)];
    assert_eq!(Trace::told(&told[0]).id, first.id);
    interrupt(server);
    taken.try_iter().for_each(|taken| first.add(&taken));
    let replay = first.spans[4]["name"].as_str().unwrap().to_owned();
    assert!(replay.starts_with("match ops/all"), "{replay}");
    first.check(&[
        ("capture Application", 0, None),
        ("match ops/all", 0, Some(0)),
        ("deliver ops/hook", 2, Some(1)),
        ("deliver ops/hook", 1, Some(1)),
        (&replay, 0, Some(0)),
        ("deliver ops/hook", 1, Some(4)),
    ]);
}

#[test]
fn receivers_are_told_that_a_trace_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let ((hook, received), (collector, taken)) = (receiver(), collector());
    std::fs::write(dir.path().join("rules.yaml"), rules(&hook)).unwrap();
    let share = ["--trace-ratio=0"];
    let server = start_exporting(dir.path(), &share, ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector));
    install(dir.path());
    until_watching(dir.path());
    apply(dir.path(), "web", 1);
    let told = next(&received);
    assert!(told.traceparent.ends_with("-00"), "{}", told.traceparent);
    assert_eq!(told.traceparent, told.attribute);
    interrupt(server);
    assert_eq!(taken.try_iter().count(), 0);
}

#[test]
fn a_collector_that_cannot_be_one_is_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let address = "\"collector:4318\" is not a whole URL";
    run(dir.path(), &["up", "--otlp-endpoint=collector:4318"]).fails(2, &["--otlp-endpoint", address]);
    let mut command = skopos(dir.path());
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
        .arg("up");
    support::Done::from(command.output().unwrap())
        .fails(2, &["OTEL_EXPORTER_OTLP_ENDPOINT", address, "hint:"]);
}
