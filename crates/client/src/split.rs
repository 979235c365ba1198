//! Cuts a list response into its items while it arrives.
//!
//! Neither the response nor the list is ever held whole: each item leaves as one buffer as soon as its closing
//! brace is there. What is not an item (kind, metadata) is kept aside and read at the end, because custom
//! resource lists send it after the items.

use bytes::{Bytes, BytesMut};
use memchr::memchr2;
use serde_json::Value;

/// The most that one item may take. Servers refuse objects beyond a few MiB.
pub const MAX_ITEM_BYTES: usize = 16 << 20;
/// The most that everything outside the items may take.
pub const MAX_ENVELOPE_BYTES: usize = 1 << 20;

/// Why a response is not a list.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SplitError {
    /// One item is larger than [`MAX_ITEM_BYTES`].
    #[error("an item is larger than {MAX_ITEM_BYTES} bytes")]
    ItemTooLarge,
    /// The rest is larger than [`MAX_ENVELOPE_BYTES`].
    #[error("the list metadata is larger than {MAX_ENVELOPE_BYTES} bytes")]
    EnvelopeTooLarge,
    /// A byte that JSON does not allow there.
    #[error("the list is not valid JSON")]
    Malformed,
    /// The response ended in the middle.
    #[error("the list ended in the middle")]
    Truncated,
}

/// What a list response says besides its items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListMeta {
    /// The revision the list shows.
    pub resource_version: String,
    /// Token for the next page; empty on the last.
    pub continue_token: String,
    /// How many items follow this page, if the server says.
    pub remaining: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Envelope,
    BetweenItems,
    Item,
}

/// The splitter. Feed it chunks, take items, then [`ListSplitter::finish`].
#[derive(Debug)]
pub struct ListSplitter {
    place: Place,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Where the last string at depth 1 of the envelope began, to recognise the key `items`.
    key_start: usize,
    key_is_items: bool,
    envelope: Vec<u8>,
    item: BytesMut,
}

impl Default for ListSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl ListSplitter {
    /// Starts before the first byte of a response.
    pub fn new() -> Self {
        Self {
            place: Place::Envelope,
            depth: 0,
            in_string: false,
            escaped: false,
            key_start: 0,
            key_is_items: false,
            envelope: Vec::new(),
            item: BytesMut::new(),
        }
    }

