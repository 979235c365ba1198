//! The values of string and bytes literals.

/// The text of a string literal with its quotes, or what is wrong with it.
pub(crate) fn string(literal: &str) -> Result<String, &'static str> {
    let bytes = unescape(literal, false)?;
    String::from_utf8(bytes).map_err(|_| "unable to unescape string")
}

/// The bytes of a bytes literal, given from its quotes on, without the leading `b`.
pub(crate) fn bytes(literal: &str) -> Result<Vec<u8>, &'static str> {
    unescape(literal, true)
}

fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let raw = literal.starts_with(['r', 'R']);
    let quoted = if raw { &literal[1..] } else { &literal[..] };
    let quotes = match quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''")) {
        true => 3,
        false => 1,
    };
    let content = quoted
        .get(quotes..quoted.len() - quotes)
        .ok_or("unable to unescape string")?;
    if raw || !content.contains('\\') {
        return Ok(content.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        rest = escape(rest, is_bytes, &mut out)?;
    }
    Ok(out)
}

/// Appends what an escape sequence means and returns the text after it.
fn escape<'t>(text: &'t str, is_bytes: bool, out: &mut Vec<u8>) -> Result<&'t str, &'static str> {
    const BAD: &str = "unable to unescape string";
    let kind = text
        .chars()
        .next()
        .ok_or("unable to unescape string, found '\\' as last character")?;
    let after = &text[kind.len_utf8()..];
    let digits = |n: usize, radix: u32| -> Result<_, &'static str> {
        let digits = after.get(..n).ok_or(BAD)?;
        let value = u32::from_str_radix(digits, radix).map_err(|_| BAD)?;
        Ok((value, &after[n..]))
    };
    let (value, rest) = match kind {
        'a' => (7, after),
        'b' => (8, after),
        'f' => (12, after),
        'n' => (10, after),
        'r' => (13, after),
        't' => (9, after),
        'v' => (11, after),
        '\\' | '\'' | '"' | '`' | '?' => (kind as u32, after),
        'x' | 'X' => digits(2, 16)?,
        'u' | 'U' if is_bytes => return Err(BAD),
        'u' => digits(4, 16)?,
        'U' => digits(8, 16)?,
        '0'..='3' => {
            let (low, rest) = digits(2, 8)?;
            ((kind as u32 - '0' as u32) * 64 + low, rest)
        }
        _ => return Err(BAD),
    };
    if is_bytes {
        out.push(u8::try_from(value).map_err(|_| BAD)?);
    } else {
        let c = char::from_u32(value).ok_or("invalid unicode code point")?;
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(rest)
}
