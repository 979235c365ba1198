//! Patterns in Go's regular expression syntax, run by the `regex` crate.
//!
//! The two dialects are nearly one. [`translate`] closes the gap: Perl classes are ASCII in Go, counted
//! repetition that is none is a literal, classes do not nest, and Go refuses what it does not know with its
//! own words, which users see.

mod class;

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use self::class::{class_item, escaped_char, perl_class, push_literal, unicode_class};

/// Bounds what one pattern may cost to compile and keep.
const MAX_PROGRAM_BYTES: usize = 4 << 20;
const MAX_DFA_BYTES: usize = 1 << 20;
const MAX_REPEAT: u32 = 1000;
const MAX_GROUP_DEPTH: usize = 250;

/// A pattern that compiles at its first use and only once.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    pub(crate) fn new(source: &str) -> Self {
        Pattern {
            source: source.into(),
            compiled: OnceLock::new(),
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether `text` matches.
    ///
    /// # Errors
    /// Returns Go's words on what is wrong with the pattern.
    pub(crate) fn matches(&self, text: &str) -> Result<bool, &str> {
        match self.compiled.get_or_init(|| compile(&self.source)) {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(why) => Err(why),
        }
    }
}

/// Says what is wrong with a Go pattern.
///
/// # Errors
/// Returns Go's words on it.
pub(crate) fn check(source: &str) -> Result<(), String> {
    compile(source).map(|_| ())
}

/// Compiles a Go pattern.
fn compile(source: &str) -> Result<Regex, String> {
    let translated = translate(source)?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_PROGRAM_BYTES)
        .dfa_size_limit(MAX_DFA_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => fail("expression too large", source),
            _ => fail("invalid character class range", source),
        })
}

fn fail(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}

/// Rewrites a Go pattern for the `regex` crate.
///
/// # Errors
/// Returns the text of Go's `regexp.Compile` error.
pub(crate) fn translate(source: &str) -> Result<String, String> {
    let mut t = Translator {
        source,
        rest: source,
        out: String::new(),
        depth: 0,
        atom: false,
        repeat: None,
    };
    while let Some(c) = t.rest.chars().next() {
        t.step(c)?;
    }
    match t.depth {
        0 => Ok(t.out),
        _ => Err(fail("missing closing )", source)),
    }
}

struct Translator<'p> {
    source: &'p str,
    rest: &'p str,
    out: String,
    depth: usize,
    /// Whether there is something for a repetition operator to repeat.
    atom: bool,
    /// Where the last repetition operator starts, if it directly precedes `rest`.
    repeat: Option<&'p str>,
}

impl<'p> Translator<'p> {
    fn step(&mut self, c: char) -> Result<(), String> {
        let last_repeat = self.repeat.take();
        match c {
            '(' if self.rest.starts_with("(?") => return self.perl_group(),
            '(' => self.open("(", 1)?,
            ')' => {
                self.depth = self
                    .depth
                    .checked_sub(1)
                    .ok_or_else(|| fail("unexpected )", self.source))?;
                self.emit(")", 1, true);
            }
            '|' => self.emit("|", 1, false),
            '*' | '+' | '?' => {
                let before = self.rest;
                self.rest = &self.rest[1..];
                return self.repetition(before, last_repeat);
            }
            '{' => return self.braces(last_repeat),
            '[' => return self.class(),
            '\\' => return self.escape(),
            '^' | '$' | '.' => {
                self.out.push(c);
                self.advance(c, true);
            }
            _ => {
                push_literal(&mut self.out, c);
                self.advance(c, true);
            }
        }
        Ok(())
    }

    fn advance(&mut self, c: char, atom: bool) {
        self.rest = &self.rest[c.len_utf8()..];
        self.atom = atom;
    }

    fn emit(&mut self, text: &str, consumed: usize, atom: bool) {
        self.out.push_str(text);
        self.rest = &self.rest[consumed..];
        self.atom = atom;
    }

