//! Paths of fields as people write them, and whether a change touches one.

use std::{fmt, str::FromStr};

use serde_json::Value;
use skopos_object::FieldChange;

/// A path of fields with `[*]` for every item, such as `spec.containers[*].image`. It stands for what is there and all
/// that is below.
///
/// Items of lists are told by their name, as in `spec.containers[name=web]`; keys with dots stand in brackets, as in
/// `metadata.labels[example.com/app]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A field, a key, an index or an item, as `name=web`.
    Name(String),
    /// Every item or key.
    Any,
}

/// A text is not a path of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a path of fields: {why}")]
pub struct BadPath {
    text: String,
    why: &'static str,
}

impl FieldPattern {
    /// Whether a change of one field, whose path is given in parts, touches this.
    pub(crate) fn touches(&self, path: &[String], change: &FieldChange) -> bool {
        let agree = self.parts.iter().zip(path).all(|(part, name)| part.is(name));
        if !agree {
            return false;
        }
        // The change is at or below the path, or it is above: then what is at the path may still be the same.
        let below = self.parts.get(path.len()..).unwrap_or_default();
        below.is_empty() || differs(change.old.as_ref(), change.new.as_ref(), below)
    }

    /// Whether a path, given in parts, is this or below it.
    pub(crate) fn covers(&self, path: &[String]) -> bool {
        path.len() >= self.parts.len() && self.parts.iter().zip(path).all(|(part, name)| part.is(name))
    }

    /// Whether everything this stands for is also below `other`.
    pub(crate) fn is_within(&self, other: &FieldPattern) -> bool {
        let covers = |(ours, theirs): (&Part, &Part)| *theirs == Part::Any || ours == theirs;
        self.parts.len() >= other.parts.len() && self.parts.iter().zip(&other.parts).all(covers)
    }

    /// Whether a value at the path fulfils a condition.
    pub(crate) fn any(&self, root: &Value, test: &dyn Fn(&Value) -> bool) -> bool {
        any(root, &self.parts, test)
    }
}

impl Part {
    fn is(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(own) => own == name,
        }
    }
}

fn any(value: &Value, parts: &[Part], test: &dyn Fn(&Value) -> bool) -> bool {
    let Some((part, rest)) = parts.split_first() else {
        return test(value);
    };
    match part {
        Part::Name(name) => child(value, name).is_some_and(|value| any(value, rest, test)),
        Part::Any => match value {
            Value::Array(items) => items.iter().any(|item| any(item, rest, test)),
            Value::Object(fields) => fields.values().any(|field| any(field, rest, test)),
            _ => false,
        },
    }
}

fn differs(old: Option<&Value>, new: Option<&Value>, parts: &[Part]) -> bool {
    let Some((part, rest)) = parts.split_first() else {
        return old != new;
    };
    match part {
        Part::Name(name) => differs(at(old, name), at(new, name), rest),
        Part::Any => {
            let mut names = names(old).into_iter().chain(names(new));
            names.any(|name| differs(at(old, &name), at(new, &name), rest))
        }
    }
}

fn at<'v>(value: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    child(value?, name)
}

/// What an item or a field is called.
fn names(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => (0..items.len()).map(|index| index.to_string()).collect(),
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn child<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => match name.split_once('=') {
            Some((key, id)) => items
                .iter()
                .find(|item| item.get(key).and_then(Value::as_str) == Some(id)),
            None => items.get(name.parse::<usize>().ok()?),
        },
        _ => None,
    }
}

impl FromStr for FieldPattern {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let parts = split(text).map_err(|why| BadPath {
            text: text.to_owned(),
            why,
        })?;
        let part = |name: Piece| match name {
            Piece::Plain(name) if name == "*" => Part::Any,
            Piece::Plain(name) | Piece::Quoted(name) => Part::Name(name),
        };
        Ok(Self {
            text: text.to_owned(),
            parts: parts.into_iter().map(part).collect(),
        })
    }
}

impl fmt::Display for FieldPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The parts of a path as a diff writes it.
pub(crate) fn parts(path: &str) -> Vec<String> {
    let name = |piece: Piece| match piece {
        Piece::Plain(name) | Piece::Quoted(name) => name,
    };
    split(path).unwrap_or_default().into_iter().map(name).collect()
}

enum Piece {
    Plain(String),
    Quoted(String),
}

fn split(text: &str) -> Result<Vec<Piece>, &'static str> {
    if text.starts_with('/') {
        return Err("write dots, as in spec.replicas");
    }
    let mut rest = text.strip_prefix('.').unwrap_or(text);
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (piece, after) = bracket(inside)?;
            pieces.push(piece);
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 || rest[..end].contains(']') {
                return Err("a name is missing, or a bracket was not opened");
            }
            pieces.push(Piece::Plain(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() || after.starts_with('[') {
                return Err("a name is missing after the dot");
            }
            rest = after;
        } else if !rest.is_empty() && !rest.starts_with('[') {
            return Err("expected a dot or a bracket");
        }
    }
    match pieces.is_empty() {
        true => Err("it is empty"),
        false => Ok(pieces),
    }
}

