//! Writes the few protobuf messages every API shares: the envelope, metadata, lists, watch events, status.
//!
//! Field numbers are those of `k8s.io/apimachinery`. Like upstream's encoder it writes scalar fields that are
//! not optional even when they are empty, so the bytes are the same.

use serde_json::{Map, Value};

/// What every protobuf body starts with.
const MAGIC: &[u8; 4] = b"k8s\0";

/// Builds one protobuf message.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn new() -> Message {
        Message::default()
    }

    pub(crate) fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn string(self, field: u32, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub(crate) fn message(self, field: u32, value: Message) -> Message {
        self.bytes(field, &value.0)
    }

    pub(crate) fn number(mut self, field: u32, value: i64) -> Message {
        self.key(field, 0);
        self.varint(value as u64);
        self
    }

    pub(crate) fn flag(self, field: u32, value: bool) -> Message {
        self.number(field, i64::from(value))
    }

    pub(crate) fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn strings<'a>(self, field: u32, values: impl IntoIterator<Item = &'a str>) -> Message {
        values
            .into_iter()
            .fold(self, |message, value| message.string(field, value))
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Wraps a message of a known type for the wire.
pub(crate) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = Message::new().string(1, api_version).string(2, kind);
    let unknown = Message::new()
        .message(1, types)
        .bytes(2, raw)
        .string(3, "")
        .string(4, "");
    [&MAGIC[..], &unknown.0].concat()
}

/// The message inside an envelope.
pub(crate) fn unwrap_envelope(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.strip_prefix(&MAGIC[..])?;
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        let length = usize::try_from(take_varint(&mut rest)?).ok()?;
        let (value, after) = rest.split_at_checked(length)?;
        if key == (2 << 3 | 2) {
            return Some(value);
        }
        rest = after;
    }
    None
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// One event of a watch stream, with its length in front.
pub(crate) fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let object = Message::new().bytes(1, object);
    let event = Message::new().string(1, kind).message(2, object).0;
    [&(event.len() as u32).to_be_bytes()[..], &event].concat()
}

/// `metav1.ListMeta`.
pub(crate) fn list_meta(resource_version: &str, continue_token: &str, remaining: Option<i64>) -> Message {
    let message = Message::new()
        .string(1, "")
        .string(2, resource_version)
        .string(3, continue_token);
    match remaining {
        Some(count) => message.number(4, count),
        None => message,
    }
}

/// `metav1.PartialObjectMetadata`, without its envelope.
pub(crate) fn partial_metadata(metadata: &Value) -> Message {
    Message::new().message(1, object_meta(metadata))
}

/// `metav1.ObjectMeta` from its JSON.
fn object_meta(meta: &Value) -> Message {
    let mut message = Message::new()
        .string(1, text(meta, "name"))
        .string(2, text(meta, "generateName"))
        .string(3, text(meta, "namespace"))
        .string(4, "")
        .string(5, text(meta, "uid"))
        .string(6, text(meta, "resourceVersion"))
        .number(7, integer(meta, "generation").unwrap_or(0))
        .message(8, time(text(meta, "creationTimestamp")));
    if let Some(at) = meta.get("deletionTimestamp").and_then(Value::as_str) {
        message = message.message(9, time(at));
    }
    if let Some(seconds) = integer(meta, "deletionGracePeriodSeconds") {
        message = message.number(10, seconds);
    }
    message = string_map(message, 11, meta.get("labels"));
    message = string_map(message, 12, meta.get("annotations"));
    for owner in array(meta, "ownerReferences") {
        message = message.message(13, owner_reference(owner));
    }
    message = message.strings(14, array(meta, "finalizers").iter().filter_map(Value::as_str));
    for entry in array(meta, "managedFields") {
        message = message.message(17, managed_fields(entry));
    }
    message
}

fn owner_reference(owner: &Value) -> Message {
    let mut message = Message::new()
        .string(1, text(owner, "kind"))
        .string(3, text(owner, "name"))
        .string(4, text(owner, "uid"))
        .string(5, text(owner, "apiVersion"));
    for (field, name) in [(6, "controller"), (7, "blockOwnerDeletion")] {
        if let Some(value) = owner.get(name).and_then(Value::as_bool) {
            message = message.flag(field, value);
        }
    }
    message
}

