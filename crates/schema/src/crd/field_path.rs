//! Paths into a schema, as selectable fields and rules write them.

use super::props::{AdditionalProps, Props};
use crate::structural::Structural;

/// Whether a path may name fields in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    DotsAndBrackets,
    DotsOnly,
}

/// A schema as far as paths see it.
pub(super) trait Fields: Copy {
    /// Whether its fields have names.
    fn has_names(self) -> bool;
    /// The schema of a named field.
    fn named(self, name: &str) -> Option<Self>;
    /// The schema of the values of a map.
    fn values(self) -> Option<Self>;
}

/// Where a path leads.
pub(super) struct Found<S> {
    /// The first name.
    pub(super) root: String,
    /// The path in one spelling.
    pub(super) path: String,
    pub(super) schema: S,
}

/// Follows a path such as `.spec.host` or `.spec['host']` through a schema.
pub(super) fn find<S: Fields>(path: &str, schema: S, notation: Notation) -> Result<Found<S>, String> {
    let mut found = Found {
        root: String::new(),
        path: String::new(),
        schema,
    };
    let mut tokens = Tokens { rest: path };
    while let Some(token) = tokens.next() {
        match token {
            "[" if notation == Notation::DotsOnly => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let token = tokens.next().ok_or("unexpected end of JSON path")?;
                let quoted = token.strip_prefix('\'').and_then(|tail| tail.strip_suffix('\''));
                let Some(name) = quoted else {
                    return Err(format!("expected single quoted string but got {token}"));
                };
                descend(&mut found, &unescape(name)?)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(token) => return Err(format!("expected ] but got {token}")),
                    None => return Err("unexpected end of JSON path".to_owned()),
                }
            }
            "." => {
                let name = tokens.next().ok_or("unexpected end of JSON path")?;
                descend(&mut found, name)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(first) = rest.next() {
        // A backslash at the very end stands for itself.
        let escaped = match first {
            '\\' => rest.next(),
            _ => None,
        };
        plain.push(match escaped {
            None => first,
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => {
                return Err(format!("invalid string literal: invalid escape char \\{other}"));
            }
        });
    }
    Ok(plain)
}

fn descend<S: Fields>(found: &mut Found<S>, name: &str) -> Result<(), String> {
    let invalid = || "does not refer to a valid field".to_owned();
    if found.schema.has_names() {
        found.schema = found.schema.named(name).ok_or_else(invalid)?;
        if !found.path.is_empty() {
            found.path.push('.');
        }
        found.path.push_str(name);
    } else {
        found.schema = found.schema.values().ok_or_else(invalid)?;
        found.path.push_str(&format!("[{name}]"));
    }
    if found.root.is_empty() {
        name.clone_into(&mut found.root);
    }
    Ok(())
}

impl Fields for Props<'_> {
    fn has_names(self) -> bool {
        self.object("properties").is_some_and(|map| !map.0.is_empty())
    }

    fn named(self, name: &str) -> Option<Self> {
        self.property(name)
    }

    fn values(self) -> Option<Self> {
        match self.additional() {
            AdditionalProps::Schema(values) => Some(values),
            AdditionalProps::Unset | AdditionalProps::Bool(_) => None,
        }
    }
}

impl Fields for &Structural {
    fn has_names(self) -> bool {
        self.properties().next().is_some()
    }

    fn named(self, name: &str) -> Option<Self> {
        self.property(name)
    }

    fn values(self) -> Option<Self> {
        self.additional_properties()
    }
}

struct Tokens<'p> {
    rest: &'p str,
}

impl<'p> Iterator for Tokens<'p> {
    type Item = &'p str;

    /// Splits at dots and brackets, which are tokens themselves. Quoted texts stay whole.
    fn next(&mut self) -> Option<&'p str> {
        let first = self.rest.chars().next()?;
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = self.rest.as_bytes();
                let close = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
                close.map_or(self.rest.len(), |at| at + 1)
            }
            _ => self.rest.find(['.', '[', ']']).unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}
