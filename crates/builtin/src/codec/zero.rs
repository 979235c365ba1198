//! Zero values: what Go writes for a field that nobody set.

use serde_json::{Map, Value};

use crate::types::{Field, Id, Ty};

/// The value of an absent field, or None when the field is left out.
pub(crate) fn absent(field: &'static Field) -> Option<Value> {
    if field.pointer || field.omitzero {
        return if field.omitempty || field.omitzero {
            None
        } else {
            Some(Value::Null)
        };
    }
    match &field.ty {
        // Structs have no empty value, so omitempty does not touch them.
        Ty::Object(_)
        | Ty::Time
        | Ty::MicroTime
        | Ty::Quantity
        | Ty::IntOrString
        | Ty::RawExtension
        | Ty::Json => Some(of(&field.ty)),
        _ if field.omitempty => None,
        ty => Some(of(ty)),
    }
}

/// The zero value of a type.
pub(super) fn of(ty: &Ty) -> Value {
    match ty {
        Ty::String | Ty::Duration => "".into(),
        Ty::Bool => false.into(),
        Ty::Int32 | Ty::Int64 | Ty::Float | Ty::IntOrString => 0.into(),
        Ty::Quantity => "0".into(),
        Ty::Object(id) => object(*id),
        _ => Value::Null,
    }
}

/// Whether omitempty leaves a value out.
pub(super) fn is_empty(ty: &Ty, value: &Value) -> bool {
    match (ty, value) {
        (Ty::String | Ty::Bytes | Ty::Duration, Value::String(text)) => text.is_empty(),
        (Ty::Bool, Value::Bool(on)) => !on,
        (Ty::Int32 | Ty::Int64 | Ty::Float, Value::Number(number)) => number.as_f64() == Some(0.0),
        (Ty::List(_), Value::Array(items)) => items.is_empty(),
        (Ty::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

fn object(id: Id) -> Value {
    let mut map = Map::new();
    for field in &id.get().fields {
        if let Some(value) = absent(field) {
            map.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(map)
}
