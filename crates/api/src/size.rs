//! Sizes as people write them.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes, written as in `500Mi` or `20G`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

/// A text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a size: write it as in 500Mi or 20G")]
pub struct BadSize(String);

/// Units, the largest of each sort first.
const UNITS: [(&str, u64); 8] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
];

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let unit = UNITS
            .iter()
            .find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)));
        let (number, unit) = unit.unwrap_or((text, 1));
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let size = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
        let size = size.filter(|_| is_number);
        size.map(Self).ok_or_else(|| BadSize(text.into()))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS
            .iter()
            .find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        match whole {
            Some((name, size)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        let check = |text: &str, size: Option<u64>| assert_eq!(text.parse().ok(), size.map(Size), "{text}");
        check("1024", Some(1024));
        check("2Ki", Some(2048));
        check("3Gi", Some(3 << 30));
        check("5M", Some(5_000_000));
        check("", None);
        check("Gi", None);
        check("1.5Gi", None);
        check("-1", None);
        check("+1", None);
        check("99999999999Ti", None);
    }

    #[test]
    fn sizes_are_written_so_that_they_read_back() {
        for (text, written) in [
            ("2048", "2Ki"),
            ("3000", "3k"),
            ("1025", "1025"),
            ("0", "0"),
            ("1Ti", "1Ti"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.to_string(), written);
            assert_eq!(written.parse(), Ok(size));
        }
    }
}
