//! Character classes and escapes.

use regex::Regex;

use super::fail;

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Translates one item of a character class and returns what follows it.
pub(super) fn class_item<'p>(
    out: &mut String,
    rest: &'p str,
    missing: impl Fn() -> String,
) -> Result<&'p str, String> {
    if let Some(end) = rest.strip_prefix("[:").and_then(|tail| tail.find(":]")) {
        let name = &rest[..end + 4];
        if !POSIX.contains(&name[2..end + 2].trim_start_matches('^')) {
            return Err(fail("invalid character class range", name));
        }
        out.push_str(name);
        return Ok(&rest[name.len()..]);
    }
    if rest.starts_with(r"\p") || rest.starts_with(r"\P") {
        let (class, consumed) = unicode_class(rest)?;
        out.push_str(&class);
        return Ok(&rest[consumed..]);
    }
    if let Some((negated, set)) = rest
        .strip_prefix('\\')
        .and_then(|tail| perl_class(tail.chars().next()?))
    {
        out.push_str(&if negated {
            format!("[^{set}]")
        } else {
            set.to_owned()
        });
        return Ok(&rest[2..]);
    }
    class_range(out, rest, &missing)
}

/// Translates a character, or a range of them.
fn class_range<'p>(
    out: &mut String,
    rest: &'p str,
    missing: &impl Fn() -> String,
) -> Result<&'p str, String> {
    let (low, after) = class_char(rest, missing)?;
    push_literal(out, low);
    let range = after
        .strip_prefix('-')
        .filter(|tail| !tail.is_empty() && !tail.starts_with(']'));
    let Some(tail) = range else {
        return Ok(after);
    };
    let (high, after) = class_char(tail, missing)?;
    if high < low {
        return Err(fail(
            "invalid character class range",
            &rest[..rest.len() - after.len()],
        ));
    }
    out.push('-');
    push_literal(out, high);
    Ok(after)
}

fn class_char<'p>(rest: &'p str, missing: &impl Fn() -> String) -> Result<(char, &'p str), String> {
    match rest.chars().next() {
        None => Err(missing()),
        Some('\\') => escaped_char(rest).map(|(c, consumed)| (c, &rest[consumed..])),
        Some(c) => Ok((c, &rest[c.len_utf8()..])),
    }
}

/// Reads a backslash escape that stands for one character, and how long it is.
pub(super) fn escaped_char(rest: &str) -> Result<(char, usize), String> {
    let mut chars = rest.char_indices().skip(1);
    let Some((_, c)) = chars.next() else {
        return Err(fail("trailing backslash at end of expression", ""));
    };
    let invalid = || fail("invalid escape sequence", &rest[..1 + c.len_utf8()]);
    match c {
        '0'..='7' => {
            let digits = rest[1..].chars().take(3).take_while(|c| c.is_digit(8)).count();
            if c != '0' && digits == 1 {
                return Err(invalid());
            }
            let code = u32::from_str_radix(&rest[1..=digits], 8).map_err(|_| invalid())?;
            Ok((char::from_u32(code).ok_or_else(invalid)?, 1 + digits))
        }
        'x' => {
            let tail = &rest[2..];
            let (digits, consumed) = match tail.strip_prefix('{').and_then(|tail| tail.find('}')) {
                Some(end) => (&tail[1..=end], 2 + end + 2),
                None => (tail.get(..2).ok_or_else(invalid)?, 4),
            };
            let code = u32::from_str_radix(digits, 16).map_err(|_| invalid())?;
            Ok((char::from_u32(code).ok_or_else(invalid)?, consumed))
        }
        'a' => Ok(('\u{7}', 2)),
        'f' => Ok(('\u{c}', 2)),
        'n' => Ok(('\n', 2)),
        'r' => Ok(('\r', 2)),
        't' => Ok(('\t', 2)),
        'v' => Ok(('\u{b}', 2)),
        _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok((c, 2)),
        _ => Err(invalid()),
    }
}

pub(super) fn unicode_class(rest: &str) -> Result<(String, usize), String> {
    let mut negated = rest.starts_with(r"\P");
    let tail = &rest[2..];
    let (name, consumed) = match tail.chars().next() {
        Some('{') => match tail.find('}') {
            Some(end) => (&tail[1..end], 2 + end + 1),
            None => return Err(fail("invalid character class range", rest)),
        },
        Some(c) => (&tail[..c.len_utf8()], 2 + c.len_utf8()),
        None => return Err(fail("invalid character class range", rest)),
    };
    let plain = match name.strip_prefix('^') {
        Some(plain) => {
            negated = !negated;
            plain
        }
        None => name,
    };
    let class = if plain == "Any" {
        r"[\x{0}-\x{10FFFF}]".to_owned()
    } else {
        format!(r"\{}{{{plain}}}", if negated { 'P' } else { 'p' })
    };
    if Regex::new(&class).is_err() {
        return Err(fail("invalid character class range", &rest[..consumed]));
    }
    Ok((class, consumed))
}

pub(super) fn perl_class(c: char) -> Option<(bool, &'static str)> {
    Some(match c {
        'd' => (false, "0-9"),
        'D' => (true, "0-9"),
        's' => (false, r"\t\n\x{C}\r\x{20}"),
        'S' => (true, r"\t\n\x{C}\r\x{20}"),
        'w' => (false, "0-9A-Za-z_"),
        'W' => (true, "0-9A-Za-z_"),
        _ => return None,
    })
}

/// Writes a character so that it means itself inside and outside of classes.
pub(super) fn push_literal(out: &mut String, c: char) {
    if c.is_alphanumeric() || c == '_' {
        out.push(c);
    } else {
        out.push_str(&format!(r"\x{{{:X}}}", u32::from(c)));
    }
}