    fn open(&mut self, text: &str, consumed: usize) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_GROUP_DEPTH {
            return Err(fail("expression nests too deeply", self.source));
        }
        self.emit(text, consumed, false);
        Ok(())
    }

    fn repetition(&mut self, before: &'p str, last: Option<&'p str>) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
        }
        let written = &before[..before.len() - self.rest.len()];
        if let Some(last) = last {
            let stacked = &last[..last.len() - self.rest.len()];
            return Err(fail("invalid nested repetition operator", stacked));
        }
        if !self.atom {
            return Err(fail("missing argument to repetition operator", written));
        }
        self.out.push_str(written);
        self.repeat = Some(before);
        Ok(())
    }

    fn braces(&mut self, last: Option<&'p str>) -> Result<(), String> {
        let before = self.rest;
        let Some((min, max, consumed)) = counted(before) else {
            self.emit(r"\{", 1, true);
            return Ok(());
        };
        self.rest = &before[consumed..];
        let too_many = |n: Option<u32>| n.is_none_or(|n| n > MAX_REPEAT);
        let bad = match max {
            Max::Unbounded => too_many(min),
            Max::At(max) => too_many(min) || too_many(max) || max < min,
        };
        if bad {
            return Err(fail("invalid repeat count", &before[..consumed]));
        }
        self.repetition(before, last)
    }

    fn perl_group(&mut self) -> Result<(), String> {
        let rest = self.rest;
        let named = if rest.starts_with("(?P<") {
            Some(4)
        } else if rest.starts_with("(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(start) = named {
            let Some(end) = rest.find('>') else {
                return Err(fail("invalid named capture", rest));
            };
            let name = &rest[start..end];
            let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(word) {
                return Err(fail("invalid named capture", &rest[..=end]));
            }
            // Captures are not read, so a plain group will do and repeated names do no harm.
            return self.open("(", end + 1);
        }
        let mut negated = false;
        for (at, c) in rest.char_indices().skip(2) {
            let written = &rest[..at + c.len_utf8()];
            match c {
                'i' | 'm' | 's' | 'U' => {}
                '-' if !negated => negated = true,
                ':' => return self.open(written, written.len()),
                ')' if at > 2 && !written.ends_with("-)") => {
                    self.out.push_str(written);
                    self.rest = &rest[written.len()..];
                    return Ok(());
                }
                _ => return Err(fail("invalid or unsupported Perl syntax", written)),
            }
        }
        Err(fail("missing closing )", self.source))
    }

    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest;
        let Some(c) = rest[1..].chars().next() else {
            return Err(fail("trailing backslash at end of expression", ""));
        };
        match c {
            'A' | 'z' => self.emit(&rest[..2], 2, true),
            'b' => self.emit(r"(?-u:\b)", 2, true),
            'B' => self.emit(r"\B", 2, true),
            'Q' => {
                let literal = rest[2..].split(r"\E").next().unwrap_or("");
                let closed = rest[2 + literal.len()..].starts_with(r"\E");
                for c in literal.chars() {
                    push_literal(&mut self.out, c);
                }
                self.atom |= !literal.is_empty();
                self.rest = &rest[2 + literal.len() + if closed { 2 } else { 0 }..];
            }
            'p' | 'P' => {
                let (class, consumed) = unicode_class(rest)?;
                self.emit(&class, consumed, true);
            }
            _ => match perl_class(c) {
                Some((negated, set)) => {
                    let class = if negated {
                        format!("[^{set}]")
                    } else {
                        format!("[{set}]")
                    };
                    self.emit(&class, 2, true);
                }
                None => {
                    let (c, consumed) = escaped_char(rest)?;
                    push_literal(&mut self.out, c);
                    self.rest = &rest[consumed..];
                    self.atom = true;
                }
            },
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let missing = || fail("missing closing ]", whole);
        let mut rest = &whole[1..];
        self.out.push('[');
        if let Some(inside) = rest.strip_prefix('^') {
            self.out.push('^');
            rest = inside;
        }
        let mut first = true;
        while first || !rest.starts_with(']') {
            rest = class_item(&mut self.out, rest, missing)?;
            first = false;
        }
        self.out.push(']');
        self.rest = &rest[1..];
        self.atom = true;
        Ok(())
    }
}

enum Max {
    Unbounded,
    At(Option<u32>),
}

