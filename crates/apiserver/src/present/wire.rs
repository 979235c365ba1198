//! Writes protobuf where there is no object to encode: envelopes, lists item by item, watch frames, discovery.
//!
//! Field numbers are those of `k8s.io/apimachinery`. Like upstream's encoder it writes scalar fields that are
//! not optional even when they are empty, so the bytes are the same.

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
        self.bytes(field, &value.finish())
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

#[cfg(test)]
mod tests {
    use super::*;

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
