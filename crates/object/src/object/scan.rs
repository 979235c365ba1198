//! One pass over the text of an object: checks that it is JSON and notes where its parts stand.
//!
//! `serde_json` takes as long to check the text alone, and every object that a program lists or watches goes through
//! here. `tests/scan.rs` holds the two against each other.

use std::ops::Range;

use super::{ManagedFields, ObjectError};

/// Where the parts of an object stand in its text.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) api_version: Option<Range<usize>>,
    pub(super) kind: Option<Range<usize>>,
    pub(super) metadata: Metadata,
    /// Behind the opening brace.
    pub(super) start: usize,
    /// Whether there is any member.
    pub(super) has_members: bool,
}

/// Where the parts of an object's metadata stand in its text.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) namespace: Option<Range<usize>>,
    pub(super) name: Option<Range<usize>>,
    pub(super) uid: Option<Range<usize>>,
    pub(super) resource_version: Option<Range<usize>>,
    pub(super) labels: Option<Range<usize>>,
    pub(super) owners: Option<Range<usize>>,
    pub(super) finalizers: Option<Range<usize>>,
    pub(super) generation: Option<Range<usize>>,
    pub(super) deletion_timestamp: Option<Range<usize>>,
    /// The member `managedFields`, with the one comma that goes with it.
    pub(super) managed_fields: Option<Range<usize>>,
}

/// Scans a text that is one object and nothing else.
pub(super) fn scan_whole(text: &[u8], managed_fields: ManagedFields) -> Result<Parts, ObjectError> {
    match scan(text, managed_fields)? {
        Some((parts, end)) if text[end..].trim_ascii_start().is_empty() => Ok(parts),
        Some((_, end)) => Err(Stop::wrong("trailing characters", end)),
        None => Err(Stop::wrong("the text ends within the object", text.len())),
    }
}

/// Scans the object that `text` begins with. Gives its parts and where it ends, or nothing if the text ends first.
/// Managed fields that are to be dropped are passed over without a check.
pub(super) fn scan(
    text: &[u8],
    managed_fields: ManagedFields,
) -> Result<Option<(Parts, usize)>, ObjectError> {
    let mut scanner = Scanner {
        text,
        at: 0,
        managed_fields,
        has_skimmed: false,
        seen: 0,
    };
    let parts = match scanner.object() {
        Ok(parts) => parts,
        Err(Stop::End) => return Ok(None),
        Err(Stop::NotAnObject) => return Err(ObjectError::NotAnObject),
        Err(Stop::Wrong(what)) => return Err(Stop::wrong(what, scanner.at)),
    };
    if scanner.seen & HIGHS != 0 {
        std::str::from_utf8(&text[..scanner.at]).map_err(|error| ObjectError::NotJson(error.to_string()))?;
    }
    Ok(Some((parts, scanner.at)))
}

/// Why scanning stops early.
#[derive(Debug)]
enum Stop {
    /// The text is over.
    End,
    /// Something begins that is no object.
    NotAnObject,
    /// A byte that JSON does not allow.
    Wrong(&'static str),
}

impl Stop {
    fn wrong(what: &str, at: usize) -> ObjectError {
        ObjectError::NotJson(format!("{what} at byte {at}"))
    }
}

/// Stands somewhere in a text. Every method begins where the one before has ended.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    managed_fields: ManagedFields,
    has_skimmed: bool,
    /// All bytes that strings have, and perhaps others, one upon the other: tells whether there is any beyond ASCII.
    seen: u64,
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

impl Scanner<'_> {
    fn object(&mut self) -> Result<Parts, Stop> {
        if self.peek()? != b'{' {
            return Err(Stop::NotAnObject);
        }
        self.at += 1;
        let mut parts = Parts {
            start: self.at,
            ..Parts::default()
        };
        while let Some(key) = self.next_key(!parts.has_members)? {
            parts.has_members = true;
            match &self.text[key] {
                b"apiVersion" => parts.api_version = Some(self.value()?),
                b"kind" => parts.kind = Some(self.value()?),
                b"metadata" if self.peek()? == b'{' => parts.metadata = self.metadata()?,
                _ => {
                    self.value()?;
                }
            }
        }
        Ok(parts)
    }