fn managed_fields(entry: &Value) -> Message {
    let mut message = Message::new()
        .string(1, text(entry, "manager"))
        .string(2, text(entry, "operation"))
        .string(3, text(entry, "apiVersion"));
    if let Some(at) = entry.get("time").and_then(Value::as_str) {
        message = message.message(4, time(at));
    }
    message = message.string(6, text(entry, "fieldsType"));
    if let Some(fields) = entry.get("fieldsV1") {
        message = message.message(7, Message::new().string(1, &fields.to_string()));
    }
    message.string(8, text(entry, "subresource"))
}

/// `metav1.Time` from its text; an empty message stands for no time.
fn time(at: &str) -> Message {
    match at.parse::<jiff::Timestamp>() {
        Ok(at) => Message::new().number(1, at.as_second()).number(2, 0),
        Err(_) => Message::new(),
    }
}

/// `metav1.Status` from its JSON, in its envelope.
pub(crate) fn status(status: &Value) -> Vec<u8> {
    let continue_token = status
        .pointer("/metadata/continue")
        .and_then(Value::as_str)
        .unwrap_or("");
    let mut message = Message::new()
        .message(1, list_meta("", continue_token, None))
        .string(2, text(status, "status"))
        .string(3, text(status, "message"))
        .string(4, text(status, "reason"));
    if let Some(details) = status.get("details") {
        message = message.message(5, status_details(details));
    }
    message = message.number(6, integer(status, "code").unwrap_or(0));
    envelope("v1", "Status", &message.0)
}

fn status_details(details: &Value) -> Message {
    let mut message = Message::new()
        .string(1, text(details, "name"))
        .string(2, text(details, "group"))
        .string(3, text(details, "kind"));
    for cause in array(details, "causes") {
        let cause = Message::new()
            .string(1, text(cause, "reason"))
            .string(2, text(cause, "message"))
            .string(3, text(cause, "field"));
        message = message.message(4, cause);
    }
    message
        .number(5, integer(details, "retryAfterSeconds").unwrap_or(0))
        .string(6, text(details, "uid"))
}

fn string_map(message: Message, field: u32, map: Option<&Value>) -> Message {
    let empty = Map::new();
    map.and_then(Value::as_object)
        .unwrap_or(&empty)
        .iter()
        .fold(message, |message, (name, value)| {
            let entry = Message::new()
                .string(1, name)
                .string(2, value.as_str().unwrap_or(""));
            message.message(field, entry)
        })
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn integer(value: &Value, name: &str) -> Option<i64> {
    value.get(name).and_then(Value::as_i64)
}

fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Bytes recorded from kube-apiserver 1.36 for an `Accept` it refuses.
    #[test]
    fn status_has_upstreams_bytes() {
        let value = json!({"metadata": {}, "status": "Failure", "message": "no", "reason": "NotAcceptable",
            "code": 406});
        let expect = [
            &b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x27"[..],
            b"\x0a\x06\x0a\x00\x12\x00\x1a\x00\x12\x07Failure\x1a\x02no\x22\x0dNotAcceptable\x30\x96\x03",
            b"\x1a\x00\x22\x00",
        ]
        .concat();
        assert_eq!(status(&value), expect);
    }

    #[test]
    fn partial_metadata_has_upstreams_bytes() {
        let meta = json!({"name": "one", "namespace": "pubs", "uid": "u", "resourceVersion": "297",
            "generation": 1, "creationTimestamp": "2026-11-15T21:48:34Z", "labels": {"a": "b"}});
        let expect = [
            &b"\x0a\x33\x0a\x03one\x12\x00\x1a\x04pubs\x22\x00\x2a\x01u\x32\x03297\x38\x01"[..],
            b"\x42\x08\x08\xb2\xd1\xe8\xd7\x06\x10\x00",
            b"\x5a\x06\x0a\x01a\x12\x01b",
        ]
        .concat();
        let found = partial_metadata(&meta).finish();
        assert_eq!(found[2..], expect[2..]);
        assert_eq!(usize::from(found[1]), found.len() - 2);
    }

    #[test]
    fn envelope_opens_to_what_was_put_in() {
        let wrapped = envelope("v1", "Thing", b"inside");
        assert_eq!(unwrap_envelope(&wrapped), Some(&b"inside"[..]));
        assert_eq!(unwrap_envelope(b"k8s\0\x12\xff"), None);
        assert_eq!(unwrap_envelope(b"json"), None);
    }

    #[test]
    fn watch_frames_carry_their_length() {
        let frame = watch_frame("ADDED", b"x");
        assert_eq!(frame, b"\0\0\0\x0c\x0a\x05ADDED\x12\x03\x0a\x01x");
    }
}
