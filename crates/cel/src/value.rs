//! Values: borrowed from JSON as long as nothing new is made.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::{
    decl::{Decl, List as ListDecl, Object, Shape},
    eval_error::{Eval, EvalError},
    opaque::Opaque,
    time,
    types::Type,
};

/// What an expression evaluates to.
///
/// `'a` is the life of the data and of the program: strings, lists and maps point into them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A 64-bit integer without sign.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string.
    String(Str<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// A type.
    Type(Type),
    /// An optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a function library: a quantity, an address, ...
    Opaque(Opaque),
}

/// Text, borrowed or made.
#[derive(Debug, Clone)]
pub enum Str<'a> {
    /// Points into the data or the program.
    Borrowed(&'a str),
    /// Made by the expression.
    Shared(Arc<str>),
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Str::Borrowed(text) => text,
            Str::Shared(text) => text,
        }
    }
}

/// A list, borrowed or made.
#[derive(Debug, Clone)]
pub struct List<'a> {
    pub(crate) items: Items<'a>,
    /// Set for data of a declared shape.
    pub(crate) decl: Option<&'a ListDecl>,
}

#[derive(Debug, Clone)]
pub(crate) enum Items<'a> {
    Json(&'a Vec<Json>),
    Made(Arc<Vec<Value<'a>>>),
}

/// A map or an object, borrowed or made.
#[derive(Debug, Clone)]
pub struct Map<'a> {
    pub(crate) entries: Entries<'a>,
    pub(crate) shape: MapShape<'a>,
}

#[derive(Debug, Clone)]
pub(crate) enum Entries<'a> {
    Json(&'a serde_json::Map<String, Json>),
    Made(Arc<BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum MapShape<'a> {
    Dyn,
    Map(&'a Decl),
    Object(&'a Object),
}

/// A map key by which numbers are equal whatever their type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'a> {
    Bool(bool),
    Number(i128),
    Fraction(u64),
    String(KeyStr<'a>),
}

/// A string that compares by its text.
#[derive(Debug, Clone)]
pub(crate) struct KeyStr<'a>(pub(crate) Str<'a>);

impl PartialEq for KeyStr<'_> {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Eq for KeyStr<'_> {}

impl PartialOrd for KeyStr<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyStr<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self.0).cmp(&*other.0)
    }
}

impl<'a> Key<'a> {
    pub(crate) fn of(value: &Value<'a>) -> Option<Key<'a>> {
        Some(match value {
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Number((*i).into()),
            Value::Uint(u) => Key::Number((*u).into()),
            #[expect(clippy::cast_possible_truncation, reason = "only whole numbers in range")]
            Value::Double(d) if d.fract() == 0.0 && d.abs() < 1e20 => Key::Number(*d as i128),
            Value::Double(d) => Key::Fraction(d.to_bits()),
            Value::String(s) => Key::String(KeyStr(s.clone())),
            _ => return None,
        })
    }
}

impl<'a> Value<'a> {
    /// JSON of no declared shape.
    #[must_use]
    pub fn from_json(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => match n.as_i64() {
                Some(i) => Value::Int(i),
                None => Value::Double(n.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(s) => Value::String(Str::Borrowed(s)),
            Json::Array(items) => Value::List(List {
                items: Items::Json(items),
                decl: None,
            }),
            Json::Object(entries) => Value::Map(Map {
                entries: Entries::Json(entries),
                shape: MapShape::Dyn,
            }),
        }
    }

    /// JSON of a declared shape. Data of another shape is an error, as it is for kube-apiserver.
    pub(crate) fn declared(json: &'a Json, decl: &'a Decl) -> Eval<Value<'a>> {
        let value = match (&decl.shape, json) {
            (_, Json::Null) => Value::Null,
            (Shape::Dyn, json) => Value::from_json(json),
            (Shape::IntOrString, Json::String(_) | Json::Number(_)) => Value::from_json(json),
            (Shape::Bool, Json::Bool(b)) => Value::Bool(*b),
            (Shape::Int, Json::Number(n)) => match n.as_i64() {
                Some(i) => Value::Int(i),
                None => return Err(mismatch("int", json)),
            },
            (Shape::Uint, Json::Number(n)) => match n.as_u64() {
                Some(u) => Value::Uint(u),
                None => return Err(mismatch("uint", json)),
            },
            (Shape::Double, Json::Number(n)) => Value::Double(n.as_f64().unwrap_or(f64::NAN)),
            (Shape::String, Json::String(s)) => Value::String(Str::Borrowed(s)),
            (Shape::Bytes, Json::String(s)) => bytes(s)?,
            (Shape::Duration, Json::String(s)) => time::schema_duration(s)?,
            (Shape::Date, Json::String(s)) => time::schema_date(s)?,
            (Shape::Timestamp, Json::String(s)) => time::schema_date_time(s)?,
            (Shape::List(list), Json::Array(items)) => Value::List(List {
                items: Items::Json(items),
                decl: Some(list),
            }),
            (Shape::Map(value), Json::Object(entries)) => Value::Map(Map {
                entries: Entries::Json(entries),
                shape: MapShape::Map(value),
            }),
            (Shape::Object(object), Json::Object(entries)) => Value::Map(Map {
                entries: Entries::Json(entries),
                shape: MapShape::Object(object),
            }),
            (Shape::List(_), _) => {
                return Err("invalid data, expected an array for the provided schema with type=array".into());
            }
            (Shape::Map(_) | Shape::Object(_), _) => {
                return Err("invalid data, expected a map for the provided schema with type=object".into());
            }
            (Shape::IntOrString, _) => {
                let message = "invalid data, expected XIntOrString value to be either a string or integer";
                return Err(message.into());
            }
            (Shape::Bool, _) => return Err(mismatch("bool", json)),
            (Shape::Int | Shape::Uint, _) => return Err(mismatch("int", json)),
            (Shape::Double, _) => return Err(mismatch("float", json)),
            _ => return Err(mismatch("string", json)),
        };
        Ok(value)
    }

