//! Reading JSON text by path without building a tree.

use std::{borrow::Cow, ops::Range};

/// Finds the value at `path` and gives its text. Numbers in the path index lists.
///
/// The text is scanned once, nothing is allocated, and what is not on the path is skipped unread:
/// the text must be known to be JSON. On anything else the answer may be wrong, but it is an answer.
/// Of duplicate keys the first one is found.
///
/// ```
/// let json = br#"{"spec": {"ports": [{"port": 80}]}}"#;
/// assert_eq!(skopos_object::raw_path(json, &["spec", "ports", "0", "port"]), Some(&b"80"[..]));
/// ```
pub fn raw_path<'a>(json: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    range_of(json, path).map(|range| &json[range])
}

/// Where in the text the value at `path` stands.
pub(crate) fn range_of(json: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let mut at = skip_blanks(json, 0);
    for part in path {
        at = match json.get(at)? {
            b'{' => {
                Members::new(json, at)
                    .find(|member| key_is(&json[member.key.clone()], part))?
                    .value
                    .start
            }
            b'[' => Items::new(json, at).nth(part.parse().ok()?)?.start,
            _ => return None,
        };
    }
    let end = skip_value(json, at);
    (end > at).then_some(at..end)
}

/// One `"key": value` of an object: where key (without quotes) and value stand.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The members of the object whose text starts at a position.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Members<'a> {
    /// `at` is where the opening brace stands; anywhere else there are no members.
    pub(crate) fn new(json: &'a [u8], at: usize) -> Self {
        let at = if json.get(at) == Some(&b'{') {
            at + 1
        } else {
            json.len()
        };
        Self { json, at }
    }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let start = skip_separators(self.json, self.at);
        if self.json.get(start) != Some(&b'"') {
            self.at = self.json.len();
            return None;
        }
        let end = skip_string(self.json, start);
        let colon = skip_blanks(self.json, end);
        let value = skip_blanks(self.json, colon + 1);
        let value_end = skip_value(self.json, value);
        if self.json.get(colon) != Some(&b':') || value_end <= value {
            self.at = self.json.len();
            return None;
        }
        self.at = value_end;
        Some(Member {
            key: start + 1..end - 1,
            value: value..value_end,
        })
    }
}

/// The items of the list whose text starts at a position.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// `at` is where the opening bracket stands; anywhere else there are no items.
    pub(crate) fn new(json: &'a [u8], at: usize) -> Self {
        let at = if json.get(at) == Some(&b'[') {
            at + 1
        } else {
            json.len()
        };
        Self { json, at }
    }
}

impl Iterator for Items<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = skip_separators(self.json, self.at);
        let end = skip_value(self.json, start);
        self.at = if end > start { end } else { self.json.len() };
        (end > start).then_some(start..end)
    }
}

/// The text of a string literal, without its quotes given as `raw`.
pub(crate) fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    if !raw.contains(&b'\\') {
        return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
    }
    let quoted = [b"\"", raw, b"\""].concat();
    crate::json::decode(&quoted)
        .ok()?
        .value
        .as_str()
        .map(|text| Cow::Owned(text.to_owned()))
}

/// The text of the string literal at `range`, if there is one.
pub(crate) fn string_at(json: &[u8], range: Range<usize>) -> Option<Cow<'_, str>> {
    match json.get(range)? {
        [b'"', raw @ .., b'"'] => unescape(raw),
        _ => None,
    }
}

fn key_is(raw: &[u8], key: &str) -> bool {
    raw == key.as_bytes() || (raw.contains(&b'\\') && unescape(raw).is_some_and(|text| text == key))
}

fn skip_blanks(json: &[u8], from: usize) -> usize {
    skip_while(json, from, |byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r'))
}

fn skip_separators(json: &[u8], from: usize) -> usize {
    skip_while(json, from, |byte| {
        matches!(byte, b',' | b' ' | b'\n' | b'\t' | b'\r')
    })
}

fn skip_while(json: &[u8], from: usize, accept: impl Fn(u8) -> bool) -> usize {
    let rest = json.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !accept(*byte)).unwrap_or(rest.len())
}

/// Where the value that starts at `from` ends; `from` itself if none starts there.
fn skip_value(json: &[u8], from: usize) -> usize {
    match json.get(from) {
        Some(b'"') => skip_string(json, from),
        Some(b'{' | b'[') => skip_nested(json, from),
        _ => skip_while(json, from, |byte| {
            !matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r')
        }),
    }
}

/// Where the string whose opening quote is at `from` ends. One that never ends, ends with the text.
fn skip_string(json: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

fn skip_nested(json: &[u8], from: usize) -> usize {
    let mut depth = 0usize;
    let mut at = from;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => {
                at = skip_string(json, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, path: &[&str], expect: Option<&str>) {
        let found = raw_path(json.as_bytes(), path).map(|raw| std::str::from_utf8(raw).unwrap());
        assert_eq!(found, expect, "{path:?} of {json}");
    }

    #[test]
    fn finds_values_by_path() {
        let json = r#" { "a" : { "b" : [ 1 , "x,]}\"" , { "c" : null } ] , "d":-1.5e3 } , "k\"ey": true, "\u0065": "e" } "#;
        check(json, &["a", "b", "0"], Some("1"));
        check(json, &["a", "b", "1"], Some(r#""x,]}\"""#));
        check(json, &["a", "b", "2", "c"], Some("null"));
        check(json, &["a", "b", "2"], Some(r#"{ "c" : null }"#));
        check(json, &["a", "d"], Some("-1.5e3"));
        check(json, &["k\"ey"], Some("true"));
        check(json, &["e"], Some("\"e\""));
        check(json, &[], Some(json.trim()));
        check(json, &["a", "b", "3"], None);
        check(json, &["a", "b", "x"], None);
        check(json, &["a", "d", "x"], None);
        check(json, &["x"], None);
    }

    #[test]
    fn survives_what_is_not_json() {
        for text in [
            "",
            "{",
            "}",
            "{\"",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"a\":[",
            "[,,",
            "\"\\",
            "{a:1}",
            "{\"a\" 1}",
        ] {
            for path in [&["a"][..], &["a", "0"], &["0"], &[]] {
                let _ = raw_path(text.as_bytes(), path);
            }
        }
    }
}
