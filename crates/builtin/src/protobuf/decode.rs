//! Bytes to JSON.

use serde_json::{Map, Value, json};

use super::wire::{Reader, Wire};
use super::{MAGIC, MAX_DEPTH, ProtobufError};
use crate::base64;
use crate::time::{self, Moment, Precision};
use crate::types::{self, Field, Ty, Type};

type Result<T> = std::result::Result<T, ProtobufError>;

/// The outer message of every body.
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

pub(super) fn envelope(bytes: &[u8]) -> Result<Envelope<'_>> {
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
    };
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        let Wire::Bytes(bytes) = value else { continue };
        match number {
            1 => {
                let mut inner = Reader::new(bytes);
                while let Some((number, value)) = inner.field()? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => envelope.api_version = string(text),
                        (2, Wire::Bytes(text)) => envelope.kind = string(text),
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = bytes,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Decodes a message of a type of the table.
pub(super) fn message(ty: &'static Type, bytes: &[u8], depth: usize) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    fields(ty, [0; 3], 0, bytes, depth, &mut map)?;
    Ok(map)
}

/// `path` holds the numbers of the inlined messages around, `level` says how many.
fn fields(
    ty: &'static Type,
    path: [u32; 3],
    level: usize,
    bytes: &[u8],
    depth: usize,
    map: &mut Map<String, Value>,
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        let mut path = path;
        path[level] = number;
        if let Some(field) = ty.fields.iter().find(|f| f.numbers == path) {
            put(field, value, depth, map)?;
        } else if let (true, Wire::Bytes(bytes)) = (level < 2, value) {
            let inlined = |f: &Field| f.numbers[..=level] == path[..=level] && f.numbers[level + 1] != 0;
            if ty.fields.iter().any(inlined) {
                fields(ty, path, level + 1, bytes, depth + 1, map)?;
            }
        }
    }
    Ok(())
}

fn put(field: &'static Field, value: Wire<'_>, depth: usize, map: &mut Map<String, Value>) -> Result<()> {
    match &field.ty {
        Ty::List(item) => {
            let list = map.entry(field.name).or_insert_with(|| json!([]));
            let Value::Array(items) = list else { return Ok(()) };
            match (&**item, value) {
                (Ty::Int32 | Ty::Int64, Wire::Bytes(packed)) => {
                    let mut reader = Reader::new(packed);
                    while !reader.is_empty() {
                        items.push(reader.varint()?.cast_signed().into());
                    }
                }
                (item, value) => items.push(self::value(item, value, depth)?),
            }
        }
        Ty::Map(item) => {
            let entries = map.entry(field.name).or_insert_with(|| json!({}));
            let Value::Object(entries) = entries else {
                return Ok(());
            };
            if let Wire::Bytes(bytes) = value {
                let (key, value) = entry(item, bytes, depth)?;
                entries.insert(key, value);
            }
        }
        ty => drop(map.insert(field.name.to_owned(), self::value(ty, value, depth)?)),
    }
    Ok(())
}

fn entry(item: &Ty, bytes: &[u8], depth: usize) -> Result<(String, Value)> {
    let mut key = String::new();
    // An absent value is the empty one: the same bytes as no bytes.
    let mut found = match item {
        Ty::Int32 | Ty::Int64 | Ty::Bool => value(item, Wire::Varint(0), depth)?,
        Ty::List(_) => json!([]),
        _ => value(item, Wire::Bytes(&[]), depth)?,
    };
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        match (number, wire, item) {
            (1, Wire::Bytes(text), _) => key = string(text),
            // A list in a map is a message with the items as its first field.
            (2, Wire::Bytes(bytes), Ty::List(inner)) => {
                found = Value::Array(repeated(inner, 1, bytes, depth)?);
            }
            (2, wire, item) => found = value(item, wire, depth)?,
            _ => {}
        }
    }
    Ok((key, found))
}

fn repeated(item: &Ty, field: u32, bytes: &[u8], depth: usize) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        if number == field {
            items.push(value(item, wire, depth)?);
        }
    }
    Ok(items)
}

