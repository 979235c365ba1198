//! Protobuf answers as values, so that they are compared field by field.

use serde_json::{Value, json};
use skopos_builtin::protobuf;

/// The object of a body; the word `(protobuf)` for what is no built-in kind, such as discovery and OpenAPI.
pub(super) fn object(body: &[u8]) -> Value {
    protobuf::decode(body).map_or_else(|_| "(protobuf)".into(), |(_, object)| object)
}

/// Takes the whole frames of a watch off the front of what was read.
pub(super) fn events(read: &mut Vec<u8>) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some((length, rest)) = read.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some(frame) = rest.get(..length) else { break };
        events.push(event(frame).unwrap_or_else(|| "(no event)".into()));
        read.drain(..4 + length);
    }
    events
}

/// A frame is `{1: type, 2: {1: object}}`.
fn event(frame: &[u8]) -> Option<Value> {
    let (kind, rest) = field(frame, 1)?;
    let (raw, _) = field(rest, 2)?;
    let (body, _) = field(raw, 1)?;
    Some(json!({"type": String::from_utf8_lossy(kind), "object": object(body)}))
}

/// The bytes of the field that stands first, and what follows it.
fn field(message: &[u8], number: u8) -> Option<(&[u8], &[u8])> {
    let (key, mut rest) = message.split_first()?;
    if *key != number << 3 | 2 {
        return None;
    }
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_frames_as_they_come() {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
        let frame = protobuf::watch_frame("ADDED", &map).unwrap();
        let mut read = [frame.as_slice(), &frame[..20]].concat();
        let found = events(&mut read);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["type"], "ADDED");
        assert_eq!(found[0]["object"]["data"], map["data"]);
        read.extend_from_slice(&frame[20..]);
        assert_eq!(events(&mut read), found);
        assert!(read.is_empty());
    }
}
