//! What happens to the lines of a watch, and to the items of a list.

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use skopos_object::Status;

/// How the events of a watch are changed. Takes bytes as they come, gives whole lines.
#[derive(Debug)]
pub(super) struct Lines {
    change: Change,
    partial: BytesMut,
    held: Option<Bytes>,
    n_events: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Error { after_events: usize, status: Status },
    Malformed { nth: usize },
    Garbled { nth: usize },
    Duplicate,
    Late,
}

/// What to send, and whether that was all.
pub(super) struct Changed {
    pub(super) bytes: Bytes,
    pub(super) is_end: bool,
}

impl Lines {
    pub(super) fn new(change: Change) -> Self {
        Self {
            change,
            partial: BytesMut::new(),
            held: None,
            n_events: 0,
        }
    }

    /// What an empty watch begins with: perhaps its only event.
    pub(super) fn begin(&mut self) -> Changed {
        self.feed(&[])
    }

    pub(super) fn feed(&mut self, data: &[u8]) -> Changed {
        self.partial.extend_from_slice(data);
        let mut out = BytesMut::new();
        loop {
            if let Change::Error { after_events, status } = &self.change
                && self.n_events == *after_events
            {
                let event = serde_json::json!({"type": "ERROR", "object": status.to_json()});
                out.extend_from_slice(format!("{event}\n").as_bytes());
                return Changed {
                    bytes: out.freeze(),
                    is_end: true,
                };
            }
            let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') else {
                break;
            };
            let line = self.partial.split_to(end + 1).freeze();
            self.line(line, &mut out);
        }
        Changed {
            bytes: out.freeze(),
            is_end: false,
        }
    }

    fn line(&mut self, line: Bytes, out: &mut BytesMut) {
        let nth = self.n_events;
        self.n_events += 1;
        let is_bookmark = line.starts_with(br#"{"type":"BOOKMARK""#);
        let ends_initial = memchr_str(&line, "k8s.io/initial-events-end");
        match &self.change {
            Change::Malformed { nth: n } if nth == *n && !is_bookmark => {
                out.extend_from_slice(&malformed_event(&line));
            }
            Change::Garbled { nth: n } if nth == *n && !is_bookmark => {
                out.extend_from_slice(b"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":!}\n");
            }
            Change::Duplicate if is_bookmark => {
                out.extend_from_slice(&line);
                out.extend_from_slice(&line);
            }
            Change::Late if is_bookmark && !ends_initial => self.held = Some(line),
            _ => {
                out.extend_from_slice(&line);
                if let Some(held) = self.held.take() {
                    out.extend_from_slice(&held);
                }
            }
        }
    }
}

fn memchr_str(line: &[u8], text: &str) -> bool {
    line.windows(text.len()).any(|window| window == text.as_bytes())
}

fn malformed_event(line: &[u8]) -> Vec<u8> {
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
        return line.to_vec();
    };
    spoil(&mut event["object"]);
    format!("{event}\n").into_bytes()
}

/// Spoils one item of a list; the list as it is if it has no such item.
pub(super) fn malformed_list(body: &[u8], nth: usize) -> Vec<u8> {
    let Ok(mut list) = serde_json::from_slice::<Value>(body) else {
        return body.to_vec();
    };
    match list.pointer_mut(&format!("/items/{nth}")) {
        Some(item) => spoil(item),
        None => return body.to_vec(),
    }
    list.to_string().into_bytes()
}

/// JSON still, with name and version still, but no object.
pub(crate) fn spoil(object: &mut Value) {
    if object.is_object() {
        object["metadata"]["uid"] = 7.into();
    }
}
