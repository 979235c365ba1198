//! OTLP in JSON, as the [mapping](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding) has it: names in
//! camel case, ids in hexadecimal, enumerations as numbers, long integers as text.

use std::fmt::Display;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::json;
use skopos_journal::{SpanId, TraceId};

use crate::span::{Attribute, Event, Part, Span, Value};

/// A request is not larger, unless one span is.
const MAX_BYTES: usize = 1 << 20;
/// What all attributes begin with: their names are ours, not those of a convention.
const PREFIX: &str = "skopos.";
/// The trace is recorded, and the parent of a span is known to be of this process or one like it.
const FLAGS: u32 = 0x101;

/// What is around spans in a request: who says so.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    head: String,
    tail: &'static str,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) n_spans: u64,
    pub(crate) body: Bytes,
}

impl Frame {
    pub(crate) fn new(resource: &[(String, String)]) -> Self {
        let attributes: Vec<_> = resource
            .iter()
            .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
            .collect();
        let resource = json!({"attributes": attributes});
        let scope = json!({"name": "skopos", "version": env!("CARGO_PKG_VERSION")});
        Self {
            head: format!(
                r#"{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"scope":{scope},"spans":["#
            ),
            tail: "]}]}]}",
        }
    }

    /// Spans, in order, in as many requests as their size needs.
    pub(crate) fn parcels(&self, spans: &[Span]) -> Vec<Parcel> {
        let (mut parcels, mut parts, mut n_bytes) = (Vec::new(), Vec::new(), 0);
        for span in spans {
            let part = serde_json::to_string(&Written::from(span)).expect("text, numbers and lists of them");
            if n_bytes + part.len() > MAX_BYTES && !parts.is_empty() {
                parcels.push(self.around(&parts));
                (parts, n_bytes) = (Vec::new(), 0);
            }
            n_bytes += part.len();
            parts.push(part);
        }
        if !parts.is_empty() {
            parcels.push(self.around(&parts));
        }
        parcels
    }

    fn around(&self, spans: &[String]) -> Parcel {
        let body = [self.head.as_str(), &spans.join(","), self.tail].concat();
        Parcel {
            n_spans: spans.len() as u64,
            body: body.into(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    trace_id: Text<TraceId>,
    span_id: Text<SpanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<Text<SpanId>>,
    flags: u32,
    name: String,
    kind: u8,
    start_time_unix_nano: Text<i128>,
    end_time_unix_nano: Text<i128>,
    attributes: Vec<KeyValue<'a>>,
    events: Vec<WrittenEvent<'a>>,
    status: Status<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenEvent<'a> {
    time_unix_nano: Text<i128>,
    name: &'a str,
    attributes: Vec<KeyValue<'a>>,
}

#[derive(Serialize)]
struct KeyValue<'a> {
    key: String,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
enum AnyValue<'a> {
    #[serde(rename = "stringValue")]
    Text(&'a str),
    #[serde(rename = "intValue")]
    Integer(Text<i64>),
    #[serde(rename = "doubleValue")]
    Number(f64),
    #[serde(rename = "boolValue")]
    Truth(bool),
}

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

impl<'a> From<&'a Span> for Written<'a> {
    fn from(span: &'a Span) -> Self {
        Self {
            trace_id: Text(span.trace),
            span_id: Text(span.id),
            parent_span_id: span.parent.map(Text),
            flags: FLAGS,
            name: span.name(),
            kind: kind(span.part),
            start_time_unix_nano: nanos(span.started),
            end_time_unix_nano: nanos(span.ended),
            attributes: attributes(&span.attributes),
            events: span.events.iter().map(WrittenEvent::from).collect(),
            status: status(span),
        }
    }
}

impl<'a> From<&'a Event> for WrittenEvent<'a> {
    fn from(event: &'a Event) -> Self {
        Self {
            time_unix_nano: nanos(event.at),
            name: &event.name,
            attributes: attributes(&event.attributes),
        }
    }
}

fn kind(part: Part) -> u8 {
    const INTERNAL: u8 = 1;
    const CLIENT: u8 = 3;
    match part {
        Part::Capture | Part::Match | Part::Other(_) => INTERNAL,
        // It waits for an answer.
        Part::Deliver => CLIENT,
    }
}

fn status(span: &Span) -> Status<'_> {
    const UNSET: u8 = 0;
    const OK: u8 = 1;
    const ERROR: u8 = 2;
    match (&span.error, span.part) {
        (Some(error), _) => Status {
            code: ERROR,
            message: error,
        },
        // Somebody else has acknowledged it.
        (None, Part::Deliver) => Status {
            code: OK,
            message: "",
        },
        (None, _) => Status {
            code: UNSET,
            message: "",
        },
    }
}

