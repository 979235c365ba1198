//! A size in bytes, as people write it.

use std::str::FromStr;

/// A number of bytes, such as `500Mi` or `20G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

const UNITS: [(&str, u64); 8] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS
            .iter()
            .find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)));
        let (number, unit) = unit.unwrap_or((text, 1));
        let size = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
        size.map(Self)
            .ok_or_else(|| format!("{text:?} is not a size; write it as in 500Mi or 20G"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        let check =
            |text: &str, size: Option<u64>| assert_eq!(text.parse().ok(), size.map(ByteSize), "{text}");
        check("1024", Some(1024));
        check("2Ki", Some(2048));
        check("3Gi", Some(3 << 30));
        check("5M", Some(5_000_000));
        check("", None);
        check("Gi", None);
        check("1.5Gi", None);
        check("-1", None);
        check("99999999999Ti", None);
    }
}
