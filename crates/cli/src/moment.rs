//! Moments as people write them: `2026-11-16T08:00:00Z`, `2026-11-16`, or a span of time ago such as `10m`.

use std::str::FromStr;

use jiff::Timestamp;
use skopos_api::Span;

/// A moment, at a fixed time or some time ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    Ago(Span),
}

impl Moment {
    /// The time it means now.
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.saturating_sub(span.0).unwrap_or(Timestamp::MIN),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse());
        let moment = at.map(Self::At).or_else(|_| text.parse().map(Self::Ago));
        moment.map_err(|_| {
            "write a time such as 2026-11-16T08:00:00Z, a day such as 2026-11-16, or how long ago, such as 10m or 7d"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_days_and_spans_ago() {
        let now: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        for (text, expect) in [
            ("2026-11-15T01:02:03Z", "2026-11-15T01:02:03Z"),
            ("2026-11-15T01:02:03+02:00", "2026-11-14T23:02:03Z"),
            ("2026-11-15", "2026-11-15T00:00:00Z"),
            ("90m", "2026-11-16T06:30:00Z"),
            ("7d", "2026-11-09T08:00:00Z"),
        ] {
            let moment: Moment = text.parse().unwrap();
            assert_eq!(moment.before(now).to_string(), expect, "{text}");
        }
        for text in ["", "yesterday", "10", "2026-13-01", "-5m"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
