//! Writing YAML the way kubectl users expect it.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::scalar::{self, Plain};
use crate::gofmt;

/// Writes a value as YAML: two spaces of indent, lists not indented below their key, sorted keys,
/// texts of several lines as blocks, and quotes around texts that would read as something else.
///
/// ```
/// let value = serde_json::json!({"a": ["1", 1], "b": {"c": "yes"}});
/// assert_eq!(skopos_object::yaml::encode(&value), "a:\n- \"1\"\n- 1\nb:\n  c: \"yes\"\n");
/// ```
pub fn encode(value: &Value) -> String {
    let mut out = String::with_capacity(256);
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0),
        Value::Array(items) if !items.is_empty() => write_list(&mut out, items, 0),
        other => {
            write_leaf(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

/// Readers need not look further than 1024 characters for the colon after a key.
const MAX_SIMPLE_KEY_BYTES: usize = 1000;

/// Writes the entries of a map; the cursor stands where the first one belongs.
fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize) {
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            push_indent(out, indent);
        }
        write_key(out, key, indent);
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                push_indent(out, indent + 2);
                write_map(out, map, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                push_indent(out, indent);
                write_list(out, items, indent);
            }
            leaf => {
                out.push(' ');
                write_leaf(out, leaf, indent);
                out.push('\n');
            }
        }
    }
}

fn write_list(out: &mut String, items: &[Value], indent: usize) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            push_indent(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(out, map, indent + 2),
            Value::Array(items) if !items.is_empty() => write_list(out, items, indent + 2),
            leaf => {
                write_leaf(out, leaf, indent);
                out.push('\n');
            }
        }
    }
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write_key(out: &mut String, key: &str, indent: usize) {
    if key.len() > MAX_SIMPLE_KEY_BYTES {
        out.push_str("? ");
        write_double_quoted(out, key);
        out.push('\n');
        push_indent(out, indent);
    } else if key.contains('\n') {
        write_double_quoted(out, key);
    } else {
        write_text(out, key, indent);
    }
}

fn write_leaf(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(text) => write_text(out, text, indent),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&gofmt::float(float)),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(out, "{number}");
            }
        },
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Null => out.push_str("null"),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn write_text(out: &mut String, text: &str, indent: usize) {
    if text.contains('\n') {
        if block_allowed(text) {
            write_block(out, text, indent);
        } else {
            write_double_quoted(out, text);
        }
    } else if scalar::resolve(text) != Plain::Text || scalar::is_base60(text) || !printable(text) {
        write_double_quoted(out, text);
    } else if plain_allowed(text) {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

fn printable(text: &str) -> bool {
    text.chars()
        .all(|c| c == '\n' || (!c.is_control() && c != '\u{feff}' && !matches!(c, '\u{2028}' | '\u{2029}')))
}

fn block_allowed(text: &str) -> bool {
    printable(text) && !text.contains(" \n") && !text.ends_with(' ') && !text.starts_with([' ', '\n'])
}

/// Whether a text without line breaks reads as itself without quotes.
fn plain_allowed(text: &str) -> bool {
    let bytes = text.as_bytes();
    let starts_badly = match bytes {
        [
            b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
            | b'@' | b'`' | b' ',
            ..,
        ] => true,
        [b'-' | b'?' | b':'] | [b'-' | b'?' | b':', b' ', ..] => true,
        [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..] => true,
        _ => text == "<<" || text == "=",
    };
    let ends_badly = matches!(bytes, [.., b' ' | b':']);
    !starts_badly && !ends_badly && !text.contains(": ") && !text.contains(" #")
}

fn write_block(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    let body = text.strip_suffix('\n');
    match body {
        None => out.push('-'),
        Some(body) if body.ends_with('\n') || body.is_empty() => out.push('+'),
        Some(_) => {}
    }
    for line in body.unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            push_indent(out, indent + 2);
            out.push_str(line);
        }
    }
}

fn write_double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Writing to a String cannot fail.
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c @ ('\u{feff}' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
