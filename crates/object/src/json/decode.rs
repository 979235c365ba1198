//! The decoder of request bodies: one pass, bounded depth, duplicate keys noted.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{duplicates::Duplicates, error::DecodeError, number, text};
use crate::quote;

/// How deep lists and objects may be nested.
///
/// Less than the 128 levels that other readers of our output allow by default, so that an object
/// we accept can also be read inside a list or a watch event.
pub const MAX_DEPTH: usize = 120;

/// A decoded text.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The value. Of duplicate keys the last one won.
    pub value: Value,
    /// The paths of keys given more than once, such as `spec.list[0].name`; at most
    /// [`MAX_DUPLICATES`](super::MAX_DUPLICATES), in the order of the text.
    pub duplicates: Vec<String>,
    /// What the YAML library of API servers says of them, if the text is YAML.
    pub(crate) yaml_complaint: Option<String>,
}

impl Decoded {
    /// What strict decoding says of duplicate keys, in the words of the API server.
    pub fn strict_errors(&self) -> Vec<String> {
        match &self.yaml_complaint {
            Some(complaint) => vec![complaint.clone()],
            None => self
                .duplicates
                .iter()
                .map(|path| format!("duplicate field {}", quote(path)))
                .collect(),
        }
    }
}

/// Decodes one JSON value by the rules of the Kubernetes API.
///
/// Integers that fit 64 bits stay integers, all other numbers become floats, and floats without a
/// fraction become integers again, because the server prints them so. Bytes that are not UTF-8
/// become replacement characters. Nesting beyond [`MAX_DEPTH`] is an error.
///
/// ```
/// let decoded = skopos_object::json::decode(br#"{"a": 1.0, "b": {"c": 1, "c": 2}}"#)?;
/// assert_eq!(decoded.value, serde_json::json!({"a": 1, "b": {"c": 2}}));
/// assert_eq!(decoded.duplicates, ["b.c"]);
/// # Ok::<(), skopos_object::json::DecodeError>(())
/// ```
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let text = to_text(bytes);
    let mut decoder = Decoder {
        text: &text,
        at: 0,
        depth: 0,
        duplicates: Duplicates::default(),
    };
    let value = decoder.value("looking for beginning of value")?;
    decoder.skip_blanks();
    if decoder.at < text.len() {
        return Err(decoder.error("after top-level value"));
    }
    Ok(Decoded {
        value,
        duplicates: decoder.duplicates.into_paths(),
        yaml_complaint: None,
    })
}

/// Replaces each byte that is not part of UTF-8, as Go does.
fn to_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

struct Decoder<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    duplicates: Duplicates,
}