/// Reads `{n}`, `{n,}` or `{n,m}`; anything else is literal text. Numbers beyond all limits are `None`.
fn counted(rest: &str) -> Option<(Option<u32>, Max, usize)> {
    let end = rest.find('}')?;
    let inside = &rest[1..end];
    let number = |text: &str| -> Option<Option<u32>> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = text.len() > 1 && text.starts_with('0');
        (digits && !leading_zero).then(|| text.parse().ok())
    };
    let (min, max) = match inside.split_once(',') {
        None => {
            let count = number(inside)?;
            (count, Max::At(count))
        }
        Some((min, "")) => (number(min)?, Max::Unbounded),
        Some((min, max)) => (number(min)?, Max::At(number(max)?)),
    };
    Some((min, max, end + 1))
}

#[cfg(test)]
mod tests {
    use super::{compile, translate};

    fn check_match(pattern: &str, yes: &[&str], no: &[&str]) {
        let regex = compile(pattern).unwrap();
        for text in yes {
            assert!(regex.is_match(text), "{pattern} should match {text}");
        }
        for text in no {
            assert!(!regex.is_match(text), "{pattern} should not match {text}");
        }
    }

    fn check_error(pattern: &str, expected: &str) {
        assert_eq!(
            compile(pattern).unwrap_err(),
            format!("error parsing regexp: {expected}"),
            "{pattern}"
        );
    }

    #[test]
    fn perl_classes_are_ascii_as_in_go() {
        check_match(r"^\d+$", &["123"], &["١٢٣", "a"]);
        check_match(r"^[\w-]+$", &["a-b_9"], &["é"]);
        check_match(r"^\S+\s\S+$", &["a b"], &["ab"]);
        check_match(r"^[^\W_]+$", &["a9"], &["_", "é"]);
    }

    #[test]
    fn braces_that_do_not_count_are_literal() {
        check_match("^a{,5}$", &["a{,5}"], &["aa"]);
        check_match(r"^\{\{x}}$", &["{{x}}"], &["x"]);
        check_match("^{$", &["{"], &[]);
    }

    #[test]
    fn classes_do_not_nest() {
        check_match("^[[]$", &["["], &["a"]);
        check_match("^[a&&b]+$", &["a&b"], &["c"]);
        check_match("^[]a]+$", &["]a"], &["b"]);
        check_match("^[[:alpha:]]+$", &["abc"], &["1"]);
    }

    #[test]
    fn quoted_and_escaped_text_is_literal() {
        check_match(r"^\Qa.b*\E$", &["a.b*"], &["axb"]);
        check_match(r"^\<a\>$", &["<a>"], &["a"]);
        check_match(r"^\x41\x{42}\103$", &["ABC"], &[]);
    }

    #[test]
    fn refuses_with_the_words_of_go() {
        check_error("a(b", "missing closing ): `a(b`");
        check_error("a)b", "unexpected ): `a)b`");
        check_error("[a", "missing closing ]: `[a`");
        check_error("*a", "missing argument to repetition operator: `*`");
        check_error("a**", "invalid nested repetition operator: `**`");
        check_error("a{2}{3}", "invalid nested repetition operator: `{2}{3}`");
        check_error("a{1001}", "invalid repeat count: `{1001}`");
        check_error("a{3,2}", "invalid repeat count: `{3,2}`");
        check_error("(?=a)", "invalid or unsupported Perl syntax: `(?=`");
        check_error("(?x)a", "invalid or unsupported Perl syntax: `(?x`");
        check_error(r"\y", r"invalid escape sequence: `\y`");
        check_error(r"\1", r"invalid escape sequence: `\1`");
        check_error(r"a\", "trailing backslash at end of expression: ``");
        check_error("[z-a]", "invalid character class range: `z-a`");
        check_error(r"\p{Nope}", r"invalid character class range: `\p{Nope}`");
    }

    #[test]
    fn bounds_nesting_and_size() {
        let deep = format!("{}a{}", "(".repeat(300), ")".repeat(300));
        assert!(translate(&deep).is_err());
        assert!(compile(r"(\p{L}{1000}){1000}").is_err());
    }
}