    /// A string of its own.
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Str::Shared(text.into()))
    }

    /// A list of its own.
    #[must_use]
    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List {
            items: Items::Made(Arc::new(items)),
            decl: None,
        })
    }

    /// A map of its own; keys must be strings, numbers or booleans.
    pub(crate) fn map(entries: BTreeMap<Key<'a>, (Value<'a>, Value<'a>)>) -> Value<'a> {
        Value::Map(Map {
            entries: Entries::Made(Arc::new(entries)),
            shape: MapShape::Dyn,
        })
    }

    pub(crate) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The type of the value, without that of what it contains.
    #[must_use]
    pub fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Type(_) => Type::TypeOf(None),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Opaque(opaque) => Type::Opaque(opaque.type_name()),
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The text, if it is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }
}

fn mismatch(expected: &str, json: &Json) -> EvalError {
    let found = match json {
        Json::Null => "nil",
        Json::Bool(_) => "bool",
        Json::Number(n) if n.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    format!("invalid data, expected {expected}, got {found}").into()
}

fn bytes<'a>(text: &str) -> Eval<Value<'a>> {
    use base64::Engine as _;
    match base64::engine::general_purpose::STANDARD.decode(text) {
        Ok(bytes) => Ok(Value::Bytes(bytes.into())),
        Err(error) => Err(format!("Invalid byte formatted string {text}: {error}").into()),
    }
}

impl<'a> List<'a> {
    /// How many items.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.items {
            Items::Json(items) => items.len(),
            Items::Made(items) => items.len(),
        }
    }

    /// Whether it has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One item; an error if the data does not have the declared shape.
    ///
    /// # Panics
    /// If there is no such item.
    pub(crate) fn get(&self, index: usize) -> Eval<Value<'a>> {
        match &self.items {
            Items::Json(items) => match self.decl {
                Some(decl) => Value::declared(&items[index], &decl.item),
                None => Ok(Value::from_json(&items[index])),
            },
            Items::Made(items) => Ok(items[index].clone()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Eval<Value<'a>>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn to_vec(&self) -> Eval<Vec<Value<'a>>> {
        self.iter().collect()
    }
}

impl<'a> Map<'a> {
    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::Json(entries) => entries.len(),
            Entries::Made(entries) => entries.len(),
        }
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, if it is there.
    pub(crate) fn find(&self, key: &Value<'a>) -> Eval<Option<Value<'a>>> {
        match &self.entries {
            Entries::Made(entries) => {
                let Some(key) = Key::of(key) else {
                    return Ok(None);
                };
                Ok(entries.get(&key).map(|(_, value)| value.clone()))
            }
            Entries::Json(_) => match key {
                Value::String(name) => self.find_str(name),
                _ if matches!(self.shape, MapShape::Dyn) => Ok(None),
                _ => Err("no such overload".into()),
            },
        }
    }

    /// The value of a string key, if it is there.
    pub(crate) fn find_str(&self, name: &str) -> Eval<Option<Value<'a>>> {
        let entries = match &self.entries {
            Entries::Made(_) => return self.find(&Value::text(name)),
            Entries::Json(entries) => *entries,
        };
        match self.shape {
            MapShape::Dyn => Ok(entries.get(name).map(Value::from_json)),
            MapShape::Map(decl) => entries
                .get(name)
                .map(|json| Value::declared(json, decl))
                .transpose(),
            MapShape::Object(object) => {
                let Some(field) = object.field(name) else {
                    return Ok(None);
                };
                match entries.get(&*field.name) {
                    None | Some(Json::Null) => Ok(None),
                    Some(json) => Value::declared(json, &field.decl).map(Some),
                }
            }
        }
    }

    /// The keys in their order.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match &self.entries {
            Entries::Made(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
            Entries::Json(entries) => match self.shape {
                MapShape::Dyn | MapShape::Map(_) => {
                    let key = |k: &'a String| Value::String(Str::Borrowed(k));
                    entries.keys().map(key).collect()
                }
                MapShape::Object(object) => {
                    let present = object
                        .fields()
                        .iter()
                        .filter(|field| entries.contains_key(&*field.name));
                    present
                        .map(|f| Value::String(Str::Borrowed(&f.escaped)))
                        .collect()
                }
            },
        }
    }
}