impl Decoder<'_> {
    /// Reads a value. `context` words the complaint about a byte that cannot start one.
    fn value(&mut self, context: &str) -> Result<Value, DecodeError> {
        self.skip_blanks();
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.error(context)),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, DecodeError>) -> Result<Value, DecodeError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error("exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, DecodeError> {
        let mut map = Map::new();
        let first_duplicate = self.duplicates.len();
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.error("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_blanks();
            if self.peek() != Some(b':') {
                return Err(self.error("after object key"));
            }
            self.at += 1;
            let outer = self.duplicates.len();
            let value = self.value("looking for beginning of value")?;
            self.duplicates.under_key(outer, &key);
            match map.entry(key) {
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                serde_json::map::Entry::Occupied(mut entry) => {
                    self.duplicates.note(first_duplicate, outer, entry.key());
                    entry.insert(value);
                }
            }
            if self.ends(b'}', "after object key:value pair")? {
                return Ok(Value::Object(map));
            }
        }
    }

    fn array(&mut self) -> Result<Value, DecodeError> {
        let mut items = Vec::new();
        self.skip_blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            let outer = self.duplicates.len();
            items.push(self.value("looking for beginning of value")?);
            self.duplicates.under_index(outer, items.len() - 1);
            if self.ends(b']', "after array element")? {
                return Ok(Value::Array(items));
            }
        }
    }

    /// Steps over a comma or the closing bracket; true for the bracket.
    fn ends(&mut self, close: u8, context: &str) -> Result<bool, DecodeError> {
        self.skip_blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.error(context)),
        }
    }

    fn string(&mut self) -> Result<String, DecodeError> {
        let (string, end) = text::parse(self.text, self.at)?;
        self.at = end;
        Ok(string)
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, DecodeError> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        let same = rest
            .iter()
            .zip(word.bytes())
            .take_while(|(a, b)| **a == *b)
            .count();
        let expected = char::from(word.as_bytes()[same]);
        self.at += same;
        Err(self.error(&format!("in literal {word} (expecting '{expected}')")))
    }

    fn number(&mut self) -> Result<Value, DecodeError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.error("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let literal = &self.text[start..self.at];
        number::parse(literal).ok_or_else(|| {
            let message = format!("json: cannot unmarshal number {literal} into Go value of type float64");
            DecodeError::new(message, start)
        })
    }

    fn some_digits(&mut self, context: &str) -> Result<(), DecodeError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.error(context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, context: &str) -> DecodeError {
        DecodeError::at(self.text.as_bytes(), self.at, context)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::MAX_DUPLICATES;

    fn check(text: &str, expect: &Value) {
        assert_eq!(&decode(text.as_bytes()).unwrap().value, expect, "{text}");
    }

    #[test]
    fn decodes_values() {
        check(" null ", &json!(null));
        check("[true,false,[],{}]", &json!([true, false, [], {}]));
        check("{\"a\" : [ 1 , -2.5 , \"x\" ] }\n", &json!({"a": [1, -2.5, "x"]}));
        check(
            r#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00""#,
            &json!("\"\\/\u{8}\u{c}\n\r\tä😀"),
        );
        check(
            r#""\ud83dx\ude00\ud83d\u0041""#,
            &json!("\u{fffd}x\u{fffd}\u{fffd}A"),
        );
        assert_eq!(
            decode(b"\"a\xff\xfe\"").unwrap().value,
            json!("a\u{fffd}\u{fffd}")
        );
    }

    #[test]
    fn complains_as_go_does() {
        for (text, expect) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            (
                "{a",
                "invalid character 'a' looking for beginning of object key string",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("1 'x", "invalid character '\\'' after top-level value"),
            ("trie", "invalid character 'i' in literal true (expecting 'u')"),
            ("nul", "unexpected end of JSON input"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u12g4\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            (
                "1e999",
                "json: cannot unmarshal number 1e999 into Go value of type float64",
            ),
        ] {
            assert_eq!(decode(text.as_bytes()).unwrap_err().to_string(), expect, "{text}");
        }
    }

    #[test]
    fn names_duplicate_keys_by_their_path() {
        let text = r#"{"a":{"x":1,"x":2},"l":[{},{"n":1,"n":2}],"a":{"y":{"z":1,"z":1}},"a":1}"#;
        let decoded = decode(text.as_bytes()).unwrap();
        assert_eq!(decoded.duplicates, ["a.x", "l[1].n", "a", "a.y.z"]);
        assert_eq!(decoded.strict_errors()[1], "duplicate field \"l[1].n\"");
        assert_eq!(decoded.value, json!({"a": 1, "l": [{}, {"n": 2}]}));
    }

    #[test]
    fn bounds_depth_and_duplicates() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(decode(deep(MAX_DEPTH).as_bytes()).is_ok());
        let error = decode(deep(1_000_000).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
        assert_eq!(error.offset(), MAX_DEPTH);

        let many: String = (0..1000).map(|i| format!("\"k{i}\":1,\"k{i}\":1,")).collect();
        let decoded = decode(format!("{{{many}\"z\":1}}").as_bytes()).unwrap();
        assert_eq!(decoded.duplicates.len(), MAX_DUPLICATES);
    }
}