    fn metadata(&mut self) -> Result<Metadata, Stop> {
        let mut metadata = Metadata::default();
        let mut end_before = None;
        let mut managed_fields: Option<Range<usize>> = None;
        self.at += 1;
        while let Some(key) = self.next_key(end_before.is_none())? {
            if let Some(unfinished) = managed_fields.take() {
                // The comma behind it goes; keys stand behind their quote.
                metadata.managed_fields = Some(unfinished.start..key.start - 1);
            }
            let name = &self.text[key.clone()];
            let value = match (name, self.managed_fields) {
                (b"managedFields", ManagedFields::Drop) => self.skim_once()?,
                _ => self.value()?,
            };
            let end = value.end;
            match name {
                b"namespace" => metadata.namespace = Some(value),
                b"name" => metadata.name = Some(value),
                b"uid" => metadata.uid = Some(value),
                b"resourceVersion" => metadata.resource_version = Some(value),
                b"labels" => metadata.labels = Some(value),
                b"ownerReferences" => metadata.owners = Some(value),
                b"finalizers" => metadata.finalizers = Some(value),
                b"generation" => metadata.generation = Some(value),
                b"deletionTimestamp" => metadata.deletion_timestamp = Some(value),
                b"managedFields" => {
                    managed_fields = Some(key.start - 1..end);
                    // If it stays the last, the comma before it goes.
                    metadata.managed_fields = Some(end_before.unwrap_or(key.start - 1)..end);
                }
                _ => {}
            }
            end_before = Some(end);
        }
        Ok(metadata)
    }

    /// Passes the comma before a member unless it is the first, its key and its colon, or the closing brace.
    fn next_key(&mut self, first: bool) -> Result<Option<Range<usize>>, Stop> {
        match self.peek()? {
            b'}' => {
                self.at += 1;
                return Ok(None);
            }
            b',' if !first => self.at += 1,
            _ if first => {}
            _ => return Err(Stop::Wrong("expected a comma or the end of an object")),
        }
        self.key().map(Some)
    }

    /// Passes a key and its colon. Gives where the key stands, without its quotes.
    fn key(&mut self) -> Result<Range<usize>, Stop> {
        if self.peek()? != b'"' {
            return Err(Stop::Wrong("expected a key"));
        }
        let key = self.string()?;
        if self.peek()? != b':' {
            return Err(Stop::Wrong("expected a colon"));
        }
        self.at += 1;
        Ok(key.start + 1..key.end - 1)
    }

