//! Values as Go prints them, because error messages of API servers contain them.

use std::{fmt::Write as _, io};

use serde_json::{
    Value,
    ser::{CharEscape, Formatter},
};

/// Quotes text the way Go's `%q` does.
///
/// ```
/// assert_eq!(skopos_object::quote("a\"b\n\u{7}"), r#""a\"b\n\a""#);
/// ```
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c);
    }
    out.push('"');
    out
}

fn push_quoted(out: &mut String, c: char) {
    let simple = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        _ => {
            push_printable_or_code(out, c);
            return;
        }
    };
    out.push_str(simple);
}

fn push_printable_or_code(out: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a String cannot fail.
    let _ = match code {
        0x20..0x7f => {
            out.push(c);
            Ok(())
        }
        0..0x20 | 0x7f => write!(out, "\\x{code:02x}"),
        _ if is_printable(c) => {
            out.push(c);
            Ok(())
        }
        0..0x10000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Go prints letters, marks, numbers, punctuation and symbols, but of all spaces only U+0020.
fn is_printable(c: char) -> bool {
    // The leading letter keeps combining marks from being escaped, which Rust does only at the start.
    let mut text = String::from("a");
    text.push(c);
    !c.is_whitespace() && text.escape_debug().count() == 2
}

/// Prints a float as Go's `%v` does: shortest digits, exponent from 1e6 up and below 1e-4.
pub(crate) fn float(number: f64) -> String {
    let (digits, exponent) = scientific(number);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Prints a float as Go's `encoding/json` does: exponent from 1e21 up and below 1e-6.
fn json_float(number: f64) -> String {
    let (digits, exponent) = scientific(number);
    if (-6..21).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { "-" } else { "+" };
    format!("{digits}e{sign}{}", exponent.unsigned_abs())
}

fn scientific(number: f64) -> (String, i32) {
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => (digits.to_owned(), exponent.parse().unwrap_or(0)),
        None => (text, 0),
    }
}

/// Prints a JSON value as Go's `json.Marshal` does: `<`, `>`, `&` escaped, floats in Go's form.
pub(crate) fn json_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, GoFormatter);
    // A Value has string keys only and a Vec does not fail to grow, so this cannot fail.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    out
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(json_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, w: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, tail) = rest.split_at(at);
            w.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            let code = chars.next().map_or(0, u32::from);
            write!(w, "\\u{code:04x}")?;
            rest = chars.as_str();
        }
        w.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, w: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Quote => w.write_all(b"\\\""),
            CharEscape::ReverseSolidus => w.write_all(b"\\\\"),
            CharEscape::Solidus => w.write_all(b"/"),
            CharEscape::Backspace => w.write_all(b"\\b"),
            CharEscape::FormFeed => w.write_all(b"\\f"),
            CharEscape::LineFeed => w.write_all(b"\\n"),
            CharEscape::CarriageReturn => w.write_all(b"\\r"),
            CharEscape::Tab => w.write_all(b"\\t"),
            CharEscape::AsciiControl(byte) => write!(w, "\\u{byte:04x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(quote("héllo ☺"), "\"héllo ☺\"");
        assert_eq!(
            quote("\0\u{7f}\u{a0}\u{feff}e\u{301}"),
            "\"\\x00\\x7f\\u00a0\\ufeffe\u{301}\""
        );
        assert_eq!(quote("\u{10ffff}"), "\"\\U0010ffff\"");
    }

    #[test]
    fn floats_as_go_does() {
        for (number, plain, in_json) in [
            (1.5, "1.5", "1.5"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (1.5e-7, "1.5e-07", "1.5e-7"),
            (123_456.5, "123456.5", "123456.5"),
            (12_345_678.5, "1.23456785e+07", "12345678.5"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
        ] {
            assert_eq!(float(number), plain);
            assert_eq!(json_float(number), in_json);
        }
    }

    #[test]
    fn json_as_go_does() {
        let text = json_bytes(&json!({"a": "<&>\u{2028}\n\u{1}", "b": [1, 1e30, null, true]}));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"a":"\u003c\u0026\u003e\u2028\n\u0001","b":[1,1e+30,null,true]}"#
        );
    }
}
