//! String literals.

use super::error::DecodeError;

/// Reads the string literal whose opening quote is at `start`. Gives the text and where it ends.
pub(super) fn parse(text: &str, start: usize) -> Result<(String, usize), DecodeError> {
    let bytes = text.as_bytes();
    let plain = plain_run(bytes, start + 1);
    if bytes.get(plain) == Some(&b'"') {
        return Ok((text[start + 1..plain].to_owned(), plain + 1));
    }
    let mut out = String::with_capacity(2 * (plain - start));
    let mut at = start + 1;
    loop {
        let end = plain_run(bytes, at);
        out.push_str(&text[at..end]);
        match bytes.get(end) {
            Some(b'"') => return Ok((out, end + 1)),
            Some(b'\\') => at = escape(bytes, end, &mut out)?,
            _ => return Err(DecodeError::at(bytes, end, "in string literal")),
        }
    }
}

/// Where the run of bytes that need no attention ends.
fn plain_run(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from.min(bytes.len())..];
    let length = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    // No early exit: without one the compiler looks at many bytes at a time, and control bytes are rare.
    let has_control = rest[..length]
        .iter()
        .fold(false, |found, byte| found | (*byte < 0x20));
    if has_control {
        let control = rest.iter().position(|byte| *byte < 0x20);
        return from + control.unwrap_or(length);
    }
    from + length
}

/// Reads the escape whose backslash is at `at`. Gives where it ends.
fn escape(bytes: &[u8], at: usize, out: &mut String) -> Result<usize, DecodeError> {
    let c = match bytes.get(at + 1) {
        Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(bytes, at, out),
        _ => return Err(DecodeError::at(bytes, at + 1, "in string escape code")),
    };
    out.push(c);
    Ok(at + 2)
}

fn unicode(bytes: &[u8], at: usize, out: &mut String) -> Result<usize, DecodeError> {
    let high = hex4(bytes, at + 2)?;
    let is_high = (0xd800..0xdc00).contains(&high);
    if is_high && bytes[at + 6..].starts_with(b"\\u") {
        let low = hex4(bytes, at + 8)?;
        if (0xdc00..0xe000).contains(&low) {
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(at + 12);
        }
    }
    // Half of a surrogate pair becomes the replacement character, as in Go.
    out.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
    Ok(at + 6)
}

fn hex4(bytes: &[u8], from: usize) -> Result<u32, DecodeError> {
    let mut code = 0;
    for at in from..from + 4 {
        let digit = bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let digit = digit.ok_or_else(|| DecodeError::at(bytes, at, "in \\u hexadecimal character escape"))?;
        code = code * 16 + digit;
    }
    Ok(code)
}