    /// Passes any value, however deep, and gives where it stands.
    fn value(&mut self) -> Result<Range<usize>, Stop> {
        let mut open = Nesting::default();
        self.peek()?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' => {
                    self.at += 1;
                    if self.peek()? != b'}' {
                        open.push(Bracket::Object);
                        self.key()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.at += 1;
                    if self.peek()? != b']' {
                        open.push(Bracket::List);
                        continue;
                    }
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => return Err(Stop::Wrong("expected a value")),
            }
            if !self.close(&mut open)? {
                return Ok(start..self.at);
            }
        }
    }

    /// Only what is dropped may go unchecked, and only one is.
    fn skim_once(&mut self) -> Result<Range<usize>, Stop> {
        if std::mem::replace(&mut self.has_skimmed, true) {
            return Err(Stop::Wrong("managedFields twice"));
        }
        self.skim()
    }

    /// Passes a value by its brackets and strings alone, whatever else is between them.
    fn skim(&mut self) -> Result<Range<usize>, Stop> {
        if !matches!(self.peek()?, b'[' | b'{') {
            return self.value();
        }
        let start = self.at;
        if let Some(end) = self.end_of_plain_list() {
            self.at = end;
            return Ok(start..end);
        }
        let mut depth = 0usize;
        loop {
            match self.text.get(self.at).ok_or(Stop::End)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                byte => self.seen |= u64::from(*byte),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(start..self.at);
            }
        }
    }

    /// Where a list ends that has no other list in it and no escape, as managed fields mostly are.
    ///
    /// Then its first closing bracket is its end, unless that stands in a string, and many bytes are looked at at once.
    fn end_of_plain_list(&mut self) -> Option<usize> {
        let list = self.text[self.at..].strip_prefix(b"[")?;
        let inside = &list[..memchr::memchr(b']', list)?];
        let marks = Marks::of(inside);
        if !marks.is_plain() {
            return None;
        }
        self.seen |= u64::from(marks.all);
        Some(self.at + inside.len() + 2)
    }

    /// After a value: passes closing brackets and a comma. Says whether another value follows.
    fn close(&mut self, open: &mut Nesting) -> Result<bool, Stop> {
        while let Some(bracket) = open.last() {
            match (self.peek()?, bracket) {
                (b',', Bracket::Object) => {
                    self.at += 1;
                    self.key()?;
                    return Ok(true);
                }
                (b',', Bracket::List) => {
                    self.at += 1;
                    return Ok(true);
                }
                (b'}', Bracket::Object) | (b']', Bracket::List) => {
                    self.at += 1;
                    open.pop();
                }
                _ => return Err(Stop::Wrong("expected a comma or a closing bracket")),
            }
        }
        Ok(false)
    }

    /// Passes a string and gives where it stands, with its quotes.
    fn string(&mut self) -> Result<Range<usize>, Stop> {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip_plain();
            match self.text.get(self.at).ok_or(Stop::End)? {
                b'"' => {
                    self.at += 1;
                    return Ok(start..self.at);
                }
                b'\\' => self.escape()?,
                0..0x20 => return Err(Stop::Wrong("control character in a string")),
                byte => {
                    self.seen |= u64::from(*byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Passes bytes that need no attention in a string, eight at a time. May stop short of the last few.
    #[inline]
    fn skip_plain(&mut self) {
        let zero_in = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
        while let Some(eight) = self.text[self.at..].first_chunk::<8>() {
            let word = u64::from_le_bytes(*eight);
            self.seen |= word;
            let quote = zero_in(word ^ (ONES * 0x22));
            let backslash = zero_in(word ^ (ONES * 0x5c));
            let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
            // Borrows make mistakes, but only above the lowest byte that is marked rightly.
            let marks = quote | backslash | control;
            if marks != 0 {
                self.at += marks.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
    }

    fn escape(&mut self) -> Result<(), Stop> {
        self.at += 1;
        let digits = match self.text.get(self.at).ok_or(Stop::End)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 0,
            b'u' => 4,
            _ => return Err(Stop::Wrong("invalid escape")),
        };
        self.at += 1;
        for _ in 0..digits {
            if !self.text.get(self.at).ok_or(Stop::End)?.is_ascii_hexdigit() {
                return Err(Stop::Wrong("invalid escape"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stop> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while self.text.get(self.at).ok_or(Stop::End)?.is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start {
            return Err(Stop::Wrong("invalid number"));
        }
        Ok(())
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Stop> {
        for expected in literal {
            if self.text.get(self.at).ok_or(Stop::End)? != expected {
                return Err(Stop::Wrong("expected a value"));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Passes blanks and gives the byte that follows them.
    #[inline]
    fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Stop::End),
            }
        }
    }
}

/// What a text has, whatever the order.
#[derive(Debug, Default)]
struct Marks {
    /// The bytes one upon the other.
    all: u8,
    /// Not zero if there is an escape or a list.
    special: u8,
    /// Whether the number of quotes is odd.
    odd_quotes: u8,
    /// How many more braces are opened than closed.
    open: u8,
}

impl Marks {
    /// Nothing depends on the byte before, so that the compiler takes many at a time.
    fn of(text: &[u8]) -> Self {
        let mut marks = Self::default();
        for byte in text {
            marks.all |= byte;
            marks.special |= u8::from(*byte == b'\\') | u8::from(*byte == b'[');
            marks.odd_quotes ^= u8::from(*byte == b'"');
            let opens = u8::from(*byte == b'{');
            marks.open = marks
                .open
                .wrapping_add(opens)
                .wrapping_sub(u8::from(*byte == b'}'));
        }
        marks
    }

    fn is_plain(&self) -> bool {
        self.special == 0 && self.odd_quotes == 0 && self.open == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    List,
    Object,
}

/// The brackets that are open: one bit each, so that depth costs next to nothing.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    /// The innermost up to 64, the last in the lowest bit.
    word: u64,
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, bracket: Bracket) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.word);
        }
        self.depth += 1;
        self.word = self.word << 1 | u64::from(bracket == Bracket::Object);
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.word >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.word = self.outer.pop().unwrap_or_default();
        }
    }

    fn last(&self) -> Option<Bracket> {
        match (self.depth, self.word & 1) {
            (0, _) => None,
            (_, 0) => Some(Bracket::List),
            (_, _) => Some(Bracket::Object),
        }
    }
}
