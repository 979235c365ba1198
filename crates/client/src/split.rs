//! Cuts a list response into its items while it arrives.
//!
//! Neither the response nor the list is ever held whole: each item leaves as one buffer as soon as its closing
//! brace is there. What is not an item (kind, metadata) is kept aside and read at the end, because custom
//! resource lists send it after the items.

use memchr::memchr2;
use serde_json::Value;

/// The most that one item may take. Servers refuse objects beyond a few MiB.
pub(crate) const MAX_ITEM_BYTES: usize = 16 << 20;
/// The most that everything outside the items may take.
pub(crate) const MAX_ENVELOPE_BYTES: usize = 1 << 20;

/// Why a response is not a list.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SplitError {
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

/// Takes items.
pub(crate) trait ItemSink {
    /// An item begins here. A sink that can tell where it ends takes it and says so; otherwise the end is searched for
    /// and the item comes by [`ItemSink::item`].
    fn prefix(&mut self, _rest: &[u8]) -> Option<usize> {
        None
    }

    /// A whole item, whatever it is.
    fn item(&mut self, text: &[u8]);

    /// The beginning of an item that is larger than the limit. The rest of it is passed over.
    fn too_large(&mut self, beginning: &[u8]);
}

/// The splitter. Feed it chunks, take items, then [`ListSplitter::finish`].
#[derive(Debug)]
pub(crate) struct ListSplitter {
    place: Place,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Where the last string at depth 1 of the envelope began, to recognise the key `items`.
    key_start: usize,
    key_is_items: bool,
    envelope: Vec<u8>,
    /// The item that is arriving, if it did not come in one chunk.
    item: Vec<u8>,
    /// Whether the rest of an item that is too large is being passed over.
    skipping: bool,
    item_limit: usize,
}

impl ListSplitter {
    /// Starts before the first byte of a response whose items may have so many bytes.
    pub(crate) fn new(item_limit: usize) -> Self {
        Self {
            place: Place::Envelope,
            depth: 0,
            in_string: false,
            escaped: false,
            key_start: 0,
            key_is_items: false,
            envelope: Vec::new(),
            item: Vec::new(),
            skipping: false,
            item_limit,
        }
    }

    /// Takes the next chunk and gives the items that it completes.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], items: &mut impl ItemSink) -> Result<(), SplitError> {
        while !chunk.is_empty() {
            let used = match self.place {
                Place::Envelope => self.envelope_bytes(chunk)?,
                Place::BetweenItems => self.between_items(chunk, items),
                Place::Item => self.item_bytes(chunk, items)?,
            };
            chunk = &chunk[used..];
        }
        Ok(())
    }

    /// Reads what surrounded the items, once the response has ended.
    pub(crate) fn finish(self) -> Result<ListMeta, SplitError> {
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

    fn between_items(&mut self, chunk: &[u8], items: &mut impl ItemSink) -> usize {
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            match byte {
                b',' | b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                b']' => {
                    self.envelope.push(byte);
                    self.place = Place::Envelope;
                    self.depth = 1;
                    self.key_is_items = false;
                    return at + 1;
                }
                _ => match items.prefix(&chunk[at..]) {
                    Some(end) => at += end,
                    None => {
                        self.place = Place::Item;
                        self.depth = 0;
                        return at;
                    }
                },
            }
        }
        at
    }

    fn item_bytes(&mut self, chunk: &[u8], items: &mut impl ItemSink) -> Result<usize, SplitError> {
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
            if self.in_string {
                self.string_byte(byte);
                at += 1;
                continue;
            }
            match byte {
                // Something that is no object, such as a number.
                b',' | b']' if self.depth == 0 => return Ok(self.end_item(&chunk[..at], items)),
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.checked_sub(1).ok_or(SplitError::Malformed)?;
                    if self.depth == 0 {
                        return Ok(self.end_item(&chunk[..=at], items));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.keep(chunk, items);
        Ok(chunk.len())
    }

    /// Hands over the item that ends with these bytes, and says how many they are.
    fn end_item(&mut self, bytes: &[u8], items: &mut impl ItemSink) -> usize {
        const KEPT_BYTES: usize = 1 << 20;
        self.keep(bytes, items);
        self.place = Place::BetweenItems;
        if !std::mem::take(&mut self.skipping) {
            items.item(&self.item);
        }
        self.item.clear();
        self.item.shrink_to(KEPT_BYTES);
        bytes.len()
    }

    fn keep(&mut self, bytes: &[u8], items: &mut impl ItemSink) {
        if self.skipping {
            return;
        }
        self.item.extend_from_slice(bytes);
        if self.item.len() > self.item_limit {
            items.too_large(&self.item[..self.item_limit]);
            self.item = Vec::new();
            self.skipping = true;
        }
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

    impl ItemSink for Vec<String> {
        fn item(&mut self, text: &[u8]) {
            self.push(String::from_utf8_lossy(text).into_owned());
        }

        fn too_large(&mut self, beginning: &[u8]) {
            self.push(format!("{}…", String::from_utf8_lossy(beginning)));
        }
    }

    fn split(text: &str, step: usize) -> Result<(Vec<String>, ListMeta), SplitError> {
        let mut splitter = ListSplitter::new(20);
        let mut items: Vec<String> = Vec::new();
        for chunk in text.as_bytes().chunks(step) {
            splitter.feed(chunk, &mut items)?;
        }
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
        assert_eq!(split(r#"{"items":[}]}"#, 3).unwrap_err(), SplitError::Malformed);
        assert_eq!(split("}", 1).unwrap_err(), SplitError::Malformed);
    }

    #[test]
    fn gives_items_that_are_no_objects_as_they_are() {
        check(
            r#"{"items":[1,"a,]",null,[{}],{"a":1}],"metadata":{"resourceVersion":"4"}}"#,
            &["1", r#""a,]""#, "null", "[{}]", r#"{"a":1}"#],
            "4",
        );
    }

    #[test]
    fn passes_over_items_that_are_too_large() {
        check(
            r#"{"items":[{"a":1},{"b":"0123456789}]0123456789"},{"c":1}],"metadata":{"resourceVersion":"4"}}"#,
            &[r#"{"a":1}"#, r#"{"b":"0123456789}]01…"#, r#"{"c":1}"#],
            "4",
        );
    }
}
