//! The trace of a change, from the watch to the last acknowledgement.
//!
//! What observes a change, what matches it and what delivers it are far from each other: in time, behind a restart, in
//! another process. So its ids are made from what the change is known by, and nobody has to hand them on.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
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

    /// What a rule, or a replay of it, found. It may match a change more than once, for another `cause`: by the change,
    /// and by what held for some time after it.
    pub fn matched(self, rule: &str, cause: &str) -> SpanId {
        self.span(&["match", rule, cause])
    }

    /// An attempt to deliver an event of a rule to a sink. Only who makes it knows it, and tells the receiver: unlike the
    /// others it is of its moment too, because attempts are counted from 1 again after a restart.
    pub fn delivery(self, event: &str, rule: &str, sink: &str, attempt: u32, at: Timestamp) -> SpanId {
        let (attempt, at) = (attempt.to_string(), at.as_nanosecond().to_string());
        self.span(&["deliver", event, rule, sink, &attempt, &at])
    }

    /// The header and the attribute `traceparent`, by which a receiver goes on with the trace below `parent`. It says
    /// whether the trace is recorded: a receiver that leaves that decision to its caller records it only then.
    pub fn traceparent(self, parent: SpanId, sampling: Sampling) -> String {
        let flags = u8::from(sampling.keeps(self));
        format!("00-{self}-{parent}-{flags:02x}")
    }

    fn span(self, of: &[&str]) -> SpanId {
        SpanId(digest(&[&[self.to_string().as_str()], of].concat()))
    }
}

/// Which traces are recorded (default: all). It is a matter of the id of a trace alone, so that everyone who works on the
/// change decides the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Of 2^63.
    below: u64,
}

impl Sampling {
    /// Records a share of the traces, from 0 (none) to 1 (all); nothing if it is not such a share.
    ///
    /// Chosen are those that `TraceIdRatioBased` of the OpenTelemetry SDKs chooses for the same share: receivers that
    /// choose by themselves have the same ones.
    pub fn share(share: f64) -> Option<Self> {
        let below = (share * (1_u64 << 63) as f64) as u64;
        (0.0..=1.0).contains(&share).then_some(Self { below })
    }

    /// Whether a trace is recorded.
    pub fn keeps(self, trace: TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.below
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self { below: 1 << 63 }
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

/// A text is not the id of a trace, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of a trace or a span: these are 32 or 16 hexadecimal digits")]
pub struct BadId;

impl FromStr for TraceId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        unhex(text).map(Self)
    }
}

impl FromStr for SpanId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        unhex(text).map(Self)
    }
}

fn unhex<const N: usize>(text: &str) -> Result<[u8; N], BadId> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(BadId);
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| BadId)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Timestamp = Timestamp::UNIX_EPOCH;

    fn trace() -> TraceId {
        ChangeId::from_text("u1.created").trace_id()
    }

    /// Receivers keep traces: the ids of a change must not become others with a new version of Skopos.
    #[test]
    fn ids_are_the_same_for_ever() {
        // printf 'u1.created\xff' | sha256sum
        assert_eq!(trace().to_string(), "552f733fedd31ca20f010639b6cc560e");
        // printf '552f733fedd31ca20f010639b6cc560e\xffcapture\xff' | sha256sum, and so on
        assert_eq!(trace().capture().to_string(), "ef56e176593ce569");
        assert_eq!(trace().matched("ns/r", "change").to_string(), "c573905fe48be10e");
    }

    #[test]
    fn every_part_has_an_id_of_its_own() {
        let trace = trace();
        let later = Timestamp::from_nanosecond(1).unwrap();
        let parts = [
            trace.capture(),
            trace.matched("r", "change"),
            trace.matched("r", "held"),
            trace.matched("s", "change"),
            trace.delivery("e", "r", "s", 1, BEGAN),
            trace.delivery("e", "r", "s", 2, BEGAN),
            trace.delivery("e", "r", "s", 1, later),
            trace.delivery("e", "r", "t", 1, BEGAN),
            trace.delivery("e", "rs", "", 1, BEGAN),
        ];
        let distinct: std::collections::HashSet<_> = parts.iter().collect();
        assert_eq!(distinct.len(), parts.len());
        assert_ne!(trace, ChangeId::from_text("u1.7").trace_id());
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        assert_eq!(trace().to_string().parse(), Ok(trace()));
        assert_eq!(trace().capture().to_string().parse(), Ok(trace().capture()));
        for bad in [
            "",
            "552f",
            "552f733fedd31ca20f010639b6cc56zz",
            "552f733fedd31ca20f010639b6cc5ü",
        ] {
            assert_eq!(bad.parse::<TraceId>(), Err(BadId), "{bad}");
        }
    }

    #[test]
    fn the_parent_says_whether_its_trace_is_recorded() {
        let span = trace().capture();
        let half = Sampling::share(0.5).unwrap();
        let told = |sampling| trace().traceparent(span, sampling);
        assert_eq!(told(Sampling::default()), format!("00-{}-{span}-01", trace()));
        // Its last 8 bytes begin with 0f, below the half.
        assert_eq!(told(half), format!("00-{}-{span}-01", trace()));
        assert_eq!(
            told(Sampling::share(0.05).unwrap()),
            format!("00-{}-{span}-00", trace())
        );
        assert_eq!(
            told(Sampling::share(0.0).unwrap()),
            format!("00-{}-{span}-00", trace())
        );
    }

    #[test]
    fn all_traces_are_recorded_unless_a_share_is_asked_for() {
        let highest: TraceId = "ffffffffffffffffffffffffffffffff".parse().unwrap();
        assert!(Sampling::default().keeps(highest));
        assert_eq!(Sampling::share(1.0), Some(Sampling::default()));
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Sampling::share(bad), None, "{bad}");
        }
    }
}
