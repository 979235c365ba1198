//! Tokens of a label selector.

/// What a piece of the selector is. Its text is beside it in [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// A token and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) token: Token,
    pub(super) text: &'a str,
}

/// Cuts the selector into tokens, the last of which is [`Token::End`]. A NUL byte ends the text.
pub(super) fn scan(selector: &str) -> Vec<Item<'_>> {
    let end = selector.find('\0').unwrap_or(selector.len());
    let mut rest = &selector[..end];
    let mut items = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if rest.is_empty() {
            items.push(Item {
                token: Token::End,
                text: "",
            });
            return items;
        }
        let (item, length) = if is_symbol(rest.as_bytes()[0]) {
            symbol(rest)
        } else {
            word(rest)
        };
        items.push(item);
        rest = &rest[length..];
    }
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn word(rest: &str) -> (Item<'_>, usize) {
    let length = rest
        .bytes()
        .position(|b| is_symbol(b) || is_blank(b))
        .unwrap_or(rest.len());
    let text = &rest[..length];
    let token = match text {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    };
    (Item { token, text }, length)
}

fn symbol(rest: &str) -> (Item<'_>, usize) {
    // Two-character operators first: the longest match wins.
    let two = rest.get(..2).unwrap_or("");
    let token = match two {
        "==" => Token::DoubleEquals,
        "!=" => Token::NotEquals,
        _ => match rest.as_bytes()[0] {
            b')' => Token::Close,
            b'(' => Token::Open,
            b',' => Token::Comma,
            b'!' => Token::Not,
            b'=' => Token::Equals,
            b'>' => Token::Greater,
            _ => Token::Less,
        },
    };
    let length = if matches!(token, Token::DoubleEquals | Token::NotEquals) {
        2
    } else {
        1
    };
    (
        Item {
            token,
            text: &rest[..length],
        },
        length,
    )
}