fn attributes(all: &[Attribute]) -> Vec<KeyValue<'_>> {
    all.iter()
        .map(|one| KeyValue {
            key: format!("{PREFIX}{}", one.key),
            value: match &one.value {
                Value::Text(text) => AnyValue::Text(text),
                Value::Integer(number) => AnyValue::Integer(Text(*number)),
                Value::Number(number) => AnyValue::Number(*number),
                Value::Truth(truth) => AnyValue::Truth(*truth),
            },
        })
        .collect()
}

fn nanos(at: Timestamp) -> Text<i128> {
    // There were none before 1970.
    Text(at.as_nanosecond().max(0))
}

/// Written as a text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(span: &Span) -> serde_json::Value {
        let frame = Frame::new(&[("service.name".into(), "a \"b\"".into())]);
        let [parcel] = <[_; 1]>::try_from(frame.parcels(std::slice::from_ref(span))).unwrap();
        serde_json::from_slice(&parcel.body).unwrap()
    }

    #[test]
    fn a_request_is_as_the_mapping_to_json_says() {
        let expect = json!({"resourceSpans": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "a \"b\""}}]},
            "scopeSpans": [{
                "scope": {"name": "skopos", "version": env!("CARGO_PKG_VERSION")},
                "spans": [{
                    "traceId": "552f733fedd31ca20f010639b6cc560e",
                    "spanId": "00f067aa0ba902b7",
                    "parentSpanId": "00f067aa0ba902b6",
                    "flags": 257,
                    "name": "deliver ops/\"hook\"",
                    "kind": 3,
                    "startTimeUnixNano": "1544712660000000001",
                    "endTimeUnixNano": "1544712661000000000",
                    "attributes": [
                        {"key": "skopos.sink", "value": {"stringValue": "ops/\"hook\""}},
                        {"key": "skopos.attempt", "value": {"intValue": "2"}},
                        {"key": "skopos.is_last", "value": {"boolValue": true}},
                    ],
                    "events": [{
                        "timeUnixNano": "1544712660500000000",
                        "name": "not delivered",
                        "attributes": [{"key": "skopos.deliver_ms", "value": {"doubleValue": 1.5}}],
                    }],
                    "status": {"code": 2, "message": "busy"},
                }],
            }],
        }]});
        assert_eq!(written(&Span::example()), expect);
    }

    #[test]
    fn the_outcome_is_the_status() {
        let check = |part, error: Option<&str>, kind: u8, status: serde_json::Value| {
            let error = error.map(str::to_owned);
            let written = written(&Span {
                part,
                error,
                ..Span::example()
            });
            let written = &written["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
            assert_eq!((&written["kind"], &written["status"]), (&kind.into(), &status));
        };
        check(Part::Deliver, None, 3, json!({"code": 1}));
        check(
            Part::Deliver,
            Some("busy"),
            3,
            json!({"code": 2, "message": "busy"}),
        );
        check(Part::Capture, None, 1, json!({"code": 0}));
        check(Part::Match, None, 1, json!({"code": 0}));
    }

    #[test]
    fn a_root_has_no_parent() {
        let root = Span {
            parent: None,
            ..Span::example()
        };
        let written = written(&root);
        let written = &written["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(written.get("parentSpanId"), None);
    }

    #[test]
    fn large_batches_are_several_requests() {
        let large = Span {
            error: Some("x".repeat(300 << 10)),
            ..Span::example()
        };
        let spans = vec![large; 7];
        let parcels = Frame::new(&[]).parcels(&spans);
        let sizes: Vec<_> = parcels.iter().map(|parcel| parcel.n_spans).collect();
        assert_eq!(sizes, [3, 3, 1]);
        assert!(parcels.iter().all(|parcel| parcel.body.len() <= MAX_BYTES + 1024));
        assert_eq!(Frame::new(&[]).parcels(&[]), []);
    }
}