    /// Takes the next chunk and appends the items that it completes.
    pub fn feed(&mut self, mut chunk: &[u8], items: &mut Vec<Bytes>) -> Result<(), SplitError> {
        while !chunk.is_empty() {
            let used = match self.place {
                Place::Envelope => self.envelope_bytes(chunk)?,
                Place::BetweenItems => self.between_items(chunk)?,
                Place::Item => self.item_bytes(chunk, items)?,
            };
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// Reads what surrounded the items, once the response has ended.
    pub fn finish(self) -> Result<ListMeta, SplitError> {
        if self.place != Place::Envelope || self.depth != 0 || self.in_string {
            return Err(SplitError::Truncated);
        }
        let value: Value = serde_json::from_slice(&self.envelope).map_err(|_| SplitError::Malformed)?;
        let meta = &value["metadata"];
        let text = |name: &str| meta[name].as_str().unwrap_or_default().to_owned();
        Ok(ListMeta {
            resource_version: text("resourceVersion"),
            continue_token: text("continue"),
            remaining: meta["remainingItemCount"].as_u64(),
        })
    }

    /// Copies envelope bytes up to the end of the chunk or the `[` that opens the items.
    fn envelope_bytes(&mut self, chunk: &[u8]) -> Result<usize, SplitError> {
        for (at, &byte) in chunk.iter().enumerate() {
            if self.envelope.len() >= MAX_ENVELOPE_BYTES {
                return Err(SplitError::EnvelopeTooLarge);
            }
            self.envelope.push(byte);
            if self.in_string {
                self.string_byte(byte);
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.key_start = self.envelope.len();
                }
                b':' if self.depth == 1 => self.key_is_items = self.last_string() == b"items",
                b'[' if self.depth == 1 && self.key_is_items => {
                    self.place = Place::BetweenItems;
                    return Ok(at + 1);
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.checked_sub(1).ok_or(SplitError::Malformed)?,
                b',' => self.key_is_items = false,
                _ => {}
            }
        }
        Ok(chunk.len())
    }

    fn between_items(&mut self, chunk: &[u8]) -> Result<usize, SplitError> {
        for (at, &byte) in chunk.iter().enumerate() {
            match byte {
                b'{' => {
                    self.place = Place::Item;
                    self.depth = 0;
                    return Ok(at);
                }
                b']' => {
                    self.envelope.push(byte);
                    self.place = Place::Envelope;
                    self.depth = 1;
                    self.key_is_items = false;
                    return Ok(at + 1);
                }
                b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => return Err(SplitError::Malformed),
            }
        }
        Ok(chunk.len())
    }

    fn item_bytes(&mut self, chunk: &[u8], items: &mut Vec<Bytes>) -> Result<usize, SplitError> {
        let mut at = 0;
        while at < chunk.len() {
            if self.in_string && !self.escaped {
                // Most bytes of an object are inside strings: jump to the next one that matters.
                let Some(skip) = memchr2(b'"', b'\\', &chunk[at..]) else {
                    break;
                };
                at += skip;
            }
            let byte = chunk[at];
            at += 1;
            if self.in_string {
                self.string_byte(byte);
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.checked_sub(1).ok_or(SplitError::Malformed)?;
                    if self.depth == 0 {
                        self.keep(&chunk[..at])?;
                        items.push(self.item.split().freeze());
                        self.place = Place::BetweenItems;
                        return Ok(at);
                    }
                }
                _ => {}
            }
        }
        self.keep(chunk)?;
        Ok(chunk.len())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        if self.item.len() + bytes.len() > MAX_ITEM_BYTES {
            return Err(SplitError::ItemTooLarge);
        }
        self.item.extend_from_slice(bytes);
        Ok(())
    }

    fn string_byte(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    /// The last string of the envelope, without its quotes; the envelope ends in `":` and spaces.
    fn last_string(&self) -> &[u8] {
        let rest = &self.envelope[self.key_start..];
        rest.iter()
            .position(|&b| b == b'"')
            .map_or(b"", |end| &rest[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, step: usize) -> Result<(Vec<String>, ListMeta), SplitError> {
        let mut splitter = ListSplitter::new();
        let mut items = Vec::new();
        for chunk in text.as_bytes().chunks(step) {
            splitter.feed(chunk, &mut items)?;
        }
        let items = items
            .iter()
            .map(|i| String::from_utf8_lossy(i).into_owned())
            .collect();
        Ok((items, splitter.finish()?))
    }

    /// Checks one response at every chunk size, so that each byte is a border once.
    fn check(text: &str, items: &[&str], resource_version: &str) {
        for step in 1..=text.len() {
            let (got, meta) = split(text, step).unwrap();
            assert_eq!(got, items, "step {step}");
            assert_eq!(meta.resource_version, resource_version, "step {step}");
        }
    }

    #[test]
    fn cuts_items_wherever_the_chunks_end() {
        check(
            r#"{"kind":"L","metadata":{"resourceVersion":"7","continue":""},"items":[{"a":"}]\"{"},{"b":[1,{}]}]}"#,
            &[r#"{"a":"}]\"{"}"#, r#"{"b":[1,{}]}"#],
            "7",
        );
    }

    #[test]
    fn reads_metadata_that_follows_the_items() {
        check(
            r#"{ "apiVersion":"v1", "items" : [ {"x":"\\"} , {} ], "kind":"L", "metadata":{"resourceVersion":"9"} }"#,
            &[r#"{"x":"\\"}"#, "{}"],
            "9",
        );
    }

    #[test]
    fn takes_empty_and_null_lists() {
        check(r#"{"items":[],"metadata":{"resourceVersion":"1"}}"#, &[], "1");
        check(r#"{"items":null,"metadata":{"resourceVersion":"1"}}"#, &[], "1");
    }

    #[test]
    fn ignores_items_that_are_not_the_top_level_key() {
        check(
            r#"{"metadata":{"items":[{"no":1}],"resourceVersion":"3"},"x":"items","items":[{"yes":1}]}"#,
            &[r#"{"yes":1}"#],
            "3",
        );
    }

    #[test]
    fn refuses_what_ends_in_the_middle() {
        for text in [
            r#"{"items":[{"a":1"#,
            r#"{"items":[{}]"#,
            r#"{"items"#,
            r#"{"items":["#,
        ] {
            assert_eq!(split(text, 3).unwrap_err(), SplitError::Truncated, "{text}");
        }
        assert_eq!(split(r#"{"items":[1]}"#, 3).unwrap_err(), SplitError::Malformed);
        assert_eq!(split("}", 1).unwrap_err(), SplitError::Malformed);
    }
}
