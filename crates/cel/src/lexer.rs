//! Splits an expression into tokens.

use crate::source::Issues;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    End,
    Ident,
    /// A name in backquotes.
    EscapedIdent,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    True,
    False,
    Null,
    In,
    /// An operator or a bracket; the text tells which.
    Punct(&'static str),
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lexeme<'s> {
    pub(crate) token: Token,
    pub(crate) text: &'s str,
    /// Code point offset.
    pub(crate) at: u32,
}

/// Longer ones first.
const PUNCTUATION: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

/// All tokens, the last of which is [`Token::End`]. Text that is no token is noted and skipped.
pub(crate) fn tokens<'s>(source: &'s str, issues: &mut Issues<'_>) -> Vec<Lexeme<'s>> {
    let mut lexer = Lexer { rest: source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let at = lexer.at;
        if lexer.rest.is_empty() {
            tokens.push(Lexeme {
                token: Token::End,
                text: "<EOF>",
                at,
            });
            return tokens;
        }
        match lexer.scan() {
            Ok((token, len)) => {
                let text = lexer.take(len);
                tokens.push(Lexeme { token, text, at });
            }
            Err(len) => {
                let text = lexer.take(len);
                let shown = text
                    .replace('\n', "\\n")
                    .replace('\r', "\\r")
                    .replace('\t', "\\t");
                issues.at(at, format!("Syntax error: token recognition error at: '{shown}'"));
            }
        }
    }
}

struct Lexer<'s> {
    rest: &'s str,
    at: u32,
}

impl<'s> Lexer<'s> {
    fn take(&mut self, len: usize) -> &'s str {
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.at += u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        text
    }

    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.len()
                - self
                    .rest
                    .trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}'])
                    .len();
            let comment = match self.rest[blank..].starts_with("//") {
                true => self.rest[blank..].find('\n').unwrap_or(self.rest.len() - blank),
                false => 0,
            };
            if blank + comment == 0 {
                return;
            }
            self.take(blank + comment);
        }
    }

    /// The next token and its length in bytes, or the length of what cannot be one.
    fn scan(&self) -> Result<(Token, usize), usize> {
        let bytes = self.rest.as_bytes();
        match bytes[0] {
            b'"' | b'\'' => string(self.rest, 0).map(|len| (Token::String, len)),
            b'0'..=b'9' => Ok(number(bytes)),
            b'.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => Ok(number(bytes)),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'`' => self.escaped_ident(),
            _ => self.punctuation(),
        }
    }

    fn word(&self) -> Result<(Token, usize), usize> {
        let bytes = self.rest.as_bytes();
        let is_quote = |at: usize| matches!(bytes.get(at), Some(b'"' | b'\''));
        let is_raw = |at: usize| matches!(bytes.get(at), Some(b'r' | b'R'));
        let is_bytes = matches!(bytes[0], b'b' | b'B');
        if is_raw(0) && is_quote(1) {
            return string(self.rest, 1).map(|len| (Token::String, len));
        }
        if is_bytes && is_quote(1) {
            return string(self.rest, 1).map(|len| (Token::Bytes, len));
        }
        if is_bytes && is_raw(1) && is_quote(2) {
            return string(self.rest, 2).map(|len| (Token::Bytes, len));
        }
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let len = bytes.iter().position(|b| !is_word(b)).unwrap_or(bytes.len());
        let token = match &self.rest[..len] {
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            "in" => Token::In,
            _ => Token::Ident,
        };
        Ok((token, len))
    }

    fn escaped_ident(&self) -> Result<(Token, usize), usize> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
        let len = self.rest[1..]
            .find(|c| !is_name(c))
            .unwrap_or(self.rest.len() - 1);
        match self.rest[1 + len..].starts_with('`') && len > 0 {
            true => Ok((Token::EscapedIdent, len + 2)),
            false => Err(1 + len),
        }
    }

    fn punctuation(&self) -> Result<(Token, usize), usize> {
        match PUNCTUATION.iter().find(|p| self.rest.starts_with(**p)) {
            Some(text) => Ok((Token::Punct(text), text.len())),
            None => Err(self.rest.chars().next().map_or(1, char::len_utf8)),
        }
    }
}

fn number(bytes: &[u8]) -> (Token, usize) {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let unsigned = |at: usize| matches!(bytes.get(at), Some(b'u' | b'U'));
    if bytes.starts_with(b"0x") {
        let hex = bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if hex > 0 {
            return match unsigned(2 + hex) {
                true => (Token::Uint, 3 + hex),
                false => (Token::Int, 2 + hex),
            };
        }
    }
    let whole = digits(0);
    let mut len = whole;
    let mut is_double = false;
    if bytes.get(len) == Some(&b'.') && digits(len + 1) > 0 {
        len += 1 + digits(len + 1);
        is_double = true;
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = match len + 1 + sign <= bytes.len() {
            true => digits(len + 1 + sign),
            false => 0,
        };
        if exponent > 0 {
            len += 1 + sign + exponent;
            is_double = true;
        }
    }
    match is_double {
        true => (Token::Double, len),
        false if unsigned(len) => (Token::Uint, len + 1),
        false => (Token::Int, len),
    }
}

/// The length of a string literal whose quote is at `open`, or of the part that cannot become one.
fn string(text: &str, open: usize) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let raw = open > 0 && matches!(bytes[open - 1], b'r' | b'R');
    let quote = bytes[open];
    let triple = bytes[open..].starts_with(&[quote; 3]);
    let mut at = open + if triple { 3 } else { 1 };
    while at < bytes.len() {
        let b = bytes[at];
        if b == quote && (!triple || bytes[at..].starts_with(&[quote; 3])) {
            return Ok(at + if triple { 3 } else { 1 });
        }
        if b == b'\\' && !raw {
            match escape_len(&bytes[at..]) {
                Some(len) => at += len,
                None => return Err(next_boundary(text, at + 1)),
            }
            continue;
        }
        if !triple && matches!(b, b'\n' | b'\r') {
            return Err(at);
        }
        at += 1;
    }
    // An unclosed triple quote is an empty string and the rest, unless nothing else can follow.
    match triple {
        true => Ok(open + 2),
        false => Err(bytes.len()),
    }
}

fn next_boundary(text: &str, mut at: usize) -> usize {
    at = (at + 1).min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// The length of an escape sequence, if it is one.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    let hex = |n: usize| {
        let digits = bytes.get(2..2 + n)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(2 + n)
    };
    match bytes.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => Some(2),
        b'x' | b'X' => hex(2),
        b'u' => hex(4),
        b'U' => hex(8),
        b'0'..=b'3' => {
            let octal = bytes.get(2..4)?;
            octal.iter().all(|b| matches!(b, b'0'..=b'7')).then_some(4)
        }
        _ => None,
    }
}
