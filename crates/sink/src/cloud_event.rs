//! The JSON format of CloudEvents 1.0.

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::Event;

/// Writes an event as one JSON object, without a line end.
pub(crate) fn to_json(event: &Event) -> Vec<u8> {
    let mut object = Map::new();
    for (name, value) in attributes(event) {
        object.insert(name.to_owned(), Value::from(value));
    }
    object.insert("datacontenttype".into(), event.content_type.into());
    let mut text = Value::Object(object).to_string().into_bytes();
    text.pop();
    text.extend_from_slice(b",");
    write_data(event, &mut text);
    text.push(b'}');
    text
}

/// Writes events as one JSON array, the batch format.
pub(crate) fn to_batch(events: &[Event]) -> Vec<u8> {
    let mut text = vec![b'['];
    for (n, event) in events.iter().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&to_json(event));
    }
    text.push(b']');
    text
}

/// Writes events as JSON lines.
pub(crate) fn to_lines(events: &[Event]) -> Vec<u8> {
    let mut text = Vec::new();
    for event in events {
        text.extend_from_slice(&to_json(event));
        text.push(b'\n');
    }
    text
}

/// The attributes of the context, but for the type of the data. `rule`, `partitionkey` and `traceparent` are extensions.
pub(crate) fn attributes(event: &Event) -> impl Iterator<Item = (&'static str, &str)> {
    let always = [
        ("specversion", "1.0"),
        ("id", &event.id),
        ("type", event.cloud_event_type()),
        ("source", &event.source),
        ("subject", &event.subject),
        ("time", &event.time),
        ("rule", &event.rule),
        ("partitionkey", &event.lane),
    ];
    let traceparent = event.traceparent.as_deref();
    always
        .into_iter()
        .chain(traceparent.map(|value| ("traceparent", value)))
}

/// JSON stays as it is, provided that it is JSON on one line; text becomes a string, and all else Base64.
fn write_data(event: &Event, to: &mut Vec<u8>) {
    let (name, value) = match (event.content_type, std::str::from_utf8(&event.data)) {
        ("application/json", Ok(text)) => match serde_json::from_str::<Value>(text) {
            Ok(_) if !text.contains(['\n', '\r']) => {
                to.extend_from_slice(b"\"data\":");
                to.extend_from_slice(text.as_bytes());
                return;
            }
            Ok(value) => ("data", value),
            Err(_) => ("data", Value::from(text)),
        },
        (_, Ok(text)) => ("data", Value::from(text)),
        (_, Err(_)) => {
            let text = base64::engine::general_purpose::STANDARD.encode(&event.data);
            ("data_base64", Value::from(text))
        }
    };
    to.extend_from_slice(format!("\"{name}\":{value}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn event(content_type: &'static str, data: &'static [u8]) -> Event {
        Event {
            id: "u1/7".into(),
            what: skopos_api::Event::Updated,
            source: "/clusters/c/apps/deployments".into(),
            subject: "default/\"web\"".into(),
            rule: "default/r".into(),
            time: "2026-01-02T03:04:05Z".into(),
            lane: "u1".into(),
            content_type,
            data: Bytes::from_static(data),
            traceparent: None,
            account: None,
        }
    }

    fn check(content_type: &'static str, data: &'static [u8], name: &str, expect: impl Into<Value>) {
        let line = to_lines(&[event(content_type, data)]);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let parsed: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(parsed[name], expect.into());
        assert_eq!(parsed["id"], "u1/7");
        assert_eq!(parsed["type"], "dev.skopos.updated");
        assert_eq!(parsed["subject"], "default/\"web\"");
    }

    #[test]
    fn data_takes_the_form_its_type_allows() {
        check(
            "application/json",
            br#"{"a":[1]}"#,
            "data",
            serde_json::json!({"a": [1]}),
        );
        check(
            "application/json",
            b"{\n\"a\": 1}",
            "data",
            serde_json::json!({"a": 1}),
        );
        check("application/json", b"not json", "data", "not json");
        check("text/plain", b"two\nlines", "data", "two\nlines");
        check("text/plain", b"\xff\x00", "data_base64", "/wA=");
    }

    #[test]
    fn batch_is_an_array() {
        let events = [event("text/plain", b"1"), event("text/plain", b"2")];
        let parsed: Value = serde_json::from_slice(&to_batch(&events)).unwrap();
        assert_eq!(parsed[1]["data"], "2");
    }
}
