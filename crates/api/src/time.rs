//! Spans of time as people write them: `500ms`, `30s`, `10m`, `2h`, `7d`, `1h30m`.

use std::{fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time, written as in `90s`, `1h30m` or `7d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// A text is not a span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a span of time: write numbers with ms, s, m, h, d or w, such as 90s, 1h30m or 7d")]
pub struct BadSpan(String);

/// Units, the longest first.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan(text.into());
        let mut millis = 0u64;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let (number, after) = rest.split_at(digits);
            let unit_len = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_len);
            let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
            let number: u64 = number.parse().map_err(|_| bad())?;
            let part = number.checked_mul(*size).ok_or_else(bad)?;
            millis = millis.checked_add(part).ok_or_else(bad)?;
            rest = after;
        }
        if text.is_empty() {
            return Err(bad());
        }
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            return f.write_str("0s");
        }
        for (name, size) in UNITS {
            if millis >= size {
                write!(f, "{}{name}", millis / size)?;
                millis %= size;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w))+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write_and_writes_it_back() {
        for (text, millis) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(millis), "{text}");
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
        assert_eq!("90s".parse::<Span>().unwrap().to_string(), "1m30s");
        assert_eq!(Span::default().to_string(), "0s");
    }

    #[test]
    fn what_is_no_span_is_said() {
        for text in ["", "5", "s", "5 m", "5x", "-1s", "99999999999999999999s", "5m3"] {
            assert!(
                text.parse::<Span>()
                    .unwrap_err()
                    .to_string()
                    .contains("such as 90s"),
                "{text}"
            );
        }
    }
}
