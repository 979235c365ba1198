//! Values as JSON and as text, for who sends them on.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Map as JsonMap, Number, Value as Json};

use crate::{
    eval_error::{Eval, EvalError},
    library::text_of,
    value::{Entries, Items, Key, Value},
};

impl Value<'_> {
    /// The value as JSON. Times and lengths of time are strings, as `string()` makes them; bytes are base64; an absent
    /// optional is `null`.
    ///
    /// # Errors
    /// A number that JSON cannot express, or a map with keys that cannot be those of JSON.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        Ok(match self {
            Value::Null | Value::Optional(None) => Json::Null,
            Value::Bool(b) => (*b).into(),
            Value::Int(i) => (*i).into(),
            Value::Uint(u) => (*u).into(),
            Value::Double(d) => Number::from_f64(*d)
                .map(Json::Number)
                .ok_or("not a number that JSON can express")?,
            Value::String(s) => (**s).into(),
            Value::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
            Value::Optional(Some(value)) => value.to_json()?,
            Value::List(list) => match &list.items {
                Items::Json(items) => Json::Array((*items).clone()),
                Items::Made(items) => items.iter().map(Value::to_json).collect::<Eval<Vec<_>>>()?.into(),
            },
            Value::Map(map) => match &map.entries {
                Entries::Json(entries) => Json::Object((*entries).clone()),
                Entries::Made(entries) => {
                    let pairs = entries.values();
                    let pair = |(key, value): &(Value<'_>, Value<'_>)| Ok((key.to_text()?, value.to_json()?));
                    Json::Object(pairs.map(pair).collect::<Eval<JsonMap<_, _>>>()?)
                }
            },
            Value::Type(t) => t.name().into(),
            Value::Duration(_) | Value::Timestamp(_) | Value::Opaque(_) => self.to_text()?.into(),
        })
    }

    /// The value with nothing borrowed, to outlive its data.
    ///
    /// # Errors
    /// Data that does not have its declared shape.
    pub fn detached(&self) -> Result<Value<'static>, EvalError> {
        Ok(match self {
            Value::String(s) => Value::text(&**s),
            Value::Optional(value) => match value {
                Some(value) => Value::some(value.detached()?),
                None => Value::Optional(None),
            },
            Value::List(list) => {
                let items = list.iter().map(|item| item?.detached());
                Value::list(items.collect::<Eval<Vec<_>>>()?)
            }
            Value::Map(map) => {
                let mut entries = BTreeMap::new();
                for key in map.keys() {
                    let value = map.find(&key)?.unwrap_or(Value::Null).detached()?;
                    let key = key.detached()?;
                    let hash = Key::of(&key).ok_or("unsupported key type")?;
                    entries.insert(hash, (key, value));
                }
                Value::map(entries)
            }
            Value::Null => Value::Null,
            Value::Bool(b) => Value::Bool(*b),
            Value::Int(i) => Value::Int(*i),
            Value::Uint(u) => Value::Uint(*u),
            Value::Double(d) => Value::Double(*d),
            Value::Bytes(bytes) => Value::Bytes(bytes.clone()),
            Value::Duration(nanos) => Value::Duration(*nanos),
            Value::Timestamp(t) => Value::Timestamp(*t),
            Value::Type(t) => Value::Type(t.clone()),
            Value::Opaque(opaque) => Value::Opaque(opaque.clone()),
        })
    }

    /// The value as it stands in a text: strings without quotes, lists and maps as JSON, nothing for `null`.
    ///
    /// # Errors
    /// As of [`to_json`](Self::to_json).
    pub fn to_text(&self) -> Result<String, EvalError> {
        match self {
            Value::Null | Value::Optional(None) => Ok(String::new()),
            Value::Optional(Some(value)) => value.to_text(),
            Value::List(_) | Value::Map(_) => Ok(self.to_json()?.to_string()),
            Value::Bytes(_) | Value::Type(_) => Ok(self.to_json()?.as_str().unwrap_or_default().to_owned()),
            Value::Opaque(opaque) => Ok(opaque
                .to_string()
                .split_once(' ')
                .map_or_else(String::new, |(_, text)| text.to_owned())),
            _ => text_of(self),
        }
    }
}
