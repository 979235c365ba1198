//! Reads JSONPath text into steps.

use serde_json::Value;

use super::{End, Filter, JsonPathError, Operator, Slice, Step};

const MAX_DEPTH: usize = 16;

pub(super) fn steps(text: &str, depth: usize) -> Result<Vec<Step>, JsonPathError> {
    if depth > MAX_DEPTH {
        return Err(JsonPathError::TooDeep);
    }
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = step(&mut out, rest, c, depth)?;
    }
    Ok(out)
}

fn step<'t>(out: &mut Vec<Step>, rest: &'t str, c: char, depth: usize) -> Result<&'t str, JsonPathError> {
    if let Some(inside) = rest.strip_prefix("[?(") {
        return filter(out, inside, depth);
    }
    if let Some(after) = rest.strip_prefix("..") {
        if out.last() == Some(&Step::Recursive) {
            return Err(JsonPathError::MultipleRecursion);
        }
        out.push(Step::Recursive);
        let named = after.starts_with(|c: char| c == '_' || c.is_alphanumeric());
        return if named { Ok(field(out, after)) } else { Ok(after) };
    }
    match c {
        ' ' | '@' | '$' => Ok(&rest[1..]),
        '[' => bracket(out, &rest[1..], depth),
        '"' | '\'' => quoted(out, rest, c),
        '.' => Ok(field(out, &rest[1..])),
        '+' | '-' | '0'..='9' => number(out, rest),
        c if c == '_' || c.is_alphanumeric() => word(out, rest),
        c => Err(JsonPathError::Unexpected(c)),
    }
}

fn is_terminator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

fn field<'t>(out: &mut Vec<Step>, rest: &'t str) -> &'t str {
    let mut name = String::new();
    let mut chars = rest.char_indices();
    let mut end = rest.len();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            name.extend(chars.next().map(|(_, escaped)| escaped));
        } else if is_terminator(c) {
            end = at;
            break;
        } else {
            name.push(c);
        }
    }
    out.push(if name == "*" {
        Step::Wildcard
    } else {
        Step::Field(name.into())
    });
    &rest[end..]
}

fn word<'t>(out: &mut Vec<Step>, rest: &'t str) -> Result<&'t str, JsonPathError> {
    let end = rest.find(is_terminator).unwrap_or(rest.len());
    match &rest[..end] {
        "true" => out.push(Step::Literal(Value::Bool(true))),
        "false" => out.push(Step::Literal(Value::Bool(false))),
        other => return Err(JsonPathError::Identifier(other.to_owned())),
    }
    Ok(&rest[end..])
}

fn number<'t>(out: &mut Vec<Step>, rest: &'t str) -> Result<&'t str, JsonPathError> {
    let sign = usize::from(rest.starts_with(['+', '-']));
    let digits = rest[sign..].find(|c: char| c != '.' && !c.is_ascii_digit());
    let end = digits.map_or(rest.len(), |at| at + sign);
    let text = &rest[..end];
    let value = match text.parse::<i64>() {
        Ok(integer) => Value::from(integer),
        Err(_) => text
            .parse::<f64>()
            .map(Value::from)
            .map_err(|_| JsonPathError::BadIndex(text.to_owned()))?,
    };
    out.push(Step::Literal(value));
    Ok(&rest[end..])
}

fn quoted<'t>(out: &mut Vec<Step>, rest: &'t str, quote: char) -> Result<&'t str, JsonPathError> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(|(_, escaped)| unescape(escaped))),
            c if c == quote => {
                out.push(Step::Literal(Value::String(text)));
                return Ok(&rest[at + 1..]);
            }
            c => text.push(c),
        }
    }
    Err(JsonPathError::Unterminated("quoted string"))
}

fn unescape(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        other => other,
    }
}

fn bracket<'t>(out: &mut Vec<Step>, inside: &'t str, depth: usize) -> Result<&'t str, JsonPathError> {
    let end = inside
        .find([']', '\n'])
        .filter(|at| inside[*at..].starts_with(']'));
    let Some(end) = end else {
        return Err(JsonPathError::Unterminated("array"));
    };
    let text = &inside[..end];
    let parts: Vec<&str> = text.split(',').collect();
    if let [_, _, ..] = parts.as_slice() {
        let branches = parts
            .iter()
            .map(|part| steps(&format!("[{}]", part.trim_matches(' ')), depth + 1));
        out.push(Step::Union(branches.collect::<Result<_, _>>()?));
    } else if let Some(key) = quoted_key(text) {
        out.extend(steps(&format!(".{key}"), depth + 1)?);
    } else {
        out.push(Step::Slice(slice(if text == "*" { ":" } else { text })?));
    }
    Ok(&inside[end + 1..])
}

fn quoted_key(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?
        .strip_suffix('\'')
        .filter(|key| !key.contains('\''))
}

fn slice(text: &str) -> Result<Slice, JsonPathError> {
    let bad = || JsonPathError::BadIndex(text.to_owned());
    let number = |part: &str| -> Result<Option<i64>, JsonPathError> {
        if part.is_empty() {
            Ok(None)
        } else {
            part.parse().map(Some).map_err(|_| bad())
        }
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (start, end, step) = match parts.as_slice() {
        [start] => (number(start)?, End::Single, None),
        [start, end] => (number(start)?, number(end)?.map_or(End::Open, End::At), None),
        [start, end, step] => (
            number(start)?,
            number(end)?.map_or(End::Open, End::At),
            number(step)?,
        ),
        _ => return Err(bad()),
    };
    Ok(Slice { start, end, step })
}

fn filter<'t>(out: &mut Vec<Step>, inside: &'t str, depth: usize) -> Result<&'t str, JsonPathError> {
    let end = filter_end(inside).ok_or(JsonPathError::Unterminated("filter"))?;
    let Some(after) = inside[end + 1..].strip_prefix(']') else {
        return Err(JsonPathError::Unterminated("array"));
    };
    let text = &inside[..end];
    let compared = text
        .find(['!', '<', '>', '='])
        .filter(|at| *at > 0)
        .and_then(|at| {
            let tail = &text[at..];
            let width = tail
                .find(|c| !matches!(c, '!' | '<' | '>' | '='))
                .unwrap_or(tail.len());
            (width < tail.len()).then(|| (&text[..at], &tail[..width], &tail[width..]))
        });
    let filter = match compared {
        None => Filter {
            left: steps(text, depth + 1)?,
            operator: Operator::Exists,
            right: Vec::new(),
        },
        Some((left, operator, right)) => Filter {
            left: steps(left, depth + 1)?,
            operator: operator_of(operator),
            right: steps(right, depth + 1)?,
        },
    };
    out.push(Step::Filter(Box::new(filter)));
    Ok(after)
}

/// Where the filter's closing parenthesis is, not counting parentheses inside one quoted text.
fn filter_end(inside: &str) -> Option<usize> {
    let mut quote: Option<char> = None;
    let mut closed = false;
    let mut previous = '\0';
    for (at, c) in inside.char_indices() {
        match (c, quote) {
            ('\n', _) => return None,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open && previous != '\\' => closed = true,
            (')', _) if quote.is_some() == closed => return Some(at),
            _ => {}
        }
        previous = c;
    }
    None
}

fn operator_of(text: &str) -> Operator {
    match text {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => Operator::Unknown,
    }
}
