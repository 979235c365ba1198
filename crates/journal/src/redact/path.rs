//! The paths of fields that are left out, as people write them.
//!
//! A path that is accepted and never finds anything lets through what it should hide. So whatever looks like another
//! notation is refused.

use std::{borrow::Cow, fmt};

/// The path of a field, such as `spec.password`, `spec.users[*].token`, `spec.containers[name=web].env`,
/// `metadata.annotations[example.com/key]` or `data.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(pub(super) Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of an object, or an item of a list by number.
    Named(String),
    /// The items of a list that are called so.
    Item { key: String, value: String },
    /// Every field or item.
    Every,
}

/// A text is not the path of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not the path of a field: {what}")]
pub struct BadPath {
    path: String,
    what: &'static str,
}

impl FieldPath {
    /// Reads a path.
    pub fn parse(path: &str) -> Result<Self, BadPath> {
        steps(path).map(Self).map_err(|what| BadPath {
            path: path.into(),
            what,
        })
    }
}

fn steps(path: &str) -> Result<Vec<Step>, &'static str> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('.').unwrap_or(path);
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inside) => in_brackets(inside)?,
            None => plain(rest)?,
        };
        steps.push(step);
        rest = match after.strip_prefix('.') {
            Some(after) => after,
            None if after.is_empty() || after.starts_with('[') => after,
            None => return Err("a dot or a bracket is missing"),
        };
    }
    match steps.first() {
        None => Err("it is empty"),
        Some(Step::Item { .. }) => Err("an object is no list: begin with a field"),
        Some(_) if names_identity(&steps) => Err("what an object is known by cannot be taken out of it"),
        Some(_) => Ok(steps),
    }
}

/// A step without brackets, and what follows it.
fn plain(text: &str) -> Result<(Step, &str), &'static str> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    if name.is_empty() {
        return Err("there is nothing between two dots");
    }
    if name.starts_with('/') {
        return Err("write dots, as in spec.password");
    }
    if name.contains('\\') {
        return Err("write a key with dots in brackets, as in data[a.b]");
    }
    if name.contains('*') && name != "*" {
        return Err("a * stands for a whole name");
    }
    if name.contains(['$', '{', '}', ']', '\'', '"']) || name.contains(char::is_whitespace) {
        return Err("write it as spec.password, spec.users[*].token or data[a.b]");
    }
    Ok((Step::new(name)?, after))
}

/// What stands in brackets, and what follows them: `*]`, `0]`, `name=web]`, `name='web']`, `a.b/c]`, `"a.b"]`.
fn in_brackets(inside: &str) -> Result<(Step, &str), &'static str> {
    let open = "a [ has no ]";
    let value = match inside.split_once('=') {
        Some((key, value)) if is_key(key) => value,
        _ => inside,
    };
    let key = &inside[..inside.len() - value.len()];
    let quote = value.chars().next().filter(|first| ['\'', '"'].contains(first));
    let Some(quote) = quote else {
        let (text, after) = inside.split_once(']').ok_or(open)?;
        return Ok((in_bare_brackets(text.trim())?, after));
    };
    let (text, after) = value[1..].split_once(&format!("{quote}]")).ok_or(open)?;
    Ok((Step::new(&format!("{key}{text}"))?, after))
}

fn in_bare_brackets(text: &str) -> Result<Step, &'static str> {
    let is_numbers = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"-:,".contains(&byte));
    if text.is_empty() {
        return Err("brackets are empty: write [*] for every item");
    }
    if is_numbers && text.parse::<usize>().is_err() {
        return Err("write one position, counted from 0, or [*] for every item");
    }
    if text.starts_with(['?', '(', '@']) {
        return Err("write [name=web] for the items of that name, or [*] for every item");
    }
    Step::new(text)
}

impl Step {
    fn new(text: &str) -> Result<Self, &'static str> {
        match text.split_once('=') {
            None if text == "*" => Ok(Self::Every),
            None => Ok(Self::Named(text.into())),
            Some((key, "*")) if is_key(key) => Ok(Self::Every),
            Some((key, value)) if is_key(key) && !value.starts_with('=') => Ok(Self::Item {
                key: key.trim().into(),
                value: value.trim().into(),
            }),
            Some(_) => Err("write [name=web] for the items of that name"),
        }
    }

    /// As the name of a field.
    pub(super) fn field(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Named(name) => Some(name.into()),
            Self::Item { key, value } => Some(format!("{key}={value}").into()),
            Self::Every => None,
        }
    }
}

/// Whether this can be the field by which items are told apart.
fn is_key(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.trim().is_empty() && text.trim().bytes().all(is_of_name)
}

/// Whether taking this out would make one object look like another.
fn names_identity(path: &[Step]) -> bool {
    let identity = ["name", "namespace", "uid", "resourceVersion", "generation"];
    let first = match path.first() {
        Some(Step::Every) => Some("metadata".into()),
        Some(step) => step.field(),
        None => None,
    };
    match first.as_deref() {
        Some("apiVersion" | "kind") => true,
        Some("metadata") => match path.get(1) {
            Some(Step::Named(field)) => identity.contains(&field.as_str()),
            Some(Step::Item { .. } | Step::Every) | None => true,
        },
        _ => false,
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Every => f.write_str("[*]")?,
                Step::Item { key, value } => write!(f, "[{key}={value}]")?,
                Step::Named(name) if name.contains('.') => write!(f, "[{name}]")?,
                Step::Named(name) if i == 0 => f.write_str(name)?,
                Step::Named(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_make_no_sense_are_refused() {
        for path in [
            "",
            ".",
            "a..b",
            "a[b",
            "a['b]",
            "a]",
            "a[b]c",
            "metadata",
            "metadata.name",
            "metadata[*]",
            "metadata[name=web]",
            "*",
            "kind",
            "[name=web]",
        ] {
            assert!(FieldPath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn other_notations_are_refused() {
        for path in [
            "/spec/password",
            "$.spec.password",
            "{.spec.password}",
            " spec.password",
            "data.app\\.properties",
            "spec.*token",
            "spec.users[].token",
            "spec.users[-1].token",
            "spec.users[0:2].token",
            "spec.users[?(@.name=='web')].token",
            "spec.users[name==web].token",
            "spec.users[name!=web].token",
        ] {
            assert!(FieldPath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn paths_are_shown_as_they_are_meant() {
        for (path, shown) in [
            (".spec.users[*].token", "spec.users[*].token"),
            ("spec.users.*.token", "spec.users[*].token"),
            ("spec.users[name=*].token", "spec.users[*].token"),
            ("spec.users[ name = web ].token", "spec.users[name=web].token"),
            ("spec.users[name='a]b'][0]", "spec.users[name=a]b].0"),
            ("data['a.b']", "data[a.b]"),
        ] {
            assert_eq!(FieldPath::parse(path).unwrap().to_string(), shown, "{path:?}");
        }
    }
}