fn value(ty: &Ty, wire: Wire<'_>, depth: usize) -> Result<Value> {
    Ok(match (ty, wire) {
        (Ty::Bool, Wire::Varint(number)) => (number != 0).into(),
        // Go reads 32 bits of a 32 bit field.
        (Ty::Int32, Wire::Varint(number)) => (number as u32).cast_signed().into(),
        (Ty::Int64, Wire::Varint(number)) => number.cast_signed().into(),
        (Ty::Float, Wire::Fixed64(bits)) => float(f64::from_bits(bits)),
        (_, Wire::Bytes(bytes)) => delimited(ty, bytes, depth)?,
        _ => Value::Null,
    })
}

/// Whole numbers are integers, as everywhere else in the server.
fn float(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        (number as i64).into()
    } else {
        number.into()
    }
}

fn delimited(ty: &Ty, bytes: &[u8], depth: usize) -> Result<Value> {
    Ok(match ty {
        Ty::String | Ty::Duration => string(bytes).into(),
        Ty::Bytes => base64::encode(bytes).into(),
        Ty::Object(id) => Value::Object(message(id.get(), bytes, depth + 1)?),
        Ty::Time => moment(bytes, Precision::Seconds)?,
        Ty::MicroTime => moment(bytes, Precision::Micros)?,
        Ty::Quantity => inner(bytes)?.map_or_else(|| "0".into(), |text| string(text).into()),
        Ty::IntOrString => int_or_string(bytes)?,
        Ty::RawExtension | Ty::FieldsV1 | Ty::Json => raw(bytes)?,
        Ty::SchemaOrArray | Ty::SchemaOrBool | Ty::SchemaOrStrings => schema(ty, bytes, depth)?,
        _ => Value::Null,
    })
}

fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first field of a message that wraps one string or one run of bytes.
fn inner(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if let (1, Wire::Bytes(bytes)) = (number, value) {
            found = Some(bytes);
        }
    }
    Ok(found)
}

/// Free JSON; in a watch event it is a whole body.
fn raw(bytes: &[u8]) -> Result<Value> {
    let Some(bytes) = inner(bytes)? else {
        return Ok(Value::Null);
    };
    if bytes.starts_with(MAGIC) {
        return super::decode(bytes).map(|(_, object)| object);
    }
    Ok(serde_json::from_slice(bytes).unwrap_or(Value::Null))
}

fn moment(bytes: &[u8], precision: Precision) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut moment = Moment { seconds: 0, nanos: 0 };
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Wire::Varint(seconds)) => moment.seconds = seconds.cast_signed(),
            (2, Wire::Varint(nanos)) => moment.nanos = u32::try_from(nanos).unwrap_or(0).min(999_999_999),
            _ => {}
        }
    }
    // Years one to 9999, the span that the text can hold.
    if !(-62_135_596_800..=253_402_300_799).contains(&moment.seconds) {
        return Err(ProtobufError::Value("timestamp out of range".to_owned()));
    }
    Ok(time::format(moment, precision).into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        match (field, value) {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            (2, Wire::Varint(value)) => number = (value as u32).cast_signed(),
            (3, Wire::Bytes(bytes)) => text = string(bytes),
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// The alternatives of a JSON schema: a schema in field 1 (or 2), else a bool, schemas or strings.
fn schema(ty: &Ty, bytes: &[u8], depth: usize) -> Result<Value> {
    let Some(props) = types::find("apiextensions.v1.JSONSchemaProps") else {
        return Ok(Value::Null);
    };
    let mut found = match ty {
        Ty::SchemaOrBool => false.into(),
        _ => Value::Null,
    };
    let (mut items, mut is_schema) = (Vec::new(), false);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        match (ty, number, wire) {
            (Ty::SchemaOrBool, 1, Wire::Varint(on)) if !is_schema => found = (on != 0).into(),
            (Ty::SchemaOrBool, 2, Wire::Bytes(bytes))
            | (Ty::SchemaOrArray | Ty::SchemaOrStrings, 1, Wire::Bytes(bytes)) => {
                found = Value::Object(message(props.get(), bytes, depth + 1)?);
                is_schema = true;
            }
            (Ty::SchemaOrArray, 2, Wire::Bytes(bytes)) => {
                items.push(Value::Object(message(props.get(), bytes, depth + 1)?));
            }
            (Ty::SchemaOrStrings, 2, Wire::Bytes(bytes)) => items.push(string(bytes).into()),
            _ => {}
        }
    }
    Ok(if items.is_empty() {
        found
    } else {
        Value::Array(items)
    })
}
