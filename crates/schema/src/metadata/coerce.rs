//! Brings a metadata object into the form that a typed decoder and encoder would give it.

use serde_json::{Map, Value};

use crate::clock::{format_rfc3339, parse_rfc3339};

/// What to do with metadata fields of the wrong type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// Fail on the first one.
    Reject,
    /// Leave them out.
    Drop,
}

/// Metadata that does not decode, in the words of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A field has the wrong type.
    #[error("json: cannot unmarshal {found} into Go {place} of type {expected}")]
    Type {
        /// The JSON type found.
        found: String,
        /// The field, or `value` for the metadata itself.
        place: String,
        /// The Go type expected.
        expected: &'static str,
    },
    /// A timestamp does not parse.
    #[error("parsing time {0:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {0:?} as \"2006\"")]
    Time(String),
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Text(&'static str),
    Integer,
    OptionalInteger,
    Boolean,
    Time,
    OptionalTime,
    Texts,
    TextMap,
    List(&'static Struct),
    /// Any JSON object.
    Raw,
}

#[derive(Debug)]
struct Struct {
    name: &'static str,
    go_type: &'static str,
    fields: &'static [(&'static str, Shape)],
}

const STRING: Shape = Shape::Text("string");
const UID: Shape = Shape::Text("types.UID");

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    go_type: "v1.ObjectMeta",
    fields: &[
        ("annotations", Shape::TextMap),
        ("creationTimestamp", Shape::Time),
        ("deletionGracePeriodSeconds", Shape::OptionalInteger),
        ("deletionTimestamp", Shape::OptionalTime),
        ("finalizers", Shape::Texts),
        ("generateName", STRING),
        ("generation", Shape::Integer),
        ("labels", Shape::TextMap),
        ("managedFields", Shape::List(&MANAGED_FIELDS)),
        ("name", STRING),
        ("namespace", STRING),
        ("ownerReferences", Shape::List(&OWNER_REFERENCE)),
        ("resourceVersion", STRING),
        ("selfLink", STRING),
        ("uid", UID),
    ],
};

static OWNER_REFERENCE: Struct = Struct {
    name: "OwnerReference",
    go_type: "[]v1.OwnerReference",
    fields: &[
        ("apiVersion", STRING),
        ("blockOwnerDeletion", Shape::Boolean),
        ("controller", Shape::Boolean),
        ("kind", STRING),
        ("name", STRING),
        ("uid", UID),
    ],
};

static MANAGED_FIELDS: Struct = Struct {
    name: "ManagedFieldsEntry",
    go_type: "[]v1.ManagedFieldsEntry",
    fields: &[
        ("apiVersion", STRING),
        ("fieldsType", STRING),
        ("fieldsV1", Shape::Raw),
        ("manager", STRING),
        ("operation", Shape::Text("v1.ManagedFieldsOperationType")),
        ("subresource", STRING),
        ("time", Shape::OptionalTime),
    ],
};

/// Decodes and re-encodes a `metadata` object: unknown and empty fields go, times become UTC.
///
/// Returns the paths of unknown fields relative to the metadata, in order.
///
/// # Errors
/// With [`Invalid::Reject`], fails on the first field of the wrong type.
pub fn coerce_metadata(metadata: &mut Value, invalid: Invalid) -> Result<Vec<String>, MetadataError> {
    let mut unknown = Vec::new();
    let Value::Object(map) = metadata else {
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
            return Ok(unknown);
        }
        return Err(MetadataError::Type {
            found: json_type(metadata),
            place: "value".to_owned(),
            expected: OBJECT_META.go_type,
        });
    };
    structure(&OBJECT_META, map, "", invalid, &mut unknown)?;
    Ok(unknown)
}

fn structure(
    shape: &Struct,
    map: &mut Map<String, Value>,
    prefix: &str,
    invalid: Invalid,
    unknown: &mut Vec<String>,
) -> Result<(), MetadataError> {
    let mut failure = None;
    map.retain(|name, value| {
        let path = format!("{prefix}{name}");
        let Ok(at) = shape
            .fields
            .binary_search_by(|(known, _)| (*known).cmp(name.as_str()))
        else {
            unknown.push(path);
            return false;
        };
        match field(shape, shape.fields[at].1, value, &path, invalid, unknown) {
            Ok(keep) => keep,
            Err(error) => {
                failure.get_or_insert(error);
                false
            }
        }
    });
    match failure {
        Some(error) if invalid == Invalid::Reject => Err(error),
        _ => Ok(()),
    }
}

/// Coerces one field and returns whether it stays. Empty values are what an encoder leaves out.
fn field(
    owner: &Struct,
    shape: Shape,
    value: &mut Value,
    path: &str,
    invalid: Invalid,
    unknown: &mut Vec<String>,
) -> Result<bool, MetadataError> {
    let wrong = |value: &Value, expected: &'static str| MetadataError::Type {
        found: json_type(value),
        place: format!("struct field {}.{}", owner.name, without_indexes(path)),
        expected,
    };
    if value.is_null() {
        return Ok(false);
    }
    match (shape, &mut *value) {
        (Shape::Text(_), Value::String(text)) => Ok(!text.is_empty() || owner.name == "OwnerReference"),
        (Shape::Text(expected), other) => Err(wrong(other, expected)),
        (Shape::Integer, Value::Number(number)) if number.is_i64() => Ok(number.as_i64() != Some(0)),
        (Shape::OptionalInteger, Value::Number(number)) if number.is_i64() => Ok(true),
        (Shape::Integer | Shape::OptionalInteger, other) => Err(wrong(other, "int64")),
        (Shape::Boolean, Value::Bool(_)) => Ok(true),
        (Shape::Boolean, other) => Err(wrong(other, "bool")),
        (Shape::Time | Shape::OptionalTime, Value::String(text)) => {
            let seconds = parse_rfc3339(text).ok_or_else(|| MetadataError::Time(text.clone()))?;
            *text = format_rfc3339(seconds);
            Ok(true)
        }
        (Shape::Time | Shape::OptionalTime, other) => Err(wrong(other, "string")),
        (Shape::Texts, Value::Array(items)) => match items.iter().find(|item| !item.is_string()) {
            Some(item) => Err(wrong(item, "string")),
            None => Ok(!items.is_empty()),
        },
        (Shape::Texts, other) => Err(wrong(other, "[]string")),
        (Shape::TextMap, Value::Object(map)) => {
            for item in map.values_mut().filter(|item| item.is_null()) {
                *item = "".into();
            }
            match map.values().find(|item| !item.is_string()) {
                Some(item) => Err(wrong(item, "string")),
                None => Ok(!map.is_empty()),
            }
        }
        (Shape::TextMap, other) => Err(wrong(other, "map[string]string")),
        (Shape::List(shape), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                let Value::Object(map) = item else {
                    return Err(wrong(item, shape.go_type.trim_start_matches("[]")));
                };
                structure(shape, map, &format!("{path}[{index}]."), invalid, unknown)?;
            }
            Ok(!items.is_empty())
        }
        (Shape::List(shape), other) => Err(wrong(other, shape.go_type)),
        (Shape::Raw, _) => Ok(true),
    }
}

/// The path as Go's decoder writes it in errors: without list indexes.
fn without_indexes(path: &str) -> String {
    path.split('[')
        .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest))
        .collect()
}

fn json_type(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}
