//! Paths into a schema, as selectable fields and rules write them.

use super::props::{AdditionalProps, Props};

/// Whether a path may name fields in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    DotsAndBrackets,
    DotsOnly,
}

/// Where a path leads.
pub(super) struct Found<'a> {
    /// The first name.
    pub(super) root: String,
    /// The path in one spelling.
    pub(super) path: String,
    pub(super) schema: Props<'a>,
}

/// Follows a path such as `.spec.host` or `.spec['host']` through a schema.
pub(super) fn find<'a>(path: &str, schema: Props<'a>, notation: Notation) -> Result<Found<'a>, String> {
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
                descend(&mut found, &name.replace("\\'", "'"))?;
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

fn descend(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    let invalid = || "does not refer to a valid field".to_owned();
    let has_properties = found
        .schema
        .object("properties")
        .is_some_and(|map| !map.0.is_empty());
    if has_properties {
        found.schema = found.schema.property(name).ok_or_else(invalid)?;
        if !found.path.is_empty() {
            found.path.push('.');
        }
        found.path.push_str(name);
    } else if let AdditionalProps::Schema(values) = found.schema.additional() {
        found.schema = values;
        found.path.push_str(&format!("[{name}]"));
    } else {
        return Err(invalid());
    }
    if found.root.is_empty() {
        name.clone_into(&mut found.root);
    }
    Ok(())
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