/// What stands in brackets, and what follows them: `*]`, `0]`, `name=web]`, `"a.b"]`, `'a.b']`, `a.b/c]`.
fn bracket(inside: &str) -> Result<(Piece, &str), &'static str> {
    let open = "a bracket is not closed";
    let keyed = inside
        .find('=')
        .filter(|at| inside[..*at].bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let (key, value) = inside.split_at(keyed.map_or(0, |at| at + 1));
    if let Some(text) = value.strip_prefix('\'') {
        let end = text.find("']").ok_or(open)?;
        return Ok((Piece::Quoted(format!("{key}{}", &text[..end])), &text[end + 2..]));
    }
    if value.starts_with('"') {
        let mut read = serde_json::Deserializer::from_str(value).into_iter::<String>();
        let text = read.next().and_then(Result::ok).ok_or(open)?;
        let after = value[read.byte_offset()..].strip_prefix(']').ok_or(open)?;
        return Ok((Piece::Quoted(format!("{key}{text}")), after));
    }
    let end = value.find(']').ok_or(open)?;
    if end == 0 && key.is_empty() {
        return Err("brackets are empty: write [*] for every item");
    }
    Ok((Piece::Plain(format!("{key}{}", &value[..end])), &value[end + 1..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skopos_object::diff;

    use super::*;

    fn touches(pattern: &str, old: &Value, new: &Value) -> bool {
        let pattern: FieldPattern = pattern.parse().unwrap();
        let changes = diff(old, new);
        changes
            .iter()
            .any(|change| pattern.touches(&parts(&change.path), change))
    }

    #[test]
    fn changes_at_below_and_above_a_path_touch_it() {
        let old = json!({"metadata": {"labels": {"example.com/app": "a", "tier": "x"}},
            "spec": {"replicas": 1, "containers": [{"name": "web", "image": "a"}, {"name": "log", "image": "b"}]}});
        let mut image = old.clone();
        image["spec"]["containers"][0]["image"] = "c".into();
        let mut label = old.clone();
        label["metadata"]["labels"]["example.com/app"] = "b".into();
        for (pattern, of_image, of_label) in [
            ("spec", true, false),
            ("spec.containers", true, false),
            ("spec.containers[*].image", true, false),
            ("spec.containers[name=web].image", true, false),
            ("spec.containers[name=log]", false, false),
            ("spec.containers[*].name", false, false),
            ("spec.replicas", false, false),
            ("metadata.labels", false, true),
            ("metadata.labels[example.com/app]", false, true),
            ("metadata.labels[\"example.com/app\"]", false, true),
            ("metadata.labels['example.com/app']", false, true),
            (".metadata.labels[*]", false, true),
            ("metadata.labels.tier", false, false),
        ] {
            assert_eq!(touches(pattern, &old, &image), of_image, "{pattern}");
            assert_eq!(touches(pattern, &old, &label), of_label, "{pattern}");
        }
        let bare = json!({"metadata": {}});
        for (pattern, expect) in [
            ("spec.replicas", true),
            ("spec.containers[*].image", true),
            ("spec.containers[name=web].image", true),
            ("spec.paused", false),
            ("metadata.labels.tier", true),
            ("metadata.labels.none", false),
        ] {
            assert_eq!(touches(pattern, &old, &bare), expect, "{pattern}");
            assert_eq!(touches(pattern, &bare, &old), expect, "{pattern}");
        }
    }

    #[test]
    fn paths_that_are_none_are_told() {
        for (text, why) in [
            ("", "it is empty"),
            ("/spec/replicas", "write dots"),
            ("spec..a", "a name is missing"),
            ("spec.", "a name is missing after the dot"),
            ("spec[", "a bracket is not closed"),
            ("spec[]", "write [*]"),
            ("spec[a]b", "expected a dot"),
            ("spec]", "a name is missing"),
        ] {
            let error = text.parse::<FieldPattern>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn odd_keys_of_diffs_are_read_back() {
        let old = json!({"m": {"[b]": 1, "": 2, "a.b": 3, "\"q\"": 4}});
        let new = json!({"m": {"[b]": 2, "": 3, "a.b": 4, "\"q\"": 5}});
        let mut keys: Vec<String> = diff(&old, &new)
            .iter()
            .map(|change| parts(&change.path)[1].clone())
            .collect();
        keys.sort();
        assert_eq!(keys, ["", "\"q\"", "[b]", "a.b"]);
    }
}
