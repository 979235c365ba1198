//! One step of a path into an object: a field, a list item by key or by value, or an index.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;
use skopos_object::{json, quote};

use crate::gofmt;

/// One step of a path. Ordered as managedFields orders them.
#[derive(Debug, Clone)]
pub(super) enum Element {
    Field(Box<str>),
    /// The key fields of a map list's item, sorted by name.
    Key(Box<[(Box<str>, Value)]>),
    /// An item of a set.
    Value(Value),
    Index(i64),
}

/// Why the name of a step could not be read.
pub(super) enum ElementError {
    /// A kind of step that a later version may know: to be ignored.
    Unknown,
    Broken(String),
}

impl Element {
    pub(super) fn field(name: &str) -> Element {
        Element::Field(name.into())
    }

    pub(super) fn key(mut fields: Vec<(Box<str>, Value)>) -> Element {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Element::Key(fields.into())
    }

    /// Reads a step as fieldsV1 spells it: `f:name`, `k:{"name":"a"}`, `v:"a"` or `i:0`.
    pub(super) fn parse(text: &str) -> Result<Element, ElementError> {
        let broken = |why: String| ElementError::Broken(why);
        if text.len() < 2 {
            return Err(broken("key must be 2 characters long:".to_owned()));
        }
        let (Some(kind), Some(rest)) = (text.get(..1), text.get(2..)) else {
            return Err(broken(format!("missing colon: {text}")));
        };
        if text.as_bytes()[1] != b':' {
            return Err(broken(format!("missing colon: {text}")));
        }
        match kind {
            "f" => Ok(Element::field(rest)),
            "v" => Ok(Element::Value(value(rest)?)),
            "k" => match value(rest)? {
                Value::Object(map) => Ok(Element::key(
                    map.into_iter()
                        .map(|(name, value)| (name.into(), value))
                        .collect(),
                )),
                _ => Err(broken(format!("not an object: {rest}"))),
            },
            "i" => rest
                .parse()
                .map(Element::Index)
                .map_err(|_| broken(format!("strconv.Atoi: parsing {}: invalid syntax", quote(rest)))),
            _ => Err(ElementError::Unknown),
        }
    }

    /// The step as fieldsV1 spells it.
    pub(super) fn text(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| {
                        format!("{}:{}", Value::from(name.as_ref()), json::to_go_string(value))
                    })
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Element::Value(value) => format!("v:{}", json::to_go_string(value)),
            Element::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

fn value(text: &str) -> Result<Value, ElementError> {
    match json::decode(text.as_bytes()) {
        Ok(decoded) => Ok(decoded.value),
        Err(error) => Err(ElementError::Broken(error.to_string())),
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => {
                for ((a, left), (b, right)) in a.iter().zip(b) {
                    let order = a.cmp(b).then_with(|| order(left, right));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (Element::Value(a), Element::Value(b)) => order(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// A total order of values: numbers, texts, booleans, lists, maps, null.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => {
                let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
                a.partial_cmp(&b).unwrap_or(Ordering::Equal)
            }
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let items = a.iter().zip(b).map(|(a, b)| order(a, b));
            first(items).then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let fields = a
                .iter()
                .zip(b)
                .map(|(a, b)| a.0.cmp(b.0).then_with(|| order(a.1, b.1)));
            first(fields).then(a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn first(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", readable(value)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
            Element::Value(value) => write!(f, "[={}]", readable(value)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn readable(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(readable).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| format!("{name}={}", readable(value)))
            .collect(),
        Value::Bool(_) | Value::Number(_) => gofmt::plain(value),
    }
}

/// A path as messages show it: `.spec.ports[port=80].name`.
pub(super) fn path_text(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}
