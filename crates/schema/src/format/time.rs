//! Formats of dates and durations.

use crate::clock::days_in_month;

/// `2006-01-02`, a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let digits = text.get(range)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    (1..=12).contains(&month) && day >= 1 && day <= days_in_month(i64::from(year), month)
}

/// RFC 3339, with any character before the fraction and without leap seconds.
pub(super) fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_clock_time(time)
}

fn is_clock_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let two = |at: usize, max: u8| -> bool {
        matches!(bytes.get(at..at + 2), Some([a, b]) if a.is_ascii_digit() && b.is_ascii_digit()
            && (a - b'0') * 10 + (b - b'0') <= max)
    };
    let colons = bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':');
    if !(colons && two(0, 23) && two(3, 59) && two(6, 59)) {
        return false;
    }
    let Some(tail) = text.get(8..) else { return false };
    is_zone(tail) || after_fraction(tail).is_some_and(is_zone)
}

fn after_fraction(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    chars.next()?;
    let digits = chars.as_str();
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'z' | b'Z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// A Go duration such as `1h30m`, or counted units such as `3 days`.
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_counted_unit(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut groups = 0;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let whole = rest.len() - after.len();
        let (after, fraction) = match after.strip_prefix('.') {
            Some(tail) => {
                let end = tail.trim_start_matches(|c: char| c.is_ascii_digit());
                (end, tail.len() - end.len())
            }
            None => (after, 0),
        };
        if whole + fraction == 0 {
            return false;
        }
        let unit_end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&&after[..unit_end]) {
            return false;
        }
        rest = &after[unit_end..];
        groups += 1;
    }
    groups > 0
}

fn has_counted_unit(text: &str) -> bool {
    const EXACT: [&str; 16] = [
        "ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "nano", "micro", "milli", "sec", "min",
    ];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[at..];
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let unit = after.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let end = unit
            .find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ'))
            .unwrap_or(unit.len());
        if end > 0 {
            if number[..number.len() - after.len()].parse::<i64>().is_err() {
                return false;
            }
            let name = unit[..end].to_lowercase();
            found |= EXACT.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        }
        rest = &unit[end..];
    }
    found
}
