//! The trace of a change, from the watch to the last acknowledgement.
//!
//! What observes a change, what matches it and what delivers it are far from each other: in time, behind a restart, in
//! another process. So its ids are made from what the change is known by, and nobody has to hand them on.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::ChangeId;

/// The target of the spans and events that belong to the trace of a change.
pub const TRACE_TARGET: &str = "skopos::trace";

/// The trace of a change, as the trace context of the W3C has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// One part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl ChangeId {
    /// The trace that everything done about this change belongs to, wherever and whenever it is done.
    pub fn trace_id(&self) -> TraceId {
        TraceId(digest(&[self.as_str()]))
    }
}

impl TraceId {
    /// How the change got into the journal: the root of the trace.
    pub fn capture(self) -> SpanId {
        self.span(&["capture"])
    }

    /// What a rule, or a replay of it, found.
    pub fn matched(self, rule: &str) -> SpanId {
        self.span(&["match", rule])
    }

    /// An attempt to deliver an event of a rule to a sink. After a restart attempts are counted from 1 again, and so the
    /// first ones have the ids of earlier ones.
    pub fn delivery(self, event: &str, rule: &str, sink: &str, attempt: u32) -> SpanId {
        self.span(&["deliver", event, rule, sink, &attempt.to_string()])
    }

    /// The header and the attribute `traceparent`, by which a receiver goes on with the trace below `parent`.
    ///
    /// It says that the trace is recorded: a receiver that leaves that decision to its caller would record nothing else.
    pub fn traceparent(self, parent: SpanId) -> String {
        format!("00-{self}-{parent}-01")
    }

    fn span(self, of: &[&str]) -> SpanId {
        SpanId(digest(&[&[self.to_string().as_str()], of].concat()))
    }
}

/// The first bytes of the SHA-256 of all parts, each ended by a byte that no text has.
fn digest<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0xff]);
    }
    let whole = hash.finalize();
    std::array::from_fn(|place| whole[place])
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receivers keep traces: the ids of a change must not become others with a new version of Skopos.
    #[test]
    fn ids_are_the_same_for_ever() {
        let trace = ChangeId::from_text("u1.created").trace_id();
        // printf 'u1.created\xff' | sha256sum
        assert_eq!(trace.to_string(), "552f733fedd31ca20f010639b6cc560e");
        let parent = trace.delivery("u1.created/ns.r", "ns/r", "ns/s", 1);
        assert_eq!(
            trace.traceparent(parent),
            "00-552f733fedd31ca20f010639b6cc560e-edaaffeb6ac16a9b-01"
        );
    }

    #[test]
    fn every_part_has_an_id_of_its_own() {
        let trace = ChangeId::from_text("u1.created").trace_id();
        let parts = [
            trace.capture(),
            trace.matched("r"),
            trace.matched("s"),
            trace.delivery("e", "r", "s", 1),
            trace.delivery("e", "r", "s", 2),
            trace.delivery("e", "r", "t", 1),
            trace.delivery("e", "rs", "", 1),
        ];
        let distinct: std::collections::HashSet<_> = parts.iter().collect();
        assert_eq!(distinct.len(), parts.len());
        assert_ne!(trace, ChangeId::from_text("u1.7").trace_id());
    }
}
