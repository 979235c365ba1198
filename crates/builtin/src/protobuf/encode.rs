//! JSON to bytes.

use serde_json::{Map, Value};

use super::MAGIC;
use super::wire::{put_bytes, put_double, put_number};
use crate::base64;
use crate::time::{self, Precision};
use crate::types::{self, Field, Ty, Type};

/// A whole body: magic and envelope.
pub(super) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut names = Vec::new();
    put_bytes(&mut names, 1, api_version.as_bytes());
    put_bytes(&mut names, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + names.len() + 24);
    out.extend_from_slice(MAGIC);
    put_bytes(&mut out, 1, &names);
    put_bytes(&mut out, 2, raw);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// A watch event around an encoded object.
pub(super) fn watch_event(event: &str, object: &[u8]) -> Vec<u8> {
    let mut extension = Vec::with_capacity(object.len() + 6);
    put_bytes(&mut extension, 1, object);
    let mut out = Vec::with_capacity(extension.len() + event.len() + 8);
    put_bytes(&mut out, 1, event.as_bytes());
    put_bytes(&mut out, 2, &extension);
    out
}

/// The message of an object; what its type does not know is left out.
pub(super) fn message(ty: &'static Type, map: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    fields(ty, &[], map, &mut out);
    out
}

/// Writes the fields below the inlined messages of `path`.
fn fields(ty: &'static Type, path: &[u32], map: &Map<String, Value>, out: &mut Vec<u8>) {
    let level = path.len();
    let mut inlined: Vec<u32> = Vec::new();
    for field in ty
        .fields
        .iter()
        .filter(|f| f.numbers[..level] == *path && f.numbers[level] != 0)
    {
        let number = field.numbers[level];
        let leaf = field.numbers.get(level + 1).is_none_or(|next| *next == 0);
        if leaf {
            if let Some(value) = map.get(field.name) {
                put(field, number, value, out);
            }
        } else if !inlined.contains(&number) {
            inlined.push(number);
            let mut inner = Vec::new();
            fields(ty, &[path, &[number]].concat(), map, &mut inner);
            put_bytes(out, number, &inner);
        }
    }
}

fn put(field: &'static Field, number: u32, value: &Value, out: &mut Vec<u8>) {
    match (&field.ty, value) {
        (Ty::List(item), Value::Array(items)) => {
            for value in items {
                put_value(item, number, value, out);
            }
        }
        (Ty::Map(item), Value::Object(map)) => {
            for (key, value) in map {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                put_entry(item, value, &mut entry);
                put_bytes(out, number, &entry);
            }
        }
        (_, Value::Null) => {}
        (ty, value) => put_value(ty, number, value, out),
    }
}

fn put_entry(item: &Ty, value: &Value, out: &mut Vec<u8>) {
    let Ty::List(inner) = item else {
        return put_value(item, 2, value, out);
    };
    let mut list = Vec::new();
    for value in value.as_array().into_iter().flatten() {
        put_value(inner, 1, value, &mut list);
    }
    put_bytes(out, 2, &list);
}

fn put_value(ty: &Ty, number: u32, value: &Value, out: &mut Vec<u8>) {
    match ty {
        Ty::Bool => put_number(out, number, i64::from(value.as_bool().unwrap_or(false))),
        Ty::Int32 | Ty::Int64 => put_number(out, number, value.as_i64().unwrap_or(0)),
        Ty::Float => put_double(out, number, value.as_f64().unwrap_or(0.0)),
        Ty::String | Ty::Duration => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Ty::Bytes => put_bytes(
            out,
            number,
            &base64::decode(value.as_str().unwrap_or_default()).unwrap_or_default(),
        ),
        other => put_bytes(out, number, &nested(other, value)),
    }
}

/// The message of a value that is one.
fn nested(ty: &Ty, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match (ty, value) {
        (Ty::Object(id), Value::Object(map)) => fields(id.get(), &[], map, &mut out),
        (Ty::Time, Value::String(text)) => put_moment(text, Precision::Seconds, &mut out),
        (Ty::MicroTime, Value::String(text)) => put_moment(text, Precision::Micros, &mut out),
        (Ty::Quantity, Value::String(text)) => put_bytes(&mut out, 1, text.as_bytes()),
        (Ty::IntOrString, Value::String(text)) => {
            put_number(&mut out, 1, 1);
            put_number(&mut out, 2, 0);
            put_bytes(&mut out, 3, text.as_bytes());
        }
        (Ty::IntOrString, value) => {
            put_number(&mut out, 1, 0);
            put_number(&mut out, 2, value.as_i64().unwrap_or(0));
            put_bytes(&mut out, 3, b"");
        }
        (Ty::FieldsV1, value) if !value.is_null() => {
            let mut text = Vec::new();
            skopos_schema::write_fields(value, &mut text);
            put_bytes(&mut out, 1, &text);
        }
        (Ty::RawExtension | Ty::Json, value) if !value.is_null() => {
            put_bytes(&mut out, 1, value.to_string().as_bytes());
        }
        (Ty::SchemaOrArray | Ty::SchemaOrBool | Ty::SchemaOrStrings, value) => {
            put_schema(ty, value, &mut out);
        }
        _ => {}
    }
    out
}

fn put_moment(text: &str, precision: Precision, out: &mut Vec<u8>) {
    if let Ok(moment) = time::parse(text, precision) {
        put_number(out, 1, moment.seconds);
        let nanos = if precision == Precision::Micros {
            i64::from(moment.nanos)
        } else {
            0
        };
        put_number(out, 2, nanos);
    }
}

fn put_schema(ty: &Ty, value: &Value, out: &mut Vec<u8>) {
    let Some(props) = types::find("apiextensions.v1.JSONSchemaProps") else {
        return;
    };
    match (ty, value) {
        (Ty::SchemaOrBool, Value::Bool(on)) => put_number(out, 1, i64::from(*on)),
        (Ty::SchemaOrBool, Value::Object(map)) => {
            put_number(out, 1, 1);
            put_bytes(out, 2, &message(props.get(), map));
        }
        (_, Value::Object(map)) => put_bytes(out, 1, &message(props.get(), map)),
        (_, Value::Array(items)) => {
            for item in items {
                match item {
                    Value::Object(map) => put_bytes(out, 2, &message(props.get(), map)),
                    Value::String(text) => put_bytes(out, 2, text.as_bytes()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
