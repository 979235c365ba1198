//! Formats of identifiers and encodings.

/// A UUID with or without dashes; `version` also pins the version digit.
pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut rest = text.as_bytes();
    for (index, width) in GROUPS.into_iter().enumerate() {
        if let (true, [b'-', tail @ ..]) = (index > 0, rest) {
            rest = tail;
        }
        let Some((group, tail)) = rest.split_at_checked(width) else {
            return false;
        };
        if !group.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        let lead = group[0].to_ascii_lowercase();
        let fits = match (version, index) {
            (Some(version), 2) => lead == version,
            // Version 3 leaves the variant open.
            (Some(b'4' | b'5'), 3) => matches!(lead, b'8' | b'9' | b'a' | b'b'),
            _ => true,
        };
        if !fits {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

fn without_blanks_and_dashes(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0xc | b'-'))
        .collect()
}

fn digit(byte: u8) -> u32 {
    u32::from(byte - b'0')
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let code = without_blanks_and_dashes(text);
    let [head @ .., last] = code.as_slice() else {
        return false;
    };
    if head.len() != 9 || !head.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        b'0'..=b'9' => digit(*last),
        _ => return false,
    };
    let sum: u32 = (1..).zip(head).map(|(weight, byte)| weight * digit(*byte)).sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let code = without_blanks_and_dashes(text);
    if code.len() != 13 || !code.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = code[..12]
        .iter()
        .enumerate()
        .map(|(at, b)| digit(*b) * if at % 2 == 0 { 1 } else { 3 })
        .sum();
    digit(code[12]) == (10 - sum % 10) % 10
}

/// A card number of a known issuer with a right check digit; anything but digits is ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let code: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let known = match code.len() {
        13 => code.starts_with(b"4"),
        14 => matches!(
            code.as_slice(),
            [b'3', b'0', b'0'..=b'5', ..] | [b'3', b'6' | b'8', ..]
        ),
        15 => [b"34".as_slice(), b"37", b"2131", b"1800"]
            .iter()
            .any(|issuer| code.starts_with(issuer)),
        16 => {
            matches!(code.as_slice(), [b'5', b'1'..=b'5', ..])
                || [b"4".as_slice(), b"6011", b"65", b"35"]
                    .iter()
                    .any(|issuer| code.starts_with(issuer))
        }
        _ => false,
    };
    let sum: u32 = code
        .iter()
        .rev()
        .enumerate()
        .map(|(at, byte)| match (at % 2, digit(*byte)) {
            (0, value) => value,
            (_, value) if value >= 5 => value * 2 % 10 + 1,
            (_, value) => value * 2,
        })
        .sum();
    known && sum.is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|tail| tail.strip_suffix(')')) else {
        return false;
    };
    let mut channels = 0;
    let all = inside.split(',').all(|part| {
        channels += 1;
        let part = part.trim_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let digits = !part.is_empty() && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
        let plain = part == "0" || !part.starts_with('0');
        digits && plain && part.parse::<u16>().is_ok_and(|value| value <= 255)
    });
    all && channels == 3
}

/// Standard base64 with padding, and at least one group.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}
