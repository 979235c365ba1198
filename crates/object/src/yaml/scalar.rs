//! What a plain scalar means under YAML 1.1 as Kubernetes reads it.

use serde_json::Value;

use crate::json::number;

/// The meaning of a plain scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A date, which reads as a string but is quoted when written.
    Timestamp,
    Text,
}

impl Plain {
    /// The JSON value; nothing for floats that JSON cannot say.
    pub(super) fn into_value(self, text: &str) -> Option<Value> {
        match self {
            Self::Null => Some(Value::Null),
            Self::Bool(value) => Some(value.into()),
            Self::Int(value) => Some(value.into()),
            Self::Float(value) => number::from_float(value),
            Self::Timestamp | Self::Text => Some(text.into()),
        }
    }
}

/// Finds out what a scalar written without quotes means.
pub(super) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Plain::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Plain::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Plain::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Plain::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Plain::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes()[0] {
        b'.' => finite(text).map_or(Plain::Text, Plain::Float),
        b'+' | b'-' | b'0'..=b'9' => number_or_date(text),
        _ => Plain::Text,
    }
}

fn number_or_date(text: &str) -> Plain {
    if is_timestamp(text) {
        return Plain::Timestamp;
    }
    let plain = text.replace('_', "");
    if let Some(integer) = integer(&plain) {
        return integer;
    }
    if is_float(&plain) {
        return finite(&plain).map_or(Plain::Text, Plain::Float);
    }
    Plain::Text
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|float: &f64| float.is_finite())
}

/// Reads an integer whose prefix tells the base; a leading zero means octal.
fn integer(text: &str) -> Option<Plain> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    let signed = if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    };
    match signed {
        Some(integer) => Some(Plain::Int(integer)),
        // Beyond 64 signed bits only a float can say it.
        None if !negative => Some(Plain::Float(magnitude as f64)),
        None => None,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = digits(rest);
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if whole + length == 0 {
            return false;
        }
        rest = &fraction[length..];
    } else if whole == 0 {
        return false;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// A date, alone or with a time: `2006-1-2`, `2006-01-02T15:04:05Z`, `2006-01-02 15:04:05`.
fn is_timestamp(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let number = |text: &str, max: usize| {
        (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (day, time) = rest.split_at(rest.find(['T', 't', ' ']).unwrap_or(rest.len()));
    let clock = time.get(1..).unwrap_or("");
    let starts_clock = clock.split(':').take(2).filter(|part| number(part, 2)).count() == 2;
    year.len() == 4
        && number(year, 4)
        && number(month, 2)
        && number(day, 2)
        && (time.is_empty() || starts_clock)
}

/// A number in base 60 under YAML 1.1, which other readers may take it for: `12:30:45`.
pub(super) fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or("");
    let is_first = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let rest: Vec<&str> = parts.collect();
    let is_part =
        |part: &str| !part.is_empty() && part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60);
    is_first
        && !rest.is_empty()
        && rest
            .iter()
            .all(|part| is_part(part.split('.').next().unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_plain_scalars_by_yaml_1_1() {
        for (text, expect) in [
            ("yes", Plain::Bool(true)),
            ("Off", Plain::Bool(false)),
            ("n", Plain::Bool(false)),
            ("yEs", Plain::Text),
            ("~", Plain::Null),
            ("0777", Plain::Int(511)),
            ("0o17", Plain::Int(15)),
            ("0x1F", Plain::Int(31)),
            ("-0b101", Plain::Int(-5)),
            ("1_000", Plain::Int(1000)),
            ("+7", Plain::Int(7)),
            ("0", Plain::Int(0)),
            ("08", Plain::Float(8.0)),
            ("-9223372036854775808", Plain::Int(i64::MIN)),
            ("18446744073709551615", Plain::Float(18446744073709551615.0)),
            ("1.5e3", Plain::Float(1500.0)),
            (".5", Plain::Float(0.5)),
            ("-.5", Plain::Float(-0.5)),
            ("1.", Plain::Float(1.0)),
            ("1e999", Plain::Text),
            ("1.2.3", Plain::Text),
            ("10.0.0.1", Plain::Text),
            ("-", Plain::Text),
            (".", Plain::Text),
            ("1Gi", Plain::Text),
            ("0x", Plain::Text),
            ("2026-01-02T03:04:05Z", Plain::Timestamp),
            ("2026-1-2", Plain::Timestamp),
            ("2026-01-02-03", Plain::Text),
            ("12:30", Plain::Text),
            ("text", Plain::Text),
        ] {
            assert_eq!(resolve(text), expect, "{text}");
        }
        assert!(is_base60("12:30:45") && is_base60("-1:00.5") && !is_base60("12:99") && !is_base60("a:1"));
    }
}
